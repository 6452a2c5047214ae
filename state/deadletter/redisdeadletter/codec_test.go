package redisdeadletter

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

func FuzzMeta(f *testing.F) {
	f.Add([]byte(encodeMeta(&deadletter.Record{})))
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

func FuzzLetter(f *testing.F) {
	m := &tidemill.Message{ID: "id", Tenant: "t", Type: "t\xff", To: "\x00", Key: []byte("k"), Payload: []byte("payload"), Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		At: time.Date(9999, 1, 1, 0, 0, 0, 999999999, time.UTC), Priority: 9, Tries: 1, Handed: 2, Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 2, Hi: 1<<64 - 1, Lo: 4},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {}}}
	f.Add(encodeLetter("p", m, []byte("row"), dataIsRow))
	f.Add([]byte{version, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var a, b tidemill.Message
		flags, _, _, err := decodeLetter(in, &a)
		if err != nil {
			return
		}
		again := encodeLetter("p", &a, nil, flags)
		if _, _, _, err := decodeLetter(again, &b); err != nil {
			t.Fatalf("decode what was encoded of %q: %v", in, err)
		}
		if y := encodeLetter("p", &b, nil, flags); !bytes.Equal(again, y) {
			t.Errorf("%q is encoded as %q, then as %q", in, again, y)
		}
	})
}

// Whatever lies in the stream is shown as it is, and breaks nothing.
func FuzzEntry(f *testing.F) {
	f.Add("1-0", "data", `{"project_id":"p"}`, "", "")
	f.Add("1-0", "letter", "\x01", "seq", "-5")
	f.Add("x", "letter", string(encodeLetter("p", &tidemill.Message{}, nil, 0)), "data", "{")
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
	b := []byte(deadletter.EncodeHistory([]deadletter.Failure{{At: time.UnixMilli(1).UTC(), Kind: tidemill.Partner, Cause: "cause", Tries: 3}}))
	for i := range len(b) * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if _, err := deadletter.DecodeHistory(c); err == nil {
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
