package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// deed is one call of a handler for one event. crmWorld.book guards it.
type deed struct {
	e       *happening
	p       *process
	request string
	token   uint64 // of the sync log's entry that it was begun under

	began   time.Time
	over    time.Time // its time was up; zero: not yet
	ended   time.Time // zero: not yet
	took    bool      // the event's effect has happened
	good    bool      // and the system was told so
	written bool      // the sync log says so
}

// left reports whether the call was abandoned.
func (d *deed) left(now time.Time) bool {
	return !d.over.IsZero() && now.Sub(d.over) >= handler.Grace
}

// handlers are a process's own.
func (w *crmWorld) handlers(p *process, log ledger.Transactor[*memoryTx]) []handler.Spec {
	return []handler.Spec{
		{Name: "single", Types: []string{"member.*"}, Timeout: 4 * time.Second, Handler: handler.Func(func(ctx context.Context, c *handler.Call) error {
			err := w.calls(ctx, p, []*handler.Call{c}, w.oneByOne)
			if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
				return partly.Failed[0].Err
			}
			return err
		})},
		{Name: "several", Types: []string{several}, Many: 4, Timeout: 5 * time.Second, Handler: handler.Batch(func(ctx context.Context, calls []*handler.Call) error {
			return w.calls(ctx, p, calls, w.oneByOne)
		})},
		{Name: "together", Types: []string{together}, Many: 3, Timeout: 6 * time.Second, Handler: entered{w, p, handler.InTransaction(log, w.transact)}},
	}
}

// transact handles events in a transaction.
func (w *crmWorld) transact(_ context.Context, tx *memoryTx, calls []*handler.Call) error {
	w.book.Lock()
	moods := w.moods(calls)
	w.book.Unlock()
	for i, c := range calls {
		if err := w.feel(moods[i]); err != nil {
			return err
		}
		tx.effects = append(tx.effects, func() { w.commits(c) })
	}
	return nil
}

// entered is a handler whose calls are recorded.
type entered struct {
	w *crmWorld
	p *process
	handler.Handler
}

func (h entered) Handle(ctx context.Context, calls []*handler.Call) error {
	return h.w.calls(ctx, h.p, calls, func(ctx context.Context, _ *process, calls []*handler.Call, _ []*deed) error {
		return h.Handler.Handle(ctx, calls)
	})
}

// calls is a call of a handler from its beginning to its end, of any kind.
func (w *crmWorld) calls(ctx context.Context, p *process, calls []*handler.Call, do func(context.Context, *process, []*handler.Call, []*deed) error) (err error) {
	w.done.Add(1)
	defer w.done.Done()
	deeds := make([]*deed, len(calls))
	w.book.Lock()
	for i, c := range calls {
		deeds[i] = w.enters(p, c)
	}
	w.book.Unlock()
	stop := context.AfterFunc(ctx, func() {
		w.book.Lock()
		defer w.book.Unlock()
		for _, d := range deeds {
			if d.ended.IsZero() {
				d.over = time.Now()
			}
		}
	})
	defer stop()
	returned := false
	defer func() {
		w.book.Lock()
		defer w.book.Unlock()
		failed := map[int]bool{}
		partly, ok := errors.AsType[*tidemill.Partial](err)
		if ok {
			for _, f := range partly.Failed {
				failed[f.Index] = true
			}
		}
		for i, d := range deeds {
			w.returns(d, returned && (err == nil || ok && !failed[i]))
		}
	}()
	err = do(ctx, p, calls, deeds)
	returned = true
	return err
}

// oneByOne handles events that each have their own end.
func (w *crmWorld) oneByOne(ctx context.Context, p *process, calls []*handler.Call, deeds []*deed) error {
	var moods []mood
	err := w.g.do(p, "handle", fmt.Sprint(calls[0].Event.Tenant, "/", calls[0].Event.ID, " ", len(calls)), func() error {
		w.book.Lock()
		defer w.book.Unlock()
		moods = w.moods(calls)
		for i, m := range moods {
			if m == panics || m == exits { // all of them fail
				for _, d := range deeds {
					d.took = false
				}
				return nil
			}
			deeds[i].took = m == takes
		}
		return nil
	})
	if err != nil {
		return err
	}
	partly := &tidemill.Partial{}
	for _, m := range moods {
		switch m {
		case panics, exits:
			return w.feel(m)
		case hangs, numb:
			w.wait(ctx, m)
		}
	}
	for i, m := range moods {
		if err := w.feel(m); err != nil {
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: err})
		}
	}
	if partly.Failed != nil {
		return partly
	}
	return nil
}

// wait lets the time of a call pass, and more.
func (w *crmWorld) wait(ctx context.Context, m mood) {
	<-ctx.Done()
	if m == numb {
		_ = sleep.For(w.ctx, 10*time.Second)
	}
}

var errMood = errors.New("sim: the handler does not want to")

// feel is the result of a mood.
func (w *crmWorld) feel(m mood) error {
	switch m {
	case takes:
		return nil
	case misses:
		return tidemill.Fail(tidemill.NotFound, "sim: what it needs is not there")
	case invalidates:
		return tidemill.Fail(tidemill.Validation, "sim: invalid")
	case refuses:
		return tidemill.Fail(tidemill.Business, "sim: against the rules")
	case panics:
		w.counted(Panicked)
		panic("sim: a panic")
	case exits:
		w.counted(Exited)
		runtime.Goexit()
	}
	return errMood
}

// moods takes the next mood of each event.
func (w *crmWorld) moods(calls []*handler.Call) []mood {
	all := make([]mood, len(calls))
	for i, c := range calls {
		e := w.byKey[c.Event.Tenant+"/"+c.Event.ID]
		switch {
		case e.fails == tidemill.Business:
			all[i] = refuses
		case e.fails == tidemill.Validation:
			all[i] = invalidates
		case len(e.moods) > 0 && !w.g.calm:
			all[i], e.moods = e.moods[0], e.moods[1:]
			if e.typ == together && (all[i] == hangs || all[i] == numb) {
				all[i] = errs
			}
		}
	}
	return all
}

func (w *crmWorld) counted(what string) {
	w.book.Lock()
	defer w.book.Unlock()
	w.count[what]++
}

// enters checks a call as it begins. An event has one call at a time, by its holder, and none
// once it is done, as far as anybody can know. If the effect and its record are in two systems,
// some things cannot be known: whether a process that died had got so far, what a process does
// that stalls inside the call for longer than its lease, and what a process could not tell the
// sync log until its lease was over, if another has the job then. For handlers in a transaction
// all is known: see commits.
func (w *crmWorld) enters(p *process, c *handler.Call) *deed {
	now := time.Now()
	e := w.byKey[c.Event.Tenant+"/"+c.Event.ID]
	d := &deed{e: e, p: p, request: c.Replay, token: c.Entry.Token, began: now}
	if string(c.Event.Raw) != string(e.raw) || c.Event.Type != e.typ {
		w.fault("%v was handed to a handler as %s", e, c.Event.Raw)
	}
	if w.g.isDead(p) { // it has no effect
		e.calls = append(e.calls, d)
		return d
	}
	if w.newest[e.key()] != d.token {
		w.fault("%v is handled by process %d under token %d, and token %d has it now", e, p.n, d.token, w.newest[e.key()])
	}
	if at, ok := w.stopped[c.Replay]; ok && c.Replay != "" && w.g.calm && now.Sub(at) > 2*time.Minute {
		w.fault("%v is replayed for %s, which was stopped %v ago", e, c.Replay, now.Sub(at))
	}
	for _, o := range e.calls {
		dead := w.g.isDead(o.p)
		switch over := w.until[o.token].Before(now) || w.until[o.token].Equal(now); {
		case o.ended.IsZero() && dead:
		case o.ended.IsZero() && o.written: // its transaction is committed, the answer is in flight
		case o.ended.IsZero() && o.left(now):
			w.count[LeftBehind]++
		case o.ended.IsZero() && over:
			w.count[LeaseLost]++
		case o.ended.IsZero() && o.token != d.token:
			w.fault("%v is handled by two at once: process %d since %v and process %d", e, o.p.n, now.Sub(o.began), p.n)
		case o.ended.IsZero():
			w.fault("%v is handled by process %d twice under one token", e, p.n)
		case o.request != d.request || !o.good:
		case o.written:
			w.fault("%v (request %q) is handled again by process %d, and the sync log was told that it is done", e, d.request, p.n)
		case o.p == p && !p.gone:
			w.fault("%v (request %q) is handled again by process %d, which has done it", e, d.request, p.n)
		case !dead && !over && !o.p.gone:
			w.fault("%v (request %q) is handled again by process %d, and process %d has done it", e, d.request, p.n, o.p.n)
		}
	}
	e.calls = append(e.calls, d)
	return d
}

// returns checks the end of a call.
func (w *crmWorld) returns(d *deed, good bool) {
	d.ended = time.Now()
	d.good = good && !d.left(d.ended) && !w.g.isDead(d.p)
	if w.g.isDead(d.p) {
		w.count[CutOff]++
	}
}

// failed is how many calls for an event failed so far, as far as known.
func (e *happening) failed() (n int) {
	for _, d := range e.calls {
		if !d.good && !(d.ended.IsZero() && d.over.IsZero()) {
			n++
		}
	}
	return n
}

// commits is the effect of a transaction: once for the event, and once for each replay.
func (w *crmWorld) commits(c *handler.Call) {
	w.book.Lock()
	defer w.book.Unlock()
	e := w.byKey[c.Event.Tenant+"/"+c.Event.ID]
	for _, d := range e.calls {
		d.took = d.took || d.token == c.Entry.Token
	}
	if e.commits[c.Replay]++; e.commits[c.Replay] > 1 {
		w.fault("%v (request %q) was committed %d times", e, c.Replay, e.commits[c.Replay])
	}
}
