package delivery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Where a partner takes several messages in one request, a request waits at least so long for
// more of them, and longer where requests a second are limited. Few workers make fuller
// requests than many.
const (
	gatherLeast  = 200 * time.Millisecond
	gatherMost   = 2 * time.Second
	batchWorkers = 4
)

// gather is how long a request waits for more messages at a limit of so many requests a second;
// 0: no limit.
func gather(rate float64) time.Duration {
	if rate == 0 {
		return gatherLeast
	}
	return min(max(gatherLeast, time.Duration(float64(time.Second)/rate)), gatherMost)
}

// sender makes the pipelines of a partner: of its queue, and of its dead letters.
func (s *System) sender(t *target) error {
	most := t.Workers
	switch {
	case most > 0:
	case t.Items > 1:
		most = min(batchWorkers, s.o.Most)
	default:
		most = s.o.Most
	}
	p := s.pipeline(t.sources, t.queue, s.open(t.queue, t.Lease, t.Ordered))
	t.gate = p.Source.(tidemill.Gater)
	p.Work, p.Dead, p.Lanes = s.work(t, false), s.p.DeadLetters, most
	again := s.pipeline(t.sources, ReplayOf(t.queue), s.p.DeadLetters.Open(t.queue))
	again.Work, again.Lanes, again.May = s.work(t, true), min(2, most), s.mayReplay(t)
	for _, p := range []*flow.Pipeline{&p, &again} {
		p.Rules, p.Retry, p.Breaker, p.Batch = rules, t.Retry, t.Breaker, t.Items
		if t.Items > 1 {
			p.Age = gather(t.Limiter.Rate)
		}
	}
	if t.Items > 1 && t.Limiter.Rate > 0 {
		t.requests.bucket = t.Limiter.Bucket()
	}
	var err error
	if t.live, err = flow.New(p); err != nil {
		return err
	}
	t.scale = scaling{least: min(s.o.Workers, most), most: most, now: min(s.o.Workers, most)}
	if err := t.live.Workers(t.scale.now); err != nil {
		return err
	}
	t.replay, err = flow.New(again)
	return err
}

// work is what is done with a partner's jobs. A message that must be sent once is written to
// the ledger before the request and after the answer. A crash in between leaves an entry that
// says so. Then the message is sent again only if the partner de-duplicates; otherwise a person
// decides. Whatever a replay has sent is in the ledger too: its dead letter is gone then, and
// Event says what became of it.
func (s *System) work(t *target, replay bool) func(flow.Env) flow.Work {
	stages := []flow.Stage[struct{}]{{Name: "route", Do: t.decideLate, Repeat: true}, {Name: "send", Do: t.send, Repeat: t.Idempotent}}
	if !replay && t.ages() {
		stages = append([]flow.Stage[struct{}]{{Name: "age", Do: s.skipExpired(t), Repeat: true}}, stages...)
	}
	send := flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil }, Stages: stages}.Lane
	guard := once.Guard{Ledger: s.p.Sent, Only: t.once, Repeat: t.Idempotent, Lease: s.leaseOf(t), Bare: true,
		Key: func(m *tidemill.Message) string { return t.sent(m.Tenant, EventOf(m)) }}
	switch {
	case replay: // an operator asked for it
		guard.Anew = func(*tidemill.Message) bool { return true }
		note := guard
		note.Only, note.Repeat = func(m *tidemill.Message) bool { return !t.once(m) }, true
		return guard.Around(note.Around(send))
	case t.Once == partner.Nothing:
		return send
	}
	return guard.Around(send)
}

// once says whether the partner must not get the event of a job twice.
func (t *target) once(m *tidemill.Message) bool {
	return t.Once == partner.All || t.Once == partner.Purchases && purchase(m)
}

// sent is the ledger's key of an event that is sent to the partner.
func (t *target) sent(site, event string) string { return t.Name + "/" + site + "/" + event }

// asksAgain is how long a replay waits at most before it asks again: its partner's queue may be
// let go on before the time it gave.
const asksAgain = time.Second

// mayReplay lets replayed events take turns among the jobs of their partner's queue. The
// queue's limits hold for them, and they wait while it hands out nothing.
func (s *System) mayReplay(t *target) func(context.Context, []*flow.Task) (int, time.Duration) {
	return func(ctx context.Context, batch []*flow.Task) (n int, wait time.Duration) {
		for n < len(batch) {
			same := 1
			for n+same < len(batch) && batch[n+same].Tenant == batch[n].Tenant {
				same++
			}
			may, at, err := s.p.Queues.Turn(ctx, t.queue, batch[n].Tenant, same)
			if n += may; may == same {
				continue
			}
			if wait = asksAgain; err != nil {
				// Logged when a replay cannot ask whose turn it is; it asks again.
				// To do: see whether the queue's database is well.
				s.o.Log.WarnContext(ctx, "a replay waits", "partner", t.Name, "error", err)
			} else if !at.IsZero() {
				wait = min(at.Sub(s.o.Now()), wait)
			}
			break
		}
		return n, wait
	}
}

// leaseOf is how long an entry in the ledger keeps others off: longer than a request lasts.
func (s *System) leaseOf(t *target) time.Duration { return max(2*s.o.Lease, 2*t.Lease) }

// purchase reports whether the event of a job must not be counted twice.
func purchase(m *tidemill.Message) bool {
	return m.Type == "purchase" || m.Get(ConversionHeader) != nil
}

// send writes a batch to the partner. Its answer to the messages that it did not accept goes
// with them into dead letters.
func (t *target) send(ctx context.Context, batch []*flow.Item[struct{}]) error {
	ms := make([]*tidemill.Message, len(batch))
	for i, it := range batch {
		ms[i] = &it.Message
	}
	err := t.Sink.Write(ctx, ms)
	if err == nil {
		return nil
	}
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
		again := &tidemill.Partial{Failed: slices.Clone(partly.Failed)}
		for i, f := range again.Failed {
			if f.Index >= 0 && f.Index < len(batch) {
				batch[f.Index].Answer(response(f.Err))
				again.Failed[i].Err = t.lost(ms[f.Index], f.Err)
			}
		}
		return again
	}
	row := response(err)
	for _, it := range batch {
		it.Answer(row)
	}
	if len(batch) == 1 {
		return t.lost(ms[0], err)
	}
	return err // of several messages only the end of ctx is not a Partial
}

// lost is the failure of a message whose answer may be lost by err: only a message that must
// not be sent twice stays unknown.
func (t *target) lost(m *tidemill.Message, err error) error {
	if t.once(m) {
		return err
	}
	return partner.Repeatable(err)
}

// requests bounds how many requests a second this process makes, where a request has several
// messages: the queue's limit, which all instances share, counts messages.
type requests struct {
	now    func() time.Time
	mu     sync.Mutex     // guards what the bucket holds
	bucket *policy.Bucket // nil: no bound
}

// wait returns when the next request may go. Its error is the end of ctx.
func (r *requests) wait(ctx context.Context) error {
	if r.bucket == nil {
		return nil
	}
	r.mu.Lock()
	d := r.bucket.Take(r.now(), 1)
	r.mu.Unlock()
	if d <= 0 {
		return nil
	}
	return sleep.For(ctx, d)
}

// response is what the partner answered, as a dead letter keeps it.
func response(err error) []byte {
	status, body, ok := partner.Response(err)
	if !ok {
		return nil
	}
	row := struct {
		Status     int    `json:"status"`
		Body       string `json:"body,omitempty"`
		BodyBase64 string `json:"bodyBase64,omitempty"` // where it is not text
	}{Status: status}
	if utf8.Valid(body) {
		row.Body = string(body)
	} else {
		row.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
	b, err := json.Marshal(row)
	if err != nil {
		return nil // of a number and texts: it cannot fail
	}
	return b
}

// scaling says how many workers a partner has: twice as many every second while jobs wait for
// one, down to the least when idle. After the circuit was open it is the least, so that a
// partner that comes back does not get everything at once. An idle worker costs nothing. Fewer
// workers lease fewer jobs ahead.
type scaling struct{ least, most, now int }

// decide takes whether the circuit is closed, how many jobs wait for a worker and how many are
// held in all.
func (s *scaling) decide(closed bool, waiting, held int) int {
	switch {
	case !closed:
		s.now = s.least
	case waiting > 0:
		s.now = min(s.most, 2*s.now)
	case held < s.now/4:
		s.now = max(s.least, s.now/2)
	}
	return s.now
}

func (t *target) resize(log *slog.Logger) error {
	st := t.live.Stats()
	was := t.scale.now
	if n := t.scale.decide(st.Breaker == policy.Closed, st.Buffered, st.InFlight); n != was {
		// Logged when a partner got more or fewer workers for what waits.
		log.Debug("the number of workers of a partner follows its load", "partner", t.Name, "from", was, "to", n)
		return t.live.Workers(n)
	}
	return nil
}
