package sim

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// span is a window as it has to be: its content, and its fate.
type span struct {
	id       string
	batch    string // the store's name for it
	revision uint64
	opened   time.Time
	expect   int64
	places   map[string]*place // by name of the record
	names    []string          // of those, as they came
	closed   bool

	holder  *process          // the process that was handed it last, and has not given it back; nil: none
	epoch   uint32            // of that hand-out
	handed  map[*process]int  // how often
	late    map[*process]int  // parts sent by a process that had lost it
	why     map[*process]bool // a try may be counted: a processor failed, or part of a page
	unless  map[*process]bool // or may be, if the topics answer: nothing of a page could be sent
	burnt   int               // tries, since it was closed or replayed
	parked  bool
	replays int
	ended   bool
}

// name is the prefix of its messages' and dead letters' names.
func (o *span) name() string { return window.ID(record.ParseBatch(o.batch).ID(), o.revision) }

// soon is the time from a window's end to its delivery without faults: the next sweep, the next
// receive, and an earlier window of its batch id.
const soon = 5 * time.Second

// place is one record of a window: its newest version.
type place struct {
	r        *report
	by       *process // the process that put it
	sent     int      // how often it came into its topic
	lettered int      // how often its dead letter was put
}

// put is Put, and records where everything went.
func (w *windowsWorld) put(ctx context.Context, p *process, store window.Store, records []window.Record, kept []window.Kept) error {
	w.book.Lock()
	defer w.book.Unlock()
	if w.chance(60, "store", len(records), time.Now()) {
		return tidemill.Fail([]tidemill.Kind{tidemill.Partner, tidemill.RateLimit, tidemill.Timeout}[len(records)%3], "sim: the store is not well")
	}
	own := make([]window.Kept, len(records))
	if err := store.Put(ctx, records, own); err != nil {
		return err
	}
	copy(kept, own)
	for i := range records {
		x := &records[i]
		r := w.of(x.Body)
		if r == nil || r.bad || string(x.Body) != string(r.raw) || x.Batch != stored(r.batch) || x.Kind+" "+x.ID+" "+x.Qualifier != r.name() {
			w.fault("a record was put that nobody brought: %s/%s/%s of %s: %s", x.Kind, x.ID, x.Qualifier, x.Batch, x.Body)
			continue
		}
		o := w.active(x.Batch)
		if o == nil {
			continue
		}
		if x.Expect > 0 {
			o.expect = int64(x.Expect)
		}
		want, before := window.New, o.places[r.name()]
		switch {
		case before != nil:
			if n := before.r; before.by == p && n.reader == p && r.reader == p && n.hands[p] == 1 && r.hands[p] == 1 && n.turn > r.turn && r.fresh+r.over == 0 {
				w.fault("%v was put over %v, which came behind it", r, n)
			}
			want, before.r, before.by = window.Overwrote, r, p
			w.count[Overwrites]++
			r.over++
		default:
			o.places[r.name()] = &place{r: r, by: p}
			o.names = append(o.names, r.name())
			r.fresh++
		}
		if own[i] != want {
			w.fault("%v was put into window %s, which said %d, want %d", r, o.id, own[i], want)
		}
	}
	return nil
}

// active is the window of a batch id that is open now.
func (w *windowsWorld) active(batch string) (o *span) {
	n := 0
	for i, err := range w.store.List(context.Background(), window.Filter{State: window.Active, Batch: batch}) {
		if err != nil {
			w.fault("%v", err)
			return nil
		}
		n++
		if o = w.spans[i.ID]; o == nil {
			o = &span{id: i.ID, batch: batch, revision: i.Revision, opened: i.Opened, places: map[string]*place{},
				handed: map[*process]int{}, late: map[*process]int{}, why: map[*process]bool{}, unless: map[*process]bool{}}
			for _, other := range w.order {
				if other.batch == batch {
					w.count[Late]++
					if other.revision >= o.revision {
						w.fault("window %s was opened after %s", o.id, other.id)
					}
					break
				}
			}
			w.spans[o.id], w.order = o, append(w.order, o)
		}
	}
	if n != 1 || o.closed {
		w.fault("there are %d active windows of batch %s (closed before: %v), want one", n, batch, o != nil && o.closed)
	}
	return o
}

// look checks what is closed now, and why; and after a sweep what has to be.
func (w *windowsWorld) look(swept bool) {
	for i, err := range w.store.List(context.Background(), window.Filter{}) {
		if err != nil {
			w.fault("%v", err)
			return
		}
		o := w.spans[i.ID]
		if o == nil {
			w.fault("there is a window %s, and nobody put anything into it", i.ID)
			continue
		}
		over := !time.Now().Before(o.opened.Add(windowsOpen))
		full := o.expect > 0 && len(o.places) >= int(o.expect)
		switch {
		case int(i.Records) != len(o.places):
			w.fault("window %s says that it has %d records, %d were put", o.id, i.Records, len(o.places))
		case o.closed:
		case i.State == window.Active && swept && (over || full):
			w.fault("window %s is over, and open after a sweep", o.id)
		case i.State == window.Active:
		default:
			o.closed = true
			if i.Why == window.ByCount {
				w.count[ByTheCount]++
			}
			if i.Why == window.ByTime && !over || i.Why == window.ByCount && !full {
				w.fault("window %s was closed by %s, %v after it was opened, with %d of %d records", o.id, i.Why, time.Since(o.opened), len(o.places), o.expect)
			}
		}
	}
}

// handed notes which process has a window.
func (w *windowsWorld) handed(p *process, m *tidemill.Message) {
	w.book.Lock()
	defer w.book.Unlock()
	o := w.spans[m.ID]
	if o == nil || string(m.Key) != o.batch {
		w.fault("a window was handed out that nobody opened: %s", m.ID)
		return
	}
	w.look(false)
	if o.ended || o.parked || m.Mark.Epoch <= o.epoch {
		w.fault("window %s was handed out (ended: %v, parked: %v) under lease %d after %d", o.id, o.ended, o.parked, m.Mark.Epoch, o.epoch)
	}
	if o.holder != nil {
		w.count[TakenOver]++
		if w.peace {
			w.fault("window %s was taken over, and nothing went wrong", o.id)
		}
	}
	for _, other := range w.order {
		if other.batch == o.batch && other.revision < o.revision && !other.ended && !other.parked && other.replays == 0 && o.replays == 0 {
			w.fault("window %s was handed out before %s", o.id, other.id)
		}
	}
	if m.Tries != o.burnt {
		w.fault("window %s says that it failed %d times, it did %d times", o.id, m.Tries, o.burnt)
	}
	o.holder, o.epoch, o.why[p], o.unless[p] = p, m.Mark.Epoch, false, false
	o.handed[p]++
}

// ended checks a settlement of a window that was applied.
func (w *windowsWorld) ended(p *process, e *tidemill.Settlement) {
	w.book.Lock()
	defer w.book.Unlock()
	o := w.spans[e.ID]
	if o == nil {
		w.fault("the end of window %s, which nobody opened", e.ID)
		return
	}
	if e.End == tidemill.Left {
		return
	}
	if o.holder != p || o.ended || o.parked {
		w.fault("process %d settled window %s, which was another's (ended: %v, parked: %v)", p.n, o.id, o.ended, o.parked)
	}
	o.holder = nil
	if e.CountTry || e.End == tidemill.Done && e.Fate == tidemill.Dead {
		w.count[Burnt]++
		o.burnt++
		if !o.why[p] {
			w.fault("window %s used up a try, and neither did a processor fail nor only a part of a page: %v %s", o.id, e.Kind, e.Cause)
		}
	}
	switch {
	case e.End == tidemill.Again:
	case e.Fate == tidemill.Dead:
		w.count[ParkedOnes]++
		if o.parked = true; o.burnt != windowsTries {
			w.fault("window %s was parked after %d failed tries, want %d: %s", o.id, o.burnt, windowsTries, e.Cause)
		}
	default:
		o.ended = true
		w.delivered(o, e)
		if took := time.Since(o.opened); w.peace && w.away == 0 && w.count[PausedOnes] == 0 && took > windowsOpen+soon {
			w.fault("window %s was delivered %v after it was opened, and nothing went wrong", o.id, took)
		}
	}
}

// delivered checks that all of a deleted window has gone somewhere.
func (w *windowsWorld) delivered(o *span, e *tidemill.Settlement) {
	skipped, sent, dead := 0, 0, 0
	for _, name := range o.names {
		at := o.places[name]
		if at.sent > 0 {
			sent++
		}
		if at.lettered > 0 {
			dead++
		}
		switch {
		case at.r.mortal() && at.lettered == 0:
			w.fault("%v was deleted with window %s, and there was no letter", at.r, o.id)
		case at.r.filtered && !at.r.damaged:
			skipped++
		case at.sent == 0 && at.lettered == 0:
			w.fault("%v was deleted with window %s, and was not sent", at.r, o.id)
		}
	}
	c := e.Records
	if int(c.Total()) != len(o.places) || int(c.Skipped) != skipped || int(c.Delivered) > sent || int(c.Dead) > dead || e.Fate != tidemill.Delivered {
		w.fault("window %s of %d records ended %v as %+v; %d were sent, %d skipped, %d had letters", o.id, len(o.places), e.Fate, c, sent, skipped, dead)
	}
}
