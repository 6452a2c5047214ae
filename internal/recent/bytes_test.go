package recent_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill/internal/recent"
)

// What is remembered of a key is what was put last, whatever came meanwhile.
func TestBytesAreThoseThatWerePutLast(t *testing.T) {
	b, last := recent.NewBytes(64<<10), map[string][]byte{}
	rnd := rand.New(rand.NewPCG(1, 2))
	type seen struct{ is, was []byte }
	var all []seen
	found := 0
	for range 100_000 {
		key := fmt.Append(nil, rnd.IntN(300))
		switch rnd.IntN(8) {
		case 0:
			b.Remove(key)
			delete(last, string(key))
		case 1, 2:
			v := bytes.Repeat([]byte{byte(rnd.IntN(256))}, rnd.IntN(1500))
			b.Put(key, v)
			last[string(key)] = bytes.Clone(v)
			clear(v) // its memory is the caller's
		default:
			v, has := b.Get(key)
			if !has {
				continue
			}
			if want, known := last[string(key)]; !known || !bytes.Equal(v, want) {
				t.Fatalf("key %s is %d bytes; want %d (%v)", key, len(v), len(want), known)
			}
			if found++; found%100 == 0 {
				all = append(all, seen{v, bytes.Clone(v)})
			}
		}
	}
	if found < 10_000 {
		t.Errorf("%d of about 60,000 were found", found)
	}
	for _, s := range all {
		if !bytes.Equal(s.is, s.was) {
			t.Fatal("a value has changed after it was given out")
		}
	}
}

// Two keys of one hash: the one that comes later is remembered, and of the other nothing of before.
func TestBytesOfOneHash(t *testing.T) {
	project := string(make([]byte, 16))
	one, other := []byte(project+`svLZxjS"8 bytes.8 bytes.8 bytes.Rs;ZEQUe8 bytes.`), []byte(project+`:1^OPW$r8 bytes.8 bytes.8 bytes.Uk*Pt<t{8 bytes.`)
	if xxhash.Sum64(one) != xxhash.Sum64(other) {
		t.Fatal("these keys are no case for it")
	}
	b := recent.NewBytes(64 << 10)
	b.Put(one, []byte("before"))
	for i := range 40 { // it is old now
		b.Put(fmt.Append(nil, i), make([]byte, 1000))
	}
	b.Put(one, []byte("after"))
	b.Put(other, []byte("another"))
	if v, has := b.Get(one); has && string(v) != "after" {
		t.Errorf("it is %q", v)
	}
	if v, has := b.Get(other); !has || string(v) != "another" {
		t.Errorf("the other is %q, %v", v, has)
	}
}

func TestBytesThatAreUsedStay(t *testing.T) {
	b, value := recent.NewBytes(1<<20), make([]byte, 1000)
	has := func(key string) bool { _, ok := b.Get([]byte(key)); return ok }
	b.Put([]byte("used"), value)
	b.Put([]byte("unused"), value)
	for i := range 400 {
		b.Put(fmt.Append(nil, i), value)
		if !has("used") {
			t.Fatalf("what is used is forgotten after %d others", i)
		}
	}
	if !has("0") || !has("399") {
		t.Error("400 values of 1,000 bytes are not remembered in 1 MiB")
	}
	for i := range 1200 {
		b.Put(fmt.Append(nil, "more", i), value)
		has("used")
	}
	if !has("used") || has("1") {
		t.Errorf("after 1,200 more, what is used is remembered: %v; what was not: %v", has("used"), has("1"))
	}
}

// Values of one key that come one after the other do not drive out the others.
func TestBytesThatAreReplacedTakeNoRoom(t *testing.T) {
	b := recent.NewBytes(1 << 20)
	for i := range 100 {
		b.Put(fmt.Append(nil, i), make([]byte, 1000))
	}
	for i := range 10_000 {
		b.Put([]byte("changes"), fmt.Append(make([]byte, 1000), i))
	}
	for i := range 100 {
		if _, has := b.Get(fmt.Append(nil, i)); !has {
			t.Fatalf("%d is forgotten, of 101 keys in 1 MiB", i)
		}
	}
}

func TestBytesThatAreTooLongAreForgotten(t *testing.T) {
	b := recent.NewBytes(1 << 20)
	b.Put([]byte("a"), []byte("old"))
	b.Put([]byte("a"), make([]byte, 1<<19))
	if v, has := b.Get([]byte("a")); has {
		t.Errorf("a value of half of the memory: %d bytes", len(v))
	}
}

func TestBytesTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const most = 16 << 20
	before := heap()
	b := recent.NewBytes(most)
	for i := range 1_000_000 {
		b.Put(fmt.Append(nil, "key", i), make([]byte, 40))
	}
	if took := heap() - before; took > most*5/4 || took < most/2 {
		t.Errorf("a million values took %d bytes; want about %d", took, most)
	}
	for i := range 500 { // of each block the half is left
		b.Put(fmt.Append(nil, "long", i), make([]byte, 132_000))
	}
	if took := heap() - before; took > most*5/4 || took < most/2 {
		t.Errorf("long values took %d bytes; want about %d", took, most)
	}
	runtime.KeepAlive(b)
}
