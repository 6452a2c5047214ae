package blob

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/state/window/internal/entry"
)

func TestBlobs(t *testing.T) {
	for _, size := range []int{0, 1, 100, packFrom, 10_000} {
		body := bytes.Repeat([]byte("body "), size/5)
		raw := frame(frame(nil, []byte("key"), body, entry.Sum([]byte("key"), body)), []byte("k2"), nil, entry.Sum([]byte("k2"), nil))
		blob := (&packer{raw: raw}).data(2)
		rs := Read(blob)
		if len(rs) != 2 || string(rs[0].Key) != "key" || !bytes.Equal(rs[0].Body, body) || rs[0].Damaged() || string(rs[1].Key) != "k2" || rs[1].Damaged() {
			t.Fatalf("a body of %d: %+v", size, rs)
		}
		if size >= packFrom && len(blob) > size/2 {
			t.Errorf("%d bytes were made %d", size, len(blob))
		}
		for cut := range min(len(blob), 300) { // damage is never a panic, nor another record
			for _, bad := range [][]byte{blob[:cut], slices.Concat(blob[:cut], []byte{0xff}, blob[cut+1:])} {
				for _, r := range Read(bad) {
					sound := string(r.Key) == "key" && bytes.Equal(r.Body, body) || string(r.Key) == "k2" && len(r.Body) == 0
					if !r.Damaged() && !sound {
						t.Fatalf("damaged at %d it has %q = %q", cut, r.Key, r.Body)
					}
				}
			}
		}
	}
}
