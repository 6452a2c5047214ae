// What the checkers find needs no race detector: make sim runs these.

//go:build !race

package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// The bugs below are the classic ones of event handlers with a sync log.

// begun is a ledger that changes entries before and after they are begun.
type begun struct {
	ledger.Store
	before func(*ledger.Entry, *ledger.Begin)
	after  func(*ledger.Entry)
}

func (l begun) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	for _, e := range es {
		l.before(e, &o)
	}
	err := l.Store.Begin(ctx, es, o)
	if err == nil && l.after != nil {
		for _, e := range es {
			l.after(e)
		}
	}
	return err
}

// beginning changes requests to the sync log.
func beginning(before func(*ledger.Entry, *ledger.Begin)) func(*CRMParts) {
	return func(p *CRMParts) { p.Log = begun{p.Log, before, nil} }
}

// without is a sync log that hides what was done before.
func without(what func(*ledger.Entry)) func(*CRMParts) {
	return func(p *CRMParts) { p.Log = begun{p.Log, func(*ledger.Entry, *ledger.Begin) {}, what} }
}

// onlyTheLast is a sync log that keeps only for whom an event was handled last.
type onlyTheLast struct{ ledger.Store }

func (l onlyTheLast) End(ctx context.Context, es []*ledger.Entry) error {
	for _, e := range es {
		if lines := strings.SplitAfter(string(e.Result), "\n"); e.State == ledger.Done && len(lines) > 1 {
			e.Result = []byte(lines[len(lines)-2])
		}
	}
	return l.Store.End(ctx, es)
}

// believed is a sync log that is not asked for longer leases: they count as granted.
type believed struct {
	ledger.Store
	mu    *sync.Mutex // guards given
	given map[uint64]map[string]ledger.Entry
}

func (l believed) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	l.mu.Lock()
	before := l.given[es[0].Call]
	l.mu.Unlock()
	if before != nil {
		for _, e := range es {
			*e = before[e.Key]
		}
		return nil
	}
	err := l.Store.Begin(ctx, es, o)
	if err == nil {
		given := map[string]ledger.Entry{}
		for _, e := range es {
			given[e.Key] = *e
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.given[es[0].Call] = given
	}
	return err
}

// neverFails is a sync log that leaves failures open.
type neverFails struct{ ledger.Store }

func (l neverFails) End(ctx context.Context, es []*ledger.Entry) error {
	var done []*ledger.Entry
	for _, e := range es {
		if e.State == ledger.Done {
			done = append(done, e)
		}
	}
	if len(done) == 0 {
		return nil
	}
	return l.Store.End(ctx, done)
}

// alwaysDone is a sync log in which everything is completed.
type alwaysDone struct{ ledger.Store }

func (l alwaysDone) End(ctx context.Context, es []*ledger.Entry) error {
	for _, e := range es {
		e.State = ledger.Done
	}
	return l.Store.End(ctx, es)
}

// byJob are dead letters under the name of the job.
type byJob struct{ deadletter.Store }

func (l byJob) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for i := range letters {
		m := *letters[i].Message
		if request := crm.RequestOf(&m); request != "" {
			m.ID += "~" + request
		}
		letters[i].Message = &m
	}
	return l.Store.Put(ctx, letters)
}

// jobs changes jobs on their way into the queue.
type jobs struct {
	queue.Store
	change func(*tidemill.Message)
}

func (q jobs) Add(ctx context.Context, all []*tidemill.Message, added []queue.Added) error {
	for i, m := range all {
		own := *m
		q.change(&own)
		all[i] = &own
	}
	return q.Store.Add(ctx, all, added)
}

// opensNothing are queues that claim to open jobs again, and do not.
type opensNothing struct{ queue.Store }

func (q opensNothing) Add(ctx context.Context, all []*tidemill.Message, added []queue.Added) error {
	return ackBeforeDurable{q.Store}.Add(ctx, all, added)
}

// receiving changes what the queue hands out.
func receiving(change func(*tidemill.Message)) func(*CRMParts) {
	return func(p *CRMParts) {
		p.Queues = mended{Store: p.Queues, open: func(_ string, s tidemill.Source) tidemill.Source {
			return received{settles{s, func(*tidemill.Settlement) {}}, change}
		}}
	}
}

type received struct {
	settles
	change func(*tidemill.Message)
}

func (s received) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.Source.Receive(ctx, into)
	for _, m := range into[:n] {
		s.change(m)
	}
	return n, err
}

// settled changes settlements.
func settled(first func(*tidemill.Settlement)) func(*CRMParts) {
	return func(p *CRMParts) {
		p.Queues = mended{Store: p.Queues, open: func(_ string, s tidemill.Source) tidemill.Source { return settles{s, first} }}
	}
}

// handling changes handlers.
func handling(change func(handler.Handler) handler.Handler) func(*CRMParts) {
	return func(p *CRMParts) {
		for i := range p.Handlers {
			p.Handlers[i].Handler = change(p.Handlers[i].Handler)
		}
	}
}

// lenient is a handler whose failures of the named kinds are hidden.
type lenient struct {
	handler.Handler
	of func(error) bool
}

func (h lenient) Handle(ctx context.Context, calls []*handler.Call) error {
	if err := h.Handler.Handle(ctx, calls); err != nil && !h.of(err) {
		return err
	}
	return nil
}

// hasty is a handler that is called again at once if its answer does not come.
type hasty struct{ handler.Handler }

func (h hasty) Handle(ctx context.Context, calls []*handler.Call) error {
	first := make(chan error, 1)
	go func() { first <- h.Handler.Handle(ctx, calls) }()
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case err := <-first:
		return err
	case <-late.C:
		return h.Handler.Handle(ctx, calls)
	}
}

// apartFromLog is a transaction that commits its effects, and then ends the entry.
type apartFromLog struct{ gatedLog }

func (l apartFromLog) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, *memoryTx) error) error {
	tx := &memoryTx{}
	if err := do(ctx, tx); err != nil {
		return err
	}
	for _, effect := range tx.effects {
		effect()
	}
	return l.gatedLog.Within(ctx, es, func(context.Context, *memoryTx) error { return nil })
}

// stuck is a ledger of replays without progress.
type stuck struct{ ledger.Store }

func (l stuck) End(ctx context.Context, es []*ledger.Entry) error {
	for _, e := range es {
		if e.State == ledger.Failed {
			e.Result = nil
		}
	}
	return l.Store.End(ctx, es)
}

func TestTheCheckerFindsPlantedBugsOfCRM(t *testing.T) {
	with := crmWith
	findBugs(t, 150, []planted{
		{"the sync log remembers nothing", with(func(p *CRMParts) {
			p.Log = begun{p.Log, func(_ *ledger.Entry, o *ledger.Begin) { o.Anew = true }, func(e *ledger.Entry) { e.LastResult = nil }}
		})},
		{"the sync log is not told of the end", with(func(p *CRMParts) { p.Log = endless{p.Log} })},
		{"failures are not written", with(func(p *CRMParts) { p.Log = neverFails{p.Log} })},
		{"failures are written as completed", with(func(p *CRMParts) { p.Log = alwaysDone{p.Log} })},
		{"leases are too short", with(beginning(func(_ *ledger.Entry, o *ledger.Begin) { o.Lease = time.Second }))},
		{"whoever gets the job again has the entry", with(beginning(func(e *ledger.Entry, _ *ledger.Begin) { e.Holder, _, _ = strings.Cut(e.Holder, "#") }))},
		{"dead letters are dropped", with(func(p *CRMParts) { p.DeadLetters = dropOnDeadLetterError{p.DeadLetters} })},
		{"dead letters go by their jobs", with(func(p *CRMParts) { p.DeadLetters = byJob{p.DeadLetters} })},
		{"a letter goes before its job is there", with(func(p *CRMParts) { p.Queues = opensNothing{p.Queues} })},
		{"a job that is opened again is another event's", with(receiving(func(m *tidemill.Message) { lose(m, crm.EventHeader) }))},
		{"replays are taken for duplicates", with(receiving(func(m *tidemill.Message) { lose(m, crm.RequestHeader) }))},
		{"jobs of a replay have another name each time", func(seed uint64) scene {
			var n atomic.Int64
			return newCRMWorld(seed, func(p *CRMParts) {
				p.Queues = jobs{p.Queues, func(m *tidemill.Message) {
					if strings.HasPrefix(m.ID, "replay-") {
						m.ID = fmt.Sprint(m.ID, ".", n.Add(1))
					}
				}}
			})
		}},
		{"a replay forgets how far it was", with(func(p *CRMParts) { p.Replays = stuck{p.Replays} })},
		{"waiting burns tries", with(settled(func(s *tidemill.Settlement) { s.CountTry = s.CountTry || s.End == tidemill.Again }))},
		{"what failed is skipped", with(settled(func(s *tidemill.Settlement) {
			if s.End == tidemill.Again && s.CountTry {
				s.End, s.Fate, s.CountTry = tidemill.Done, tidemill.Skipped, false
			}
		}))},
		{"what is refused is tried again", with(settled(func(s *tidemill.Settlement) {
			if s.End == tidemill.Done && s.Fate == tidemill.Dead {
				s.End, s.Fate, s.CountTry = tidemill.Again, 0, true
			}
		}))},
		{"a timeout is as good as an answer", with(handling(func(h handler.Handler) handler.Handler {
			return lenient{h, func(err error) bool { return err == errMood }}
		}))},
		{"part of a batch that failed is taken for done", with(handling(func(h handler.Handler) handler.Handler {
			return lenient{h, func(err error) bool { p, ok := err.(*tidemill.Partial); return ok && len(p.Failed) > 0 }}
		}))},
		{"a handler that is slow is called twice", with(handling(func(h handler.Handler) handler.Handler { return hasty{h} }))},
		{"effects are committed before the sync log", with(func(p *CRMParts) {
			for i := range p.Handlers {
				if h, ok := p.Handlers[i].Handler.(entered); ok {
					p.Handlers[i].Handler = entered{h.w, h.p, handler.InTransaction(apartFromLog{p.Log.(gatedLog)}, h.w.transact)}
				}
			}
		})},
		{"a tenant has no limit", with(func(p *CRMParts) { p.Options.PerTenant = -1 })},
		{"a flood goes before everybody", with(func(p *CRMParts) {
			p.Queues = mended{Store: p.Queues, set: func(s *queue.Settings) { s.Fair, s.Tenant = queue.Unfair, queue.Limit{} }}
			p.Options.PerSecond = crmPerTenant
		})},
		{"the ingest API says yes before the queue does", with(func(p *CRMParts) { p.Door = ackBeforeDurable{p.Door} })},
	})
}

// These show only if a process stalls, or its answers get lost, during a replay: less often
// than the others.
func TestTheCheckerFindsPlantedBugsOfCRMBesideReplays(t *testing.T) {
	with := crmWith
	findBugs(t, 500, []planted{
		{"what failed does not say what was done before", with(without(func(e *ledger.Entry) { e.LastResult = nil }))},
		{"what is completed does not say for whom", with(without(func(e *ledger.Entry) { e.Result, e.LastResult = nil, nil }))},
		{"only the last is remembered", with(func(p *CRMParts) { p.Log = onlyTheLast{p.Log} })},
		{"a lease is believed to be renewed", with(func(p *CRMParts) { p.Log = believed{p.Log, &sync.Mutex{}, map[uint64]map[string]ledger.Entry{}} })},
		{"a clock that stands still with its process", with(func(p *CRMParts) { p.Options.Now = func() time.Time { return epoch.Add(time.Since(epoch) / 100) } })},
	})
}

// lose loses a header of a message.
func lose(m *tidemill.Message, name string) {
	for i := range m.Header {
		if string(m.Header[i].Name) == name {
			m.Header[i].Name = []byte("lost")
		}
	}
}
