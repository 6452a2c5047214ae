package entry

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/window"
)

func FuzzKey(f *testing.F) {
	f.Add("event", "7", "")
	f.Add("mention", "7_https://x\x00y", "\x00\x01")
	f.Add("", "", "")
	f.Add("m", "\x00\xff", "\xff")
	f.Fuzz(func(t *testing.T, kind, id, qualifier string) {
		in := window.Record{Kind: kind, ID: id, Qualifier: qualifier}
		if strings.IndexByte(kind, 0) >= 0 {
			return // Check refuses it
		}
		var out window.Record
		key := AppendKey(nil, &in)
		if !ReadKey(key, &out) || out.Kind != kind || out.ID != id || out.Qualifier != qualifier {
			t.Fatalf("%q, %q, %q came back as %+v", kind, id, qualifier, out)
		}
		if again := AppendKey(nil, &out); !bytes.Equal(again, key) {
			t.Fatalf("%q has two keys: %q and %q", id, key, again)
		}
	})
}

// What is read as a key is the only one of its name: no two keys name one record.
func FuzzReadKey(f *testing.F) {
	f.Add([]byte("event\x007\x00\x01"))
	f.Add([]byte("event\x00a\x00\xffb\x00\x01q"))
	f.Add([]byte("event\x00a\x00"))
	f.Add([]byte("event\x00a\x00\x02b\x00\x01"))
	f.Fuzz(func(t *testing.T, key []byte) {
		var r window.Record
		if ReadKey(key, &r) && !bytes.Equal(AppendKey(nil, &r), key) {
			t.Fatalf("%q was read as %+v", key, r)
		}
	})
}

func TestKeysSortAsNamesDo(t *testing.T) {
	names := []window.Record{{Kind: "event", ID: "1"}, {Kind: "event", ID: "1", Qualifier: "a"}, {Kind: "event", ID: "1\x00"}, {Kind: "event", ID: "10"}, {Kind: "event", ID: "2"}, {Kind: "events", ID: "0"}}
	for i := range names[1:] {
		if a, b := AppendKey(nil, &names[i]), AppendKey(nil, &names[i+1]); bytes.Compare(a, b) >= 0 {
			t.Errorf("%q is not before %q", a, b)
		}
	}
}

func TestASumIsOfKeyAndBody(t *testing.T) {
	sums := map[uint64]string{}
	for _, x := range [][2]string{{"k", "body"}, {"l", "body"}, {"k", "bodz"}, {"kb", "ody"}} {
		name := x[0] + " " + x[1]
		if sum := Sum([]byte(x[0]), []byte(x[1])); sums[sum] != "" {
			t.Errorf("%q and %q have one sum", name, sums[sum])
		} else {
			sums[sum] = name
		}
	}
}
