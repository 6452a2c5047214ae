package windowtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// collected is a window in the model.
type collected struct {
	id, batch string
	revision  uint64
	state     window.State
	records   map[string]string // id → body
	opened    time.Time
	expect    int
	line      int // order of closing
	due       time.Time
	mark      tidemill.Mark // of the newest hand-out
	handed    int
	tries     int
	replays   int
}

// slack is by how much a server's clock may be ahead of the model's.
const slack = 5 * time.Second

// model is what a store is compared with. It is written anew here, not taken from the rules
// that backends share.
type model struct {
	f       *fixture
	clock   *Clock // moves with the store's
	windows []*collected
	line    int
	want    tidemill.Books
	marks   []tidemill.Mark // every hand-out ever
	of      map[tidemill.Mark]string
}

// follows drives a store with random calls and compares every answer with the model.
func follows(t *testing.T, open func(t *testing.T, o window.Options) Harness) {
	rapid.Check(t, func(r *rapid.T) {
		h := open(t, window.Options{Window: length, Lease: lease})
		if h.Close != nil {
			defer h.Close()
		}
		m := &model{f: &fixture{t, h, h.Store.Open()}, clock: NewClock(), of: map[tidemill.Mark]string{}}
		r.Repeat(map[string]func(*rapid.T){
			"put": m.put, "sweep": m.sweep, "close": m.closeNow, "receive": m.receive, "settle": m.settle,
			"page": m.page, "replay": m.replay, "keep": m.keep, "time passes": m.pass, "restart": m.restart, "": m.check,
		})
	})
}

func (m *model) find(match func(*collected) bool) *collected {
	if i := slices.IndexFunc(m.windows, match); i >= 0 {
		return m.windows[i]
	}
	return nil
}

func (m *model) active(batch string) *collected {
	return m.find(func(c *collected) bool { return c.state == window.Active && c.batch == batch })
}

var batchIDs = rapid.SampledFrom([]string{"a", "b", "c"})

func (m *model) put(r *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(r, "n")
	var rs []window.Record
	var want []window.Kept
	for range n {
		x := rec(batchIDs.Draw(r, "batch"), fmt.Sprint(rapid.IntRange(0, 5).Draw(r, "id")), fmt.Sprint("body ", rapid.IntRange(0, 3).Draw(r, "body")))
		x.Expect = rapid.SampledFrom([]int{0, 0, 0, 3, 5}).Draw(r, "expect")
		rs = append(rs, x)
		c := m.active(x.Batch)
		if c == nil {
			c = &collected{batch: x.Batch, state: window.Active, records: map[string]string{}, opened: m.clock.Now()}
			m.windows = append(m.windows, c)
		}
		if x.Expect > 0 {
			c.expect = x.Expect
		}
		kept := window.New
		if _, ok := c.records[x.ID]; ok {
			kept = window.Overwrote
		} else {
			m.want.Accepted++
		}
		c.records[x.ID] = string(x.Body)
		want = append(want, kept)
	}
	if got := m.f.put(rs...); !slices.Equal(got, want) {
		r.Fatalf("Put %v says %v, want %v", rs, got, want)
	}
	m.learn(r)
}

// learn takes the IDs of new windows from a listing.
func (m *model) learn(r *rapid.T) {
	for _, i := range m.f.list(window.Filter{State: window.Active}) {
		c := m.active(i.Batch)
		if c == nil {
			r.Fatalf("%+v is active, which is not", i)
		}
		if c.id == "" {
			if m.find(func(o *collected) bool { return o.id == i.ID }) != nil {
				r.Fatalf("%q is used twice", i.ID)
			}
			c.id, c.revision = i.ID, i.Revision
		}
	}
	slices.SortStableFunc(m.windows, func(a, b *collected) int { return cmp.Compare(a.revision, b.revision) }) // as they are, but for those of several parts
}

func (m *model) shut(c *collected) {
	m.line++
	c.state, c.line, c.due = window.Ready, m.line, time.Time{}
}

// over says whether a window is to be closed, and sure whether a server's clock must agree.
func (m *model) over(c *collected) (over, sure bool) {
	if c.expect > 0 && len(c.records) >= c.expect {
		return true, true
	}
	age := m.clock.Now().Sub(c.opened)
	return age >= length, age >= length || age < length-slack
}

func (m *model) sweep(r *rapid.T) {
	var want []*collected
	for _, c := range m.windows {
		if c.state != window.Active {
			continue
		}
		over, sure := m.over(c)
		if !sure {
			r.Skip("the clocks may not agree")
		}
		if over {
			want = append(want, c)
		}
	}
	m.f.sweep(len(want))
	// Each batch id has at most one, so their order does not matter.
	for _, c := range want {
		m.shut(c)
	}
}

func (m *model) closeNow(r *rapid.T) {
	batch := batchIDs.Draw(r, "batch")
	ok, err := m.f.Store.CloseNow(m.f.Context(), batch)
	c := m.active(batch)
	if err != nil || ok != (c != nil) {
		r.Fatalf("CloseNow %q: %v, %v; there was %+v", batch, ok, err, c)
	}
	if c != nil {
		m.shut(c)
	}
}

// head is the first in the line of a batch id.
func (m *model) head(batch string) *collected {
	var first *collected
	for _, c := range m.windows {
		if c.batch == batch && (c.state == window.Ready || c.state == window.Leased) && (first == nil || c.line < first.line) {
			first = c
		}
	}
	return first
}

func (m *model) receive(r *rapid.T) {
	due := map[string]*collected{}
	for _, batch := range []string{"a", "b", "c"} {
		c := m.head(batch)
		if c == nil {
			continue
		}
		if left := c.due.Sub(m.clock.Now()); left > 0 && left < slack {
			r.Skip("the clocks may not agree")
		} else if left <= 0 {
			due[c.id] = c
		}
	}
	if len(due) == 0 {
		r.Skip("it would wait")
	}
	for _, got := range m.f.take(rapid.IntRange(1, len(due)).Draw(r, "n")) {
		c := due[got.ID]
		if c == nil {
			r.Fatalf("received %q, of %v", got.ID, slices.Sorted(maps.Keys(due)))
		}
		delete(due, got.ID)
		c.handed++
		s, err := window.Read(got)
		if err != nil || s.Batch != c.batch || s.Revision != c.revision || int(s.Records) != len(c.records) || got.Handed != c.handed || got.Tries != c.tries || slices.Contains(m.marks, got.Mark) {
			r.Fatalf("received %+v, %+v, %v; want %+v under a new mark", got, s, err, c)
		}
		c.state, c.mark, c.due = window.Leased, got.Mark, m.clock.Now().Add(lease)
		m.marks = append(m.marks, got.Mark)
		m.of[got.Mark] = got.ID
	}
}

// mark is one of the newest hand-outs.
func (m *model) mark(r *rapid.T) (tidemill.Mark, *collected) {
	if len(m.marks) == 0 {
		r.Skip("none was handed out")
	}
	mark := m.marks[len(m.marks)-1-rapid.IntRange(0, min(len(m.marks)-1, 4)).Draw(r, "which")]
	return mark, m.find(func(c *collected) bool { return c.state == window.Leased && c.mark == mark })
}

func (m *model) settle(r *rapid.T) {
	mark, c := m.mark(r)
	e := []tidemill.Settlement{{ID: m.of[mark], Mark: mark, Kind: tidemill.Partner, Cause: "refused"}}
	switch rapid.IntRange(0, 4).Draw(r, "end") {
	case 0:
		e[0].Fate = tidemill.Delivered
	case 1:
		e[0].Fate = tidemill.Skipped
	case 2:
		e[0].Fate = tidemill.Dead
	case 3:
		e[0].End, e[0].CountTry, e[0].After = tidemill.Again, rapid.Bool().Draw(r, "burn"), time.Duration(rapid.SampledFrom([]int{0, 0, 30}).Draw(r, "after"))*time.Second
	case 4:
		e[0].End = tidemill.Left
	}
	if err := m.f.source.Settle(m.f.Context(), e); err != nil {
		r.Fatal(err)
	}
	if (e[0].Outcome == tidemill.Applied) != (c != nil) || e[0].Outcome == tidemill.Unanswered {
		r.Fatalf("Settle %+v took %d, there was %+v", e[0], e[0].Outcome, c)
	}
	if c == nil || e[0].End == tidemill.Left {
		return
	}
	n := uint64(len(c.records))
	switch {
	case e[0].End == tidemill.Again:
		c.state, c.due = window.Ready, m.clock.Now().Add(e[0].After)
		if e[0].After == 0 {
			c.due = time.Time{}
		}
		if e[0].CountTry {
			c.tries++
		}
	case e[0].Fate == tidemill.Dead:
		c.state, c.due, c.tries = window.Parked, time.Time{}, c.tries+1
		m.want.Settled.Dead += n
	default:
		m.windows = slices.DeleteFunc(m.windows, func(o *collected) bool { return o == c })
		if e[0].Fate == tidemill.Delivered {
			m.want.Settled.Delivered += n
		} else {
			m.want.Settled.Skipped += n
		}
	}
}

func (m *model) page(r *rapid.T) {
	mark, c := m.mark(r)
	got, err := m.f.all(&tidemill.Message{Mark: mark})
	if (err == nil) != (c != nil) {
		r.Fatalf("Page under %+v: %v, there was %+v", mark, err, c)
	}
	if c == nil {
		return
	}
	m.same(r, c, got)
}

func (m *model) same(r *rapid.T, c *collected, got []window.Record) {
	read := map[string]string{}
	for _, x := range got {
		read[x.ID] = string(x.Body)
	}
	if len(got) != len(c.records) || !maps.Equal(read, c.records) {
		r.Fatalf("read %v of %q, want %v", read, c.id, c.records)
	}
}

func (m *model) replay(r *rapid.T) {
	by := window.Filter{}
	if !m.f.Parts { // where two may be of the same age
		by.Max = rapid.IntRange(0, 2).Draw(r, "max")
	}
	if rapid.Bool().Draw(r, "one batch") {
		by.Batch = batchIDs.Draw(r, "batch")
	}
	n, err := m.f.Store.Replay(m.f.Context(), by)
	if err != nil {
		r.Fatal(err)
	}
	k := 0
	for _, c := range m.windows { // in the order of revisions
		if c.state != window.Parked || by.Batch != "" && by.Batch != c.batch || by.Max > 0 && k == by.Max {
			continue
		}
		m.shut(c)
		c.handed, c.tries, c.replays = 0, 0, c.replays+1
		m.want.Accepted += uint64(len(c.records))
		k++
	}
	if n != k {
		r.Fatalf("Replay %+v: %d, want %d", by, n, k)
	}
}

func (m *model) keep(r *rapid.T) {
	if rapid.IntRange(0, 3).Draw(r, "really") > 0 {
		r.Skip()
	}
	// It depends on earlier lefts and losses which hand-outs a source still keeps. So check
	// only, on a source without any, that nothing else changes.
	if err := m.f.Store.Open().(tidemill.Keeper).Keep(m.f.Context()); err != nil {
		r.Fatal(err)
	}
}

func (m *model) pass(r *rapid.T) {
	d := time.Duration(rapid.SampledFrom([]int{1, 10, 30, 60}).Draw(r, "seconds")) * time.Second
	m.clock.Advance(d)
	m.f.Advance(d)
}

func (m *model) restart(r *rapid.T) {
	if m.f.Reopen == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
		r.Skip()
	}
	m.f.restart()
	for _, c := range m.windows {
		if c.state == window.Leased && !m.f.Shared { // its owner is dead
			c.due = time.Time{}
		}
	}
}

// check compares everything.
func (m *model) check(r *rapid.T) {
	got := m.f.list(window.Filter{})
	if len(got) != len(m.windows) {
		r.Fatalf("%d windows, want %d", len(got), len(m.windows))
	}
	var stats window.Stats
	m.want.Pending = 0
	for n, i := range got {
		c := m.windows[n]
		if m.f.Parts { // two of them may be of the same age
			c = m.find(func(c *collected) bool { return c.id == i.ID })
		}
		if c == nil || i.ID != c.id || i.State != c.state || int(i.Records) != len(c.records) || i.Handed != c.handed || i.Tries != c.tries || i.Replays != c.replays || int(i.Expect) != c.expect {
			r.Fatalf("window %d is %+v, want %+v", n, i, c)
		}
		d := stats.Of(i.State)
		if d.Windows++; d.Windows == 1 || i.Opened.Before(d.Oldest) {
			d.Oldest = i.Opened
		}
		d.Records += i.Records
		if i.State != window.Parked {
			m.want.Pending += uint64(i.Records)
		}
	}
	if len(m.windows) > 0 {
		m.same(r, m.windows[len(m.windows)-1], m.f.peek(m.windows[len(m.windows)-1].id))
	}
	s := m.f.stats()
	if s.Active != stats.Active || s.Ready != stats.Ready || s.Leased != stats.Leased || s.Parked != stats.Parked {
		r.Fatalf("stats are\n%+v, want\n%+v", s, stats)
	}
	if b := m.f.booked(); b != m.want {
		r.Fatalf("books are\n%+v, want\n%+v", b, m.want)
	}
}
