package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
)

// gatedWindows is a process's window store.
type gatedWindows struct {
	window.Store
	w *windowsWorld
	p *process
}

func (s gatedWindows) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	var what strings.Builder
	for i := range records {
		if r := s.w.of(records[i].Body); r != nil {
			_, _ = fmt.Fprint(&what, r.n, " ")
		}
	}
	return s.w.g.do(s.p, "put", what.String(), func() error { return s.w.put(ctx, s.p, s.Store, records, kept) })
}

func (s gatedWindows) Sweep(ctx context.Context) (done window.Swept, err error) {
	err = s.w.g.do(s.p, "sweep", "", func() (err error) {
		done, err = s.Store.Sweep(ctx)
		s.w.book.Lock()
		defer s.w.book.Unlock()
		if err == nil {
			s.w.look(true)
		}
		return err
	})
	return done, err
}

func (s gatedWindows) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (page window.Page, err error) {
	err = s.w.g.do(s.p, "page", fmt.Sprint(m, from), func() (err error) {
		page, err = s.Store.Page(ctx, m, from, into)
		s.w.spoil(into[:page.N])
		return err
	})
	return page, err
}

// spoil damages the records that are drawn for it.
func (w *windowsWorld) spoil(records []window.Record) {
	for i := range records {
		if r := w.of(records[i].Body); r != nil && r.damaged {
			records[i].Damaged = window.Mixed
		}
	}
}

// Open makes a source that cannot be gated, as that of windows cannot.
func (s gatedWindows) Open() tidemill.Source {
	return parkedSource{gatedSource{onRecord{s.Store.Open(), s.w.fault,
		func(m *tidemill.Message) { s.w.handed(s.p, m) },
		func(e *tidemill.Settlement) { s.w.ended(s.p, e) },
	}, "windows", s.w.idleWindows, s.w.g, s.p}}
}

// idleWindows says when a window can be handed out, if nothing else happens.
func (w *windowsWorld) idleWindows() time.Duration {
	next, now := time.Duration(-1), time.Now()
	line := map[string]bool{} // batch ids with an older window that goes first
	for i, err := range w.store.List(context.Background(), window.Filter{}) {
		if err != nil {
			return 0
		}
		if i.State == window.Active || i.State == window.Parked {
			continue
		}
		left := max(i.Due.Sub(now), 0)
		if left == 0 && line[i.Batch] { // behind the other, or before it since a replay
			left = poll
		}
		if line[i.Batch] = true; next < 0 || left < next {
			next = left
		}
	}
	return next
}

// topic is a queue as a process reads it. Records to index are read in the order of their keys;
// those of an intake, as from a partition, all at once.
func (w *windowsWorld) topic(p *process, name string) tidemill.Source {
	indexed := name == eventOut || name == mentionOut
	s := gatedSource{onRecord{w.queues.Open(name, queue.Options{Ordered: indexed}), w.fault,
		func(m *tidemill.Message) {
			w.book.Lock()
			defer w.book.Unlock()
			if w.reading[name+string(m.Key)] = p; !indexed {
				w.turn++
				r := w.of(m.Payload)
				r.reader, r.turn = p, w.turn
				r.hands[p]++
			}
		},
		func(e *tidemill.Settlement) {
			w.book.Lock()
			defer w.book.Unlock()
			var n int
			if _, err := fmt.Sscanf(e.ID, "m-%d", &n); !indexed && err == nil {
				w.brought(w.reports[n], name, e)
			}
		},
	}, name, idleQueue(w.queues, name), w.g, p}
	if w.holds {
		return steady{s}
	}
	return s
}

// steady is a source that cannot bring a message back after a time.
type steady struct{ gatedSource }

func (s steady) Traits() tidemill.Traits {
	t := s.gatedSource.Traits()
	t.Delays = false
	return t
}

// copies is the topic of the index's dead letters.
type copies struct {
	w *windowsWorld
	p *process
}

// Write accepts some and not others, now and then, and never some records.
func (c copies) Write(_ context.Context, batch []*tidemill.Message) error {
	return c.w.g.do(c.p, "copy letters", batch[0].ID, func() error {
		w := c.w
		w.book.Lock()
		defer w.book.Unlock()
		var partly tidemill.Partial
		for i, m := range batch {
			r := w.of(m.Payload)
			switch {
			case r == nil || m.To != copiesOut || string(m.Key) != r.id || m.Get("__connect.errors.exception.message") == nil:
				w.fault("a letter of the index was copied as %+v", m)
			case r.n%7 == 0:
				w.copied[r] = true // as far as it can be
				partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Validation, "sim: the copy is too large")})
			case w.chance(6, "copy", r.n, lately(2*time.Second)):
				partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Transient, "sim: no copy now")})
			default:
				w.copied[r] = true
			}
		}
		if len(partly.Failed) > 0 {
			return &partly
		}
		return nil
	})
}

// brought notes how a message of an intake, or of its dead letters, ended.
func (w *windowsWorld) brought(r *report, where string, e *tidemill.Settlement) {
	if e.End != tidemill.Done {
		return
	}
	switch e.Fate {
	case tidemill.Delivered:
		if r.delivered++; r.bad || r.delivered > r.fresh {
			w.fault("%v was settled as stored by %s %d times, and was stored as a new record %d times", r, where, r.delivered, r.fresh)
		}
	case tidemill.Skipped:
		if r.skipped++; r.bad || r.skipped > r.over || e.Cause != "duplicate" {
			w.fault("%v was skipped by %s (%s) %d times, and took another's place %d times", r, where, e.Cause, r.skipped, r.over)
		}
	case tidemill.Dead:
		if r.dead++; !r.bad || e.Kind != tidemill.Validation && e.Cause != "it has a dead letter" {
			w.fault("%v is dead at %s: %v %s", r, where, e.Kind, e.Cause)
		}
		if w.graves[where+" "+e.ID] == nil {
			w.fault("%v is dead at %s, and there was no letter", r, where)
		}
	}
}

// windowsLettersOnRecord are dead letters below the gate.
type windowsLettersOnRecord struct {
	deadletter.Store
	w *windowsWorld
	p *process
}

func (s windowsLettersOnRecord) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	s.w.book.Lock()
	defer s.w.book.Unlock()
	if err := s.Store.Put(ctx, letters); err != nil {
		return err
	}
	for i := range letters {
		s.w.lettered(&letters[i])
	}
	return nil
}

func (s windowsLettersOnRecord) Open(pipeline string) tidemill.Source {
	return onRecord{s.Store.Open(pipeline), s.w.fault, func(m *tidemill.Message) {
		s.w.book.Lock()
		defer s.w.book.Unlock()
		if r := s.w.graves[pipeline+" "+m.ID]; r == nil {
			s.w.fault("%s hands out the letter %s, which nobody has put", pipeline, m.ID)
		} else if to, found := strings.CutPrefix(pipeline, "index-"); found {
			s.w.unruly["processor-"+to+s.w.document(r)] = true
		}
	}, func(e *tidemill.Settlement) {
		s.w.book.Lock()
		defer s.w.book.Unlock()
		r := s.w.graves[pipeline+" "+e.ID]
		switch {
		case r == nil:
			s.w.fault("%s: the end of the letter %s, which nobody has put", pipeline, e.ID)
		case strings.HasPrefix(pipeline, "index-"):
		default:
			if e.End == tidemill.Done && e.Fate != tidemill.Dead {
				s.w.count[Replays]++
			}
			s.w.brought(r, pipeline, e)
		}
	}}
}

// lettered checks a dead letter on its way into the store.
func (w *windowsWorld) lettered(x *tidemill.DeadLetter) {
	m := x.Message
	if x.Pipeline == windows.Delivered && m.Type == "result" {
		if o := w.spanOf(m.ID); o == nil || o.batch != stored(w.verbose) || x.Kind != tidemill.Validation {
			w.fault("a result has a letter %s: %v %s", m.ID, x.Kind, x.Cause)
		}
		w.graves[x.Pipeline+" "+m.ID] = w.noReport
		return
	}
	r := w.of(m.Payload)
	if r == nil {
		w.fault("a letter of what nobody brought: %s of %s: %s", m.ID, x.Pipeline, m.Payload)
		return
	}
	if at := x.Pipeline + " " + m.ID; w.graves[at] != nil && w.graves[at] != r {
		w.fault("%v has the letter of %v: %s", r, w.graves[at], at)
	} else {
		w.graves[at] = r
	}
	in, _ := r.topics()
	switch x.Pipeline {
	case in:
		if !r.bad || x.Kind != tidemill.Validation || string(m.Payload) != string(r.raw) || len(m.Header) != len(r.header) || m.ID != fmt.Sprint("m-", r.n) {
			w.fault("%v has a letter of its intake: %v %s: %s", r, x.Kind, x.Cause, m.Payload)
		}
	case windows.Delivered:
		w.count[DiedAlone]++
		o := w.spanOf(m.ID)
		if o == nil || o.places[r.name()] == nil || o.places[r.name()].r != r {
			w.fault("%v has a letter %s, and is not there", r, m.ID)
			return
		}
		o.places[r.name()].lettered++
		if w.peace {
			w.fault("%v is dead, and nothing went wrong: %s", r, x.Cause)
		}
		if string(m.Payload) != string(r.raw) || m.Type != r.kind.String() || string(m.Get("X-Batch-ID")) != r.batch {
			w.fault("%v has a letter of type %s and batch %s, as %s", r, m.Type, m.Get("X-Batch-ID"), m.Payload)
		}
		if !r.mortal() && x.Kind != tidemill.Partner {
			w.fault("%v has a letter: %v %s", r, x.Kind, x.Cause)
		}
	default:
		w.count[NotIndexed]++
		if !w.copied[r] {
			w.fault("%v has a letter of its index, and that was not copied", r)
		}
		if !r.unfit && !r.dayless || x.Kind != tidemill.Validation || string(m.Key) != r.id || !r.goesOut(m.Payload) {
			w.fault("%v has a letter of its index: %v %s under %s: %s", r, x.Kind, x.Cause, m.Key, m.Payload)
		}
	}
}

// gatedIndex is a process's index. It delays some documents, and refuses others.
type gatedIndex struct {
	*memorysearch.Store
	w *windowsWorld
	p *process
}

func (x gatedIndex) Index(ctx context.Context, docs []search.Doc) error {
	return x.w.g.do(x.p, "index", fmt.Sprint(docs[0].Schema, docs[0].ID, x.w.of(docs[0].Body), len(docs)), func() error { return x.take(ctx, docs) })
}

func (x gatedIndex) take(ctx context.Context, docs []search.Doc) error {
	w := x.w
	w.book.Lock()
	defer w.book.Unlock()
	var out search.Outcome
	for i, d := range docs {
		r := w.of(d.Body)
		if r == nil {
			w.fault("what nobody brought is to be indexed: %s", d.Body)
			continue
		}
		_, topic := r.topics()
		switch {
		case r.unfit:
			out.Fail(i, tidemill.Fail(tidemill.Validation, "sim: 400"))
			continue
		case w.chance(15, "index", r.n, lately(5*time.Second)):
			w.count[PutOff]++
			out.Fail(i, tidemill.Fail([]tidemill.Kind{tidemill.RateLimit, tidemill.Transient, tidemill.Partner}[r.n%3], "sim: 429 or 503"))
			continue
		case d.ID != w.document(r):
			w.fault("%v is to be indexed as %s", r, d.ID)
		case w.reading[topic+r.id] != x.p:
			w.unruly[topic+w.document(r)] = true
		}
		if err := x.Store.Index(ctx, docs[i:i+1]); err != nil {
			return err
		}
	}
	return out.Err()
}

func (x gatedIndex) Setup(ctx context.Context) error {
	return x.w.g.do(x.p, "set up index", "", func() error { return x.Store.Setup(ctx) })
}
