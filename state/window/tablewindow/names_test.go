package tablewindow

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
)

// Processes that put into one window, and are started anew, know the names that others put: each
// record is New once, is there once, and has the bytes that were put last.
func TestNamesOfOtherProcesses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ctx, db := t.Context(), memorytable.NewDB()
		open := func() *Store[*memorytable.Tx] {
			windows, err1 := memorytable.New(db, Spec())
			blobs, err2 := memorytable.New(db, BlobSpec())
			if err1 != nil || err2 != nil {
				r.Fatal(err1, err2)
			}
			s, err := New(ctx, windows, blobs, Options{Look: 1})
			if err != nil {
				r.Fatal(err)
			}
			return s
		}
		both := []*Store[*memorytable.Tx]{open(), open()}
		want := map[string]string{}
		size := int64(0)
		for range rapid.IntRange(1, 12).Draw(r, "puts") {
			i := rapid.IntRange(0, 1).Draw(r, "process")
			if rapid.IntRange(0, 5).Draw(r, "restart") == 0 {
				both[i] = open()
			}
			first, n, body := rapid.IntRange(0, 3000).Draw(r, "first"), rapid.IntRange(1, 1200).Draw(r, "n"), rapid.SampledFrom([]string{"a", "bb", "ccc"}).Draw(r, "body")
			rs, kept := make([]window.Record, n), make([]window.Kept, n)
			for j := range rs {
				rs[j] = window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(first + j*rapid.IntRange(1, 2).Draw(r, "step")), Body: []byte(body)}
			}
			if err := both[i].Put(ctx, rs, kept); err != nil {
				r.Fatal(err)
			}
			for j := range rs {
				before, known := want[rs[j].ID]
				if known != (kept[j] == window.Overwrote) {
					r.Fatalf("%s was put as %d, known: %v", rs[j].ID, kept[j], known)
				}
				size += int64(len(body) - len(before))
				want[rs[j].ID] = body
			}
		}
		for i, err := range both[0].List(ctx, window.Filter{}) {
			if err != nil || i.Records != int64(len(want)) || i.Bytes != size {
				r.Fatalf("%+v, %v; want %d records of %d bytes", i, err, len(want), size)
			}
			got := map[string]string{}
			page := make([]window.Record, 333)
			for from, first := "", true; first || from != ""; first = false {
				p, err := both[1].Peek(ctx, i.ID, from, page)
				if err != nil {
					r.Fatal(err)
				}
				for _, x := range page[:p.N] {
					if _, twice := got[x.ID]; twice || x.Damaged != "" || want[x.ID] != string(x.Body) {
						r.Fatalf("%+v is there twice: %v, want the body %q", x, twice, want[x.ID])
					}
					got[x.ID] = string(x.Body)
				}
				from = p.Next
			}
			if len(got) != len(want) {
				r.Fatalf("read %d records, want %d", len(got), len(want))
			}
		}
	})
}

// Beyond their limit the names of other windows are read again, and those of closed windows are
// not kept.
func TestNamesAreBounded(t *testing.T) {
	ctx := t.Context()
	s := inMemory(t, window.Options{}).(*Store[*memorytable.Tx])
	put := func(batch string, n int, want window.Kept) {
		t.Helper()
		rs, kept := make([]window.Record, n), make([]window.Kept, n)
		for i := range rs {
			rs[i] = window.Record{Batch: batch, Kind: "event", ID: fmt.Sprint(i)}
		}
		if err := s.Put(ctx, rs, kept); err != nil {
			t.Fatal(err)
		}
		for i, k := range kept {
			if k != want {
				t.Fatalf("record %d of %q is %d, want %d", i, batch, k, want)
			}
		}
	}
	holds := func(windows, names int) {
		t.Helper()
		if len(s.names.of) != windows || s.names.count != names {
			t.Fatalf("%d names of %d windows are in memory, want %d of %d", s.names.count, len(s.names.of), names, windows)
		}
	}
	put("a", 10, window.New)
	put("b", 20, window.New)
	holds(2, 30)
	s.names.count += maxNames // as if there were many
	put("c", 5, window.New)
	holds(1, maxNames+5)
	s.names.count -= maxNames
	put("a", 10, window.Overwrote)
	holds(2, 15)
	for _, batch := range []string{"a", "b", "c"} {
		if ok, err := s.CloseNow(ctx, batch); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	holds(0, 0)
}

// A record that is lost is one of its window; put again it is another.
func TestARecordThatIsLostCanBePutAgain(t *testing.T) {
	ctx := t.Context()
	s := inMemory(t, window.Options{}).(*Store[*memorytable.Tx])
	rs := make([]window.Record, blob.MaxRecords+10)
	for i := range rs {
		rs[i] = window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(i), Body: []byte("body")}
	}
	kept := make([]window.Kept, len(rs))
	if err := s.Put(ctx, rs, kept); err != nil {
		t.Fatal(err)
	}
	id := ""
	for i := range s.List(ctx, window.Filter{}) {
		id = i.ID
	}
	harness(s).Lose(t, id)
	if err := s.Put(ctx, rs[:100], kept[:100]); err != nil || kept[0] != window.New {
		t.Fatal(kept[0], err)
	}
	if ok, err := s.CloseNow(ctx, "b"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	m := new(tidemill.Message)
	if _, err := s.Open().Receive(ctx, []*tidemill.Message{m}); err != nil {
		t.Fatal(err)
	}
	page := make([]window.Record, len(rs))
	p, err := s.Page(ctx, m.Mark, "", page)
	if err != nil || p.N != 100 || p.Lost != len(rs) || !bytes.Equal(page[0].Body, []byte("body")) {
		t.Fatalf("%+v, %v", p, err)
	}
}

// A put whose blobs another has read meanwhile, or that does not know those before its own, adds
// nothing.
func TestNamesAreNotedOnceAndInOrder(t *testing.T) {
	key, d := "key", blob.DigestOf([]byte("name"))
	names := names{of: map[string]*named{key: {revision: 7}}}
	put := func(revision, no uint64) {
		p := &put{key: key, r: &Record{}, rows: []*Blob{{key: blobKey(revision, no), names: append(d[:], make([]byte, blob.SumBytes)...)}}}
		p.r.Revision = revision
		names.added(p)
	}
	for i, c := range []struct {
		revision, no, last uint64
	}{{7, 2, 0}, {7, 1, 1}, {7, 1, 1}, {8, 2, 1}, {7, 2, 2}} {
		if put(c.revision, c.no); names.of[key].last != c.last || names.count != int(c.last) {
			t.Errorf("step %d: %d names up to blob %d, want %d", i, names.count, names.of[key].last, c.last)
		}
	}
}
