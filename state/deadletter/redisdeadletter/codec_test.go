package redisdeadletter

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

func FuzzMeta(f *testing.F) {
	f.Add([]byte(encodeMeta(&deadletter.Record{})))
	edited := sample()
	edited.Edited = time.UnixMilli(7).UTC()
	f.Add([]byte(encodeMeta(edited)))
	f.Add([]byte(encodeMeta(&deadletter.Record{Letter: deadletter.Letter{Message: tidemill.Message{ID: "id\xff", Tenant: "\x00", Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 2, Hi: 1<<64 - 1, Lo: 3}},
		Pipeline: "p\n", Kind: tidemill.Partner, First: time.UnixMilli(1).UTC(), State: deadletter.Replaying, Damaged: "x"}, Deaths: 3, Asked: 2, Epoch: 7, Until: time.UnixMilli(9).UTC()})))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := decodeMeta(in)
		if err != nil { // refusing is fine, panicking is not
			return
		}
		b, err := decodeMeta([]byte(encodeMeta(a)))
		if err != nil {
			t.Fatalf("decode what was encoded of %q: %v", in, err)
		}
		if x, y := encodeMeta(a), encodeMeta(b); x != y {
			t.Errorf("%q is encoded as %q, then as %q", in, x, y)
		}
	})
}

// sample is a dead letter with something in every field of its encodings.
func sample() *deadletter.Record {
	return &deadletter.Record{Letter: deadletter.Letter{Message: tidemill.Message{ID: "id", Tenant: "t", Type: "type", To: "q", Key: []byte("k"), Payload: []byte("payload"),
		Time: time.Date(2026, 3, 1, 12, 0, 0, 7, time.UTC), Priority: 9, Tries: 1, Handed: 2, Mark: tidemill.Mark{Shard: 1, Epoch: 2, Hi: 3, Lo: 4},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}}, Row: []byte(`{"r":1}`), Pipeline: "p", Kind: tidemill.Partner,
		First: time.UnixMilli(1772366400000).UTC(), Last: time.UnixMilli(1772366460000).UTC(), Replays: 1, State: deadletter.Replaying},
		Deaths: 2, Asked: 1, Handed: 1, Epoch: 5, Until: time.UnixMilli(1772366490000).UTC()}
}

// What is in a stream stays readable: a form that changes gets a new number.
func TestTheFormIsThatOfItsNumber(t *testing.T) {
	const letter = "0101090204747970650171016b80a9a19a0d07ffdb8ff9ce030001020102030401016e0176"
	const meta = "0101060102030402010101000580a8a8949567c0d1af94956700a0a6b39495670201700269640174"
	r := sample()
	r.Edited = time.UnixMilli(1).UTC()
	if b := encodeLetter(r, dataIsRow); fmt.Sprintf("%x", b[:len(b)-8]) != letter {
		t.Errorf("a letter is encoded as\n%x, want\n%s", b, letter)
	}
	if got := fmt.Sprintf("%x", encodeMeta(r)); got != meta {
		t.Errorf("a companion is encoded as\n%s, want\n%s", got, meta)
	}
	if _, err := decodeMeta([]byte{version + 1, 0, 0}); !errors.Is(err, errNewer) {
		t.Errorf("another form is read: %v", err)
	}
	if _, err := decodeLetter(append([]byte{version + 1}, encodeLetter(r, 0)[1:]...), new(tidemill.Message)); !errors.Is(err, errNewer) {
		t.Errorf("another form is read: %v", err)
	}
}

func FuzzLetter(f *testing.F) {
	r := sample()
	f.Add(encodeLetter(r, dataIsRow))
	r.Edited = time.UnixMilli(5).UTC()
	f.Add(encodeLetter(r, dataIsPayload))
	r.Message = tidemill.Message{ID: "id", Tenant: "t", Type: "t\xff", To: "\x00", Key: []byte("k"), Payload: []byte("payload"), Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		At: time.Date(9999, 1, 1, 0, 0, 0, 999999999, time.UTC), Priority: 9, Tries: 1, Handed: 2, Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 2, Hi: 1<<64 - 1, Lo: 4},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {}}}
	f.Add(encodeLetter(r, dataIsRow))
	f.Add([]byte{version, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		decode := func(b []byte) (*deadletter.Record, rest, error) {
			r := new(deadletter.Record)
			of, err := decodeLetter(b, &r.Message)
			r.Edited = of.edited
			return r, of, err
		}
		a, of, err := decode(in)
		if err != nil {
			return
		}
		again := encodeLetter(a, of.flags)
		b, of, err := decode(again)
		if err != nil {
			t.Fatalf("decode what was encoded of %q: %v", in, err)
		}
		if y := encodeLetter(b, of.flags); !bytes.Equal(again, y) {
			t.Errorf("%q is encoded as %q, then as %q", in, again, y)
		}
	})
}

// Whatever lies in the stream is shown as it is, and breaks nothing.
func FuzzEntry(f *testing.F) {
	f.Add("1-0", "data", `{"project_id":"p"}`, "", "")
	f.Add("1-0", "letter", "\x01", "seq", "-5")
	f.Add("x", "letter", string(encodeLetter(new(deadletter.Record), 0)), "data", "{")
	f.Fuzz(func(t *testing.T, id, k1, v1, k2, v2 string) {
		e := entry{id: id, fields: map[string]string{k1: v1, k2: v2}}
		l := e.letter("p")
		r := new(deadletter.Record)
		r.Put(l)
		r.Seq = e.seq()
		e.message(r)
		if e.foreign() && (r.Damaged != "" || string(r.Payload) != e.fields[fieldData]) {
			t.Errorf("payload %q, damaged %q; want the data as it is: %q", r.Payload, r.Damaged, e.fields[fieldData])
		}
	})
}

func TestEveryFlippedBitOfAHistoryIsFound(t *testing.T) {
	b := []byte(rules.EncodeHistory([]deadletter.Failure{{At: time.UnixMilli(1).UTC(), Kind: tidemill.Partner, Cause: "cause", Tries: 3}}))
	for i := range len(b) * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if _, err := rules.DecodeHistory(c); err == nil {
			t.Errorf("bit %d was not missed", i)
		}
	}
}

func TestCompanionsShareTheSlotOfTheStream(t *testing.T) {
	for key, want := range map[string]string{"events:dlq": "{events:dlq}:", "{shard1}:dlq": "{shard1}:dlq:", "a{}b": "{a{}b}:", "a{b": "{a{b}:"} {
		if got := beside(key); got != want {
			t.Errorf("beside %q is %q, want %q", key, got, want)
		}
	}
}
