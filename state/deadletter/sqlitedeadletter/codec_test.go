package sqlitedeadletter

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

func FuzzMessage(f *testing.F) {
	f.Add(encodeMessage(&tidemill.Message{}))
	f.Add(encodeMessage(&tidemill.Message{Type: "t\xff", To: "\x00", Key: []byte("k"), Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		At: time.Date(9999, 1, 1, 0, 0, 0, 999999999, time.UTC), Priority: 9, Tries: 1, Handed: 2, Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 2, Hi: 1<<64 - 1, Lo: 4},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {}}}))
	f.Add([]byte{version, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var a, b tidemill.Message
		if decodeMessage(in, &a) != nil { // refusing is fine, panicking is not
			return
		}
		if err := decodeMessage(encodeMessage(&a), &b); err != nil {
			t.Fatalf("decode what was encoded of %q: %v", in, err)
		}
		if x, y := encodeMessage(&a), encodeMessage(&b); !bytes.Equal(x, y) {
			t.Errorf("%q is encoded as %q, then as %q", in, x, y)
		}
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{})
	f.Add(rules.EncodeHistory(nil))
	f.Add(rules.EncodeHistory([]deadletter.Failure{{At: time.UnixMilli(1).UTC(), Kind: tidemill.Partner, Cause: "c\xff", Tries: 3}, {}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		fs, err := rules.DecodeHistory(in)
		if err != nil {
			return
		}
		again, err := rules.DecodeHistory(rules.EncodeHistory(fs))
		if err != nil || len(again) != len(fs) {
			t.Errorf("%q: %d failures, then %d, %v", in, len(fs), len(again), err)
		}
	})
}

func TestEveryFlippedBitOfAHistoryIsFound(t *testing.T) {
	b := rules.EncodeHistory([]deadletter.Failure{{At: time.UnixMilli(1).UTC(), Kind: tidemill.Partner, Cause: "cause", Tries: 3}})
	for i := range len(b) * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if _, err := rules.DecodeHistory(c); err == nil {
			t.Errorf("bit %d was not missed", i)
		}
	}
}
