package windowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// paging holds what Page and Peek promise.
var paging = []testcase{
	{"reads in pages of any size, in the same order each time",
		"a batch larger than memory is streamed, and a retry sends the same again", nil, readsPages},
	{"never reads more than a page at once",
		"memory is bounded by the page, not by the batch", nil, boundsPages},
	{"reads what was frozen while more comes for the same batch id",
		"content that changes under way would be deleted unsent", nil, readsFrozen},
	{"reads without a lease for who looks",
		"an operator sees what is in a batch", nil, peeks},
	{"refuses to read on from what no page said",
		"a mistake must not skip records", nil, refusesCursor},
}

func readsPages(f *fixture) {
	const many = 3000
	f.closed(some("b", many)...)
	m := f.take(1)[0]
	order := f.read(m, 100)
	f.has(order, some("b", many)...)
	for _, size := range []int{7, 1000, many + 10} {
		got := f.read(m, size)
		for i := range got {
			if len(got) != many || got[i].ID != order[i].ID {
				f.Fatalf("in pages of %d record %d of %d is %q, was %q", size, i, len(got), got[i].ID, order[i].ID)
			}
		}
	}
	f.Advance(lease)
	m = f.take(1)[0] // another owner reads the same
	if got := f.read(m, 50); !slices.EqualFunc(got, order, func(a, b window.Record) bool { return a.ID == b.ID }) {
		f.Fatal("another owner reads in another order")
	}
	f.apply(m, delivered)
	f.books(tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
}

func boundsPages(f *fixture) {
	big := make([]byte, 300<<10)
	for i := range 40 {
		f.put(window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(i), Body: big})
	}
	f.Advance(length)
	f.sweep(1)
	m := f.take(1)[0]
	pages, read := 0, 0
	for from, first := "", true; first || from != ""; first = false {
		into := make([]window.Record, 1000)
		p, err := f.Store.Page(f.Context(), m.Mark, from, into)
		if err != nil {
			f.Fatal(err)
		}
		size := 0
		for _, r := range into[:p.N] {
			size += len(r.Body)
		}
		if limit := 6 << 20; size > limit {
			f.Fatalf("a page has %d bytes", size)
		}
		pages, read, from = pages+1, read+p.N, p.Next
	}
	if read != 40 {
		f.Fatalf("read %d records in %d pages, want 40", read, pages)
	}
	f.apply(m, delivered)
}

func readsFrozen(f *fixture) {
	f.closed(some("b", 50)...)
	m := f.take(1)[0]
	var got []window.Record
	for from, first, n := "", true, 0; first || from != ""; first, n = false, n+1 {
		into := make([]window.Record, 5)
		p, err := f.Store.Page(f.Context(), m.Mark, from, into)
		if err != nil {
			f.Fatal(err)
		}
		got, from = append(got, into[:p.N]...), p.Next
		f.put(rec("b", fmt.Sprintf("%06d", n), "late and other bytes"), rec("b", fmt.Sprint("late ", n), "x"))
	}
	f.has(got, some("b", 50)...)
	f.apply(m, delivered)
	if b := f.booked(); b.Settled.Delivered != 50 || b.Pending == 0 {
		f.Fatalf("books %+v", b)
	}
	f.Advance(length)
	f.sweep(1)
	late := f.take(1)[0]
	for _, r := range f.read(late, 9) {
		if string(r.Body) != "late and other bytes" && string(r.Body) != "x" {
			f.Fatalf("the late window has %+v", r)
		}
	}
	f.apply(late, delivered)
}

func peeks(f *fixture) {
	f.fresh(some("b", 20)...)
	id := f.list(window.Filter{})[0].ID
	f.has(f.peek(id), some("b", 20)...)
	f.closeNow("b")
	f.has(f.peek(id), some("b", 20)...)
	m := f.take(1)[0]
	f.has(f.peek(id), some("b", 20)...)
	f.apply(m, delivered)
	for _, id := range []string{id, "", "b", "b/1"} {
		if _, err := f.Store.Peek(f.Context(), id, "", make([]window.Record, 1)); !errors.Is(err, window.ErrNotFound) {
			f.Errorf("Peek of %q, which is not there: %v", id, err)
		}
	}
}

func refusesCursor(f *fixture) {
	f.closed(some("b", 20)...)
	m := f.take(1)[0]
	for _, from := range []string{"x", "-1", "next"} {
		if p, err := f.Store.Page(f.Context(), m.Mark, from, make([]window.Record, 1)); err == nil {
			f.Errorf("Page from %q: %+v", from, p)
		}
	}
	if p, err := f.Store.Page(f.Context(), m.Mark, "", nil); err == nil {
		f.Errorf("Page into nothing: %+v", p)
	}
	if _, err := f.Store.Page(ended(), m.Mark, "", make([]window.Record, 1)); !errors.Is(err, context.Canceled) {
		f.Errorf("Page under a context that has ended: %v", err)
	}
}

// losing holds what happens to records that vanish from the store.
var losing = []testcase{
	{"counts and books what is missing when it is read",
		"what expired or was evicted is named, and the books balance", loses, missingWhileRead},
	{"books what is missing dead, beside what a settlement says of the rest",
		"what was sent before the loss was noticed stays sent", loses, missingInPart},
	{"counts and books a window of which nothing is there, and hands it out to nobody",
		"there is nothing to send, and it must not come again for ever", loses, missingBefore},
	{"opens another window after a large one of which nothing is there",
		"what is put then must not go where nobody looks", loses, missingLarge},
	{"loses nothing of a parked window that is replayed for a second time",
		"what was lost is dead once", loses, missingParked},
	{"says which record is damaged, and reads the others",
		"a record that cannot be read goes to the dead letters alone", func(h Harness) bool { return h.Damage != nil }, damaged},
}

func loses(h Harness) bool { return h.Lose != nil }

func missingWhileRead(f *fixture) {
	f.closed(some("a", 10)...)
	f.closed(some("b", 10)...)
	ms := f.take(2) // in any order
	f.Lose(f.T, ms[0].ID)
	f.Lose(f.T, ms[1].ID)
	for range 2 { // it may be read again
		for _, m := range ms {
			if got, lost := f.readLost(m, 4); len(got) != 0 || lost != 10 {
				f.Fatalf("read %d, lost %d of 10", len(got), lost)
			}
		}
	}
	if s := f.stats(); s.Lost != 20 {
		f.Fatalf("%d records are lost, want 20", s.Lost)
	}
	part := delivered
	part.Records = tidemill.Count{} // no record was left
	f.apply(ms[0], part)
	f.apply(ms[1], dead)
	f.books(tidemill.Books{Accepted: 20, Settled: tidemill.Count{Dead: 20}})
	if s := f.stats(); s.Lost != 20 {
		f.Fatalf("%d records are lost, want 20", s.Lost)
	}
}

// missingInPart loses windows after four of their ten records were read and sent.
func missingInPart(f *fixture) {
	for _, batch := range []string{"a", "b", "c"} {
		f.closed(some(batch, 10)...)
	}
	ms := f.take(3) // in any order
	own, skips := delivered, skipped
	own.Records = tidemill.Count{Delivered: 2, Skipped: 1, Dead: 1}
	for i, end := range []tidemill.Settlement{own, delivered, skips} {
		first, err := f.Store.Page(f.Context(), ms[i].Mark, "", make([]window.Record, 4))
		if err != nil || first.N != 4 || first.Next == "" {
			f.Fatalf("the first page is %+v, %v", first, err)
		}
		f.Lose(f.T, ms[i].ID)
		last, err := f.Store.Page(f.Context(), ms[i].Mark, first.Next, make([]window.Record, 4))
		if err != nil || last.N != 0 || last.Lost != 6 || last.Next != "" {
			f.Fatalf("the page after the loss is %+v, %v; want six lost", last, err)
		}
		f.apply(ms[i], end)
	}
	f.books(tidemill.Books{Accepted: 30, Settled: tidemill.Count{Delivered: 2 + 4, Skipped: 1 + 4, Dead: 1 + 3*6}})
}

func missingBefore(f *fixture) {
	f.fresh(some("a", 10)...)
	active := f.list(window.Filter{})[0].ID
	f.Lose(f.T, active)
	f.Advance(length)
	f.closed(some("b", 10)...)
	for _, i := range f.list(window.Filter{Batch: "b"}) {
		f.Lose(f.T, i.ID)
	}
	f.fresh(some("b", 3)...) // behind it
	f.closeNow("b")
	m := f.take(1)[0]
	f.has(f.read(m, 5), some("b", 3)...)
	f.apply(m, delivered)
	f.nothing()
	if s := f.stats(); s.Lost != 20 || s.Ready != (window.Depth{}) || s.Leased != (window.Depth{}) {
		f.Fatalf("stats %+v, want 20 lost and nothing else", s)
	}
	if got := f.list(window.Filter{}); len(got) != 0 {
		f.Fatalf("there are %+v", got)
	}
	f.books(tidemill.Books{Accepted: 23, Settled: tidemill.Count{Delivered: 3, Dead: 20}})
}

func missingLarge(f *fixture) {
	for i := range 30 {
		f.fresh(rec("b", fmt.Sprint(i), "x"))
	}
	f.Lose(f.T, f.list(window.Filter{})[0].ID)
	if _, err := f.Store.CloseNow(f.Context(), "b"); err != nil {
		f.Fatal(err)
	}
	f.fresh(rec("b", "0", "x"))
	if got := f.list(window.Filter{}); len(got) != 1 || got[0].State != window.Active || got[0].Records != 1 {
		f.Fatalf("there are %+v", got)
	}
	f.closeNow("b")
	m := f.take(1)[0]
	f.has(f.read(m, 5), rec("b", "0", "x"))
	f.apply(m, delivered)
	f.books(tidemill.Books{Accepted: 31, Settled: tidemill.Count{Delivered: 1, Dead: 30}})
}

func missingParked(f *fixture) {
	f.closed(some("b", 10)...)
	m := f.take(1)[0]
	f.Lose(f.T, m.ID)
	if _, lost := f.readLost(m, 4); lost != 10 {
		f.Fatalf("lost %d of 10", lost)
	}
	f.apply(m, dead)
	if n, err := f.Store.Replay(f.Context(), window.Filter{}); n != 1 || err != nil {
		f.Fatalf("Replay: %d, %v", n, err)
	}
	f.nothing() // nothing is left of it
	f.books(tidemill.Books{Accepted: 10, Settled: tidemill.Count{Dead: 10}})
	if s := f.stats(); s.Lost != 10 || s.Ready != (window.Depth{}) {
		f.Fatalf("stats %+v", s)
	}
}

func damaged(f *fixture) {
	f.closed(some("b", 10)...)
	m := f.take(1)[0]
	f.Damage(f.T, m.ID)
	got := f.read(m, 4)
	bad := 0
	for _, r := range got {
		if r.Damaged != "" {
			bad++
		} else if !slices.ContainsFunc(some("b", 10), func(o window.Record) bool { return o.ID == r.ID && string(o.Body) == string(r.Body) }) {
			f.Errorf("%+v was read as sound", r)
		}
	}
	if len(got) != 10 || bad != 1 {
		f.Fatalf("of %d records %d are damaged, want 1 of 10: %v", len(got), bad, ids(got))
	}
	f.apply(m, delivered)
}
