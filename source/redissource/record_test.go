package redissource

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func FuzzMeta(f *testing.F) {
	f.Add(appendMeta(nil, &tidemill.Message{ID: "id", Tenant: "t", Type: "y", Key: []byte("k"), Time: time.UnixMilli(1), Priority: 3,
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {}}}))
	f.Add(appendMeta(nil, &tidemill.Message{ID: "id"}))
	f.Add([]byte{metaVersion, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, in []byte) {
		var m tidemill.Message
		if !readMeta(&m, in) {
			return
		}
		// What it reads comes out again, though numbers may have been written longer.
		var back tidemill.Message
		if out := appendMeta(nil, &m); !readMeta(&back, out) || !bytes.Equal(appendMeta(nil, &back), out) || back.ID != m.ID || len(back.Header) != len(m.Header) {
			t.Errorf("%x was read as %+v, then as %+v", in, m, back)
		}
	})
}

func TestKeysShareTheSlot(t *testing.T) {
	for stream, want := range map[string]string{
		"events:incoming": "{events:incoming}:books:g", "{shop}:events": "{shop}:events:books:g", "a{b}c": "a{b}c:books:g",
	} {
		if k, err := keysOf(stream, "g"); err != nil || k.books != want {
			t.Errorf("the books of %q are at %q (%v), want %q", stream, k.books, err, want)
		}
	}
	for _, stream := range []string{"a{", "a}b", "{}", "a{}b"} {
		if k, err := keysOf(stream, "g"); err == nil {
			t.Errorf("%q was taken: %+v", stream, k)
		}
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for _, o := range []Options{{}, {Stream: "s"}, {Consumer: "c"}, {Stream: "a}", Consumer: "c"}, {Stream: "s", Consumer: "c", Lease: time.Millisecond}, {Stream: "s", Consumer: "c", Process: "a b"}} {
		if _, err := New(nil, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
