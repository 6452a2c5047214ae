package crm

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// lane is what one worker knows of its batch. It is on both sides of the sync log's guard:
// around it as the pipeline's work, and under it as the ledger, so that the stages in between
// know what the guard begins and ends.
//
//	lane.Do ─▶ once.Guard ─▶ route ─▶ identity ─▶ handle
//	               │                                │ keep
//	               └──▶ lane.Begin, lane.End ◀──────┘
//	                            │
//	                         sync log
type lane struct {
	s      *System
	guard  flow.Work
	runner handler.Runner
	now    func() time.Time
	random func() float64

	jobs    []*job                 // of the batch, in its order
	of      map[*flow.Task]*job    // likewise
	calls   map[*handler.Call]*job // those made so far
	keys    map[string]*job        // by key of the sync log, the first of each
	kept    time.Time              // when ends were written and leases renewed last
	run     int                    // handlers called since then
	handled time.Duration          // by handlers of the batch
	away    error                  // why the sync log could not be reached
	unbegun bool                   // and that was so before anything began
}

// job is a task of the batch with its result.
type job struct {
	task    *flow.Task
	request string        // the job's replay; empty: none
	call    *handler.Call // nil: it did not get so far
	spec    *handler.Spec
	entry   *ledger.Entry // the guard's own, if this worker has the event
	did     did           // for whom the event was handled before
	holder  string        // of the entry, as the guard set it
	renewed ledger.Entry  // begins the entry once more, for a longer lease
	until   time.Time     // until when at least this worker has the entry, by its own clock
	took    time.Duration
	tried   bool // the handler has answered
	done    bool // and has to be recorded as done
	ended   bool // the sync log knows
	lost    bool // another worker has taken it over, or may have
}

// work makes the work of one worker.
func (s *System) work(env flow.Env) flow.Work {
	random := rand.Float64
	if env.Rand != nil {
		random = env.Rand.Float64
	}
	l := &lane{s: s, random: random, now: s.o.Now, of: map[*flow.Task]*job{}, calls: map[*handler.Call]*job{}, keys: map[string]*job{}}
	l.runner = handler.Runner{Log: s.o.Log, Before: l.before}
	guard := once.Guard{
		Ledger: l, Lease: s.o.Lease, Repeat: true,
		Key:  func(m *tidemill.Message) string { return keyOf(m.Tenant, EventOf(m)) },
		Anew: func(m *tidemill.Message) bool { return RequestOf(m) != "" },
	}
	l.guard = guard.Around(flow.Steps[event.Event]{
		Decode: decode,
		Stages: []flow.Stage[event.Event]{
			{Name: "route", Do: l.route, Repeat: true},
			{Name: "identity", Do: l.identity, Repeat: true},
			{Name: "handle", Do: l.handle, Repeat: true},
		},
	}.Lane)(env)
	return l
}

// Unwrap returns the work that is wrapped.
func (l *lane) Unwrap() flow.Work { return l.guard }

// Do works on a batch.
func (l *lane) Do(ctx context.Context, batch []*flow.Task) error {
	defer l.forget()
	for _, t := range batch {
		if !t.Live() {
			continue
		}
		j := &job{task: t, request: RequestOf(&t.Message)}
		l.jobs, l.of[t] = append(l.jobs, j), j
		if l.s.replays.stopped(ctx, l.s.p.Replays, j.request) {
			t.Skip(ReplayStopped)
			continue
		}
		if key := keyOf(t.Tenant, EventOf(&t.Message)); l.keys[key] == nil {
			l.keys[key] = j
		}
	}
	l.kept = l.now()
	began := l.kept
	err := l.guard.Do(ctx, batch)
	l.s.pace.batch(l.now().Sub(began) - l.handled)
	for _, j := range l.jobs {
		l.blame(j)
		l.s.finish(ctx, j)
	}
	return err
}

// blame marks events that failed because our own sync log is down: that does not count as a
// try, and nothing is handed out until it is back.
func (l *lane) blame(j *job) {
	if _, failure := j.task.Outcome(); failure == nil || l.away == nil || !l.unbegun && !j.done {
		return
	}
	j.task.Fail(tidemill.Fail(tidemill.Partner, "the sync log cannot be reached: %w", l.away))
}

func (l *lane) forget() {
	clear(l.jobs)
	clear(l.of)
	clear(l.calls)
	clear(l.keys)
	l.jobs, l.run, l.handled, l.away, l.unbegun = l.jobs[:0], 0, 0, nil, false
}

func decode(m *tidemill.Message, e *event.Event) error {
	raw := append(make([]byte, 0, len(m.Payload)), m.Payload...) // handlers may keep it
	return event.Decode(raw, e)
}
