package sqlitewarehouse

import (
	"math/rand/v2"
	"testing"

	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func TestAFilterMissesNothing(t *testing.T) {
	for _, keys := range []int{0, 1, 3, 4, 5, 1000, 100_000} {
		f := newFilter(keys)
		if f.keys() < keys || keys > 100 && f.keys() > 2*keys {
			t.Errorf("a filter for %d keys is good for %d", keys, f.keys())
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range keys {
			f.add(rng.Uint64() >> (64 - hashBits))
		}
		rng = rand.New(rand.NewPCG(1, 2))
		for range keys {
			if h := rng.Uint64() >> (64 - hashBits); !f.has(h) {
				t.Fatalf("of %d keys, %x is missing", keys, h)
			}
		}
		wrong := 0
		for range 10_000 {
			if f.has(rng.Uint64() >> (64 - hashBits)) {
				wrong++
			}
		}
		if keys >= 1000 && wrong > 300 {
			t.Errorf("with %d keys, %d of 10,000 others are found", keys, wrong)
		}
	}
	if f := newFilter(1 << 40); len(f.words)*8 != filterMost || !f.most() {
		t.Errorf("the largest filter has %d bytes, want %d", len(f.words)*8, filterMost)
	}
}

func TestNewEventsAreNotLookedUpOnceTheFilterIsFull(t *testing.T) {
	db := open(t)
	next := batches(7)
	s := few(t, db, 100)
	rows := next(2000)
	mustInsert(t, s, rows)
	s = few(t, db, 100)
	inserts := 0
	for ; !s.index.full; inserts++ {
		mustInsert(t, s, next(10))
		if inserts > 100 {
			t.Fatal("the filter is never filled")
		}
	}
	if inserts < 40 {
		t.Errorf("2,000 entries were read with %d inserts of 10 events; each reads 40", inserts)
	}
	looked := 0
	for range 100 {
		f := &flight{hashes: make([]uint64, 10), done: make(chan struct{})}
		for i, e := range next(10) {
			f.hashes[i] = s.index.hash(e.Project, e.ID)
		}
		if s.index.begin(f) != nil {
			t.Fatal("an insert waits though there is no other")
		}
		looked += len(f.look)
		s.index.end(f, chunk{}, false, nil)
	}
	if looked > 60 {
		t.Errorf("%d of 1,000 new events are looked up, want some 15", looked)
	}
	for i, took := range mustInsert(t, s, rows) {
		if took != warehouse.Again {
			t.Fatalf("row %d took %d, want Again", i, took)
		}
	}
}
