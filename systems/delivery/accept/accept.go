// Package accept holds the rules of delivery's ingest API, without HTTP: what was accepted
// before is not accepted again, and an answer means that events are durable in a queue. Use it
// under any transport that brings events in.
//
// A ledger keeps what a request brings:
//
//	key    of an idempotency key, of a whole request or of one event: what was asked (a
//	       hash), and what was answered; the same again is answered the same
//	event  of a site and an event's id: the time it is of. The same id and time is a
//	       duplicate; the same id and another time is another event, whose name gets a
//	       part of its hash behind the id
//	order  of a site and an order: purchases and conversions
//
// Where the ledger and the queues are in one store, a request that is wholly new is accepted in
// one transaction: all of it, or nothing.
//
// Other requests go step by step. First the queues say which of the events' names they know.
// Then one call begins all entries of the request (a second call begins those of orders, once
// the names of their jobs are known), one call puts the events into their queues, and one call
// ends the entries. Concurrent requests share the ledger's calls. If a queue knew an event's
// name before any request began its entry, the ledger has forgotten the event: it is a
// duplicate, and its entry says so from the first call on, for every process that continues it.
// A job's name follows from what was sent, and one request alone holds an entry that is begun.
// So after a crash, a lost answer or an expired lease, the same request sent again puts the
// same names into the same queues, which know them. Each event is accepted at most once.
//
//	what happens               the entries                        the same request again
//	it is refused              never begun                        is judged again
//	a queue is full            dropped                            is accepted, if there is room
//	the queue's answer is lost dropped; events stay as failed     is accepted: known there, or new
//	a crash                    running until their lease ends     has to wait, is then accepted
//	it was accepted            done, for a day                    gets the first answer
package accept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// Names of the queues that events wait in.
const (
	High     = "ingest.high"     // purchases and conversions
	Standard = "ingest.standard" // everything else
	Low      = "ingest.low"      // large batches, and requests whose sender says that they can wait
)

// ConversionHeader marks the job of an event that came as a server-to-server conversion,
// whatever its type.
const ConversionHeader = "conversion"

// Why a request is not accepted. Any other error is the service's own: the same request may
// succeed later, and is safe to repeat.
var (
	ErrRunning = errors.New("the same request, or one about the same event or order, is being worked on: try again in a moment")
	ErrReused  = errors.New("the idempotency key was used for another request: use a new key for what is new")
	ErrFull    = errors.New("the queue takes no events now: try again later")
)

// Options tune an Acceptor; the zero value is ready to use.
type Options struct {
	Keep    time.Duration // how long keys, events and orders are known; 0 means 24h
	Lease   time.Duration // how long a request that died delays the same request; 0 means 30s. At least twice Timeout.
	Timeout time.Duration // until a request's events are durable, and once more until their entries are ended; 0 means 10s

	// Batch is how many events a request may have before they go to the queue Low, except
	// purchases and conversions; 0 means 100.
	Batch int
	// Class names the queue of an event, whose bytes are raw. Nil, or an empty answer: the
	// rules above.
	Class func(e *event.Event, raw []byte) string

	Transaction Transaction          // of the same ledger and queues, where they share a store; nil: requests go step by step
	Gather      ledger.GatherOptions // how requests share the ledger's calls; zero fields: 2 calls at once, of 250 entries

	Now  func() time.Time // nil means time.Now
	Call func() uint64    // random numbers, not 0, that name calls; nil: drawn by chance
	Log  *slog.Logger     // nil discards
}

// Acceptor accepts requests. It is safe for concurrent use.
type Acceptor struct {
	all    ledger.Store
	ledger ledger.Ledger // gathered
	queues Queues
	o      Options
	plans  sync.Pool // of *plan, of requests accepted in one transaction
}

// Queues is what an Acceptor needs of its queues.
type Queues interface {
	queue.Intake
	queue.Register
}

// New makes an Acceptor. No other keys may be in its ledger.
func New(l ledger.Store, q Queues, o Options) (*Acceptor, error) {
	if l == nil || q == nil {
		return nil, errors.New("accept events: a ledger and a queue are needed")
	}
	o.Keep, o.Timeout, o.Batch = cmp.Or(o.Keep, 24*time.Hour), cmp.Or(o.Timeout, 10*time.Second), cmp.Or(o.Batch, 100)
	o.Lease = cmp.Or(o.Lease, max(30*time.Second, 2*o.Timeout))
	o.Gather.Entries = cmp.Or(o.Gather.Entries, 250)
	o.Gather.Timeout = cmp.Or(o.Gather.Timeout, max(o.Timeout, 0))
	switch {
	case o.Keep < time.Minute || o.Timeout < 0 || o.Batch < 1:
		return nil, fmt.Errorf("accept events: keep %v (at least a minute), timeout %v, batch %d (at least 1)", o.Keep, o.Timeout, o.Batch)
	case o.Lease < 2*o.Timeout:
		return nil, fmt.Errorf("accept events: a lease of %v with a timeout of %v: want twice as much at least, so that nobody takes over what is still worked on", o.Lease, o.Timeout)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Call == nil {
		o.Call = func() uint64 { return rand.Uint64() | 1 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g, err := ledger.Gather(l, o.Gather)
	if err != nil {
		return nil, fmt.Errorf("accept events: %w", err)
	}
	return &Acceptor{all: l, ledger: g, queues: q, o: o}, nil
}

// Accept makes the request's events durable, or says what became of them before. It works on
// the request to its end, within a few times Timeout, even if ctx ends first: the caller may be
// gone, but no entry is left half done.
func (a *Acceptor) Accept(ctx context.Context, r *Request) (*Answer, error) {
	whole := context.WithoutCancel(ctx)
	if answer := a.atOnce(whole, r); answer != nil {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(whole, a.o.Timeout)
	defer cancel()
	p := newPlan(new(plan), r)
	if err := a.ask(ctx, p); err != nil {
		return nil, err
	}
	if err := a.begin(ctx, p, p.claims); err != nil {
		return nil, fmt.Errorf("begin a request of %d events: %w", len(r.Items), err)
	}
	again, err := p.decide()
	if err == nil && again == nil {
		err = a.second(ctx, p)
	}
	if err == nil && again == nil {
		err = a.add(ctx, p)
	}
	if err != nil || again != nil {
		a.end(whole, p.leave())
		return again, err
	}
	answer, each := p.answer()
	a.end(whole, p.done(answer, each))
	return answer, nil
}

// ask asks the queues which of the events they know by name, before the entries are begun: the
// first Begin of an entry stores that answer with it.
func (a *Acceptor) ask(ctx context.Context, p *plan) error {
	names, of := p.names(a)
	if len(names) == 0 {
		return nil
	}
	known := make([]bool, len(names))
	if err := a.queues.Knows(ctx, names, known); err != nil {
		return fmt.Errorf("look for %d events: %w", len(names), err)
	}
	for n, i := range of {
		p.known(i, names[n].ID, known[n])
	}
	return nil
}

// begin begins entries. If the first answer is lost, the same call is made again and finds what
// became of it. Otherwise entries could be left behind that no request ends.
func (a *Acceptor) begin(ctx context.Context, p *plan, claims []*claim) error {
	if len(claims) == 0 {
		return nil
	}
	es, call := p.entries(claims), a.o.Call()
	for _, e := range es {
		e.Call = call
	}
	err := a.ledger.Begin(ctx, es, ledger.Begin{Lease: a.o.Lease})
	if err == nil || tidemill.KindOf(err) == tidemill.Validation {
		return err
	}
	if a.ledger.Begin(ctx, es, ledger.Begin{Lease: a.o.Lease}) == nil {
		return nil
	}
	return err
}

// second begins the entries that follow from what the first ones said. Most requests have
// none.
func (a *Acceptor) second(ctx context.Context, p *plan) error {
	claims := p.second()
	if err := a.begin(ctx, p, claims); err != nil {
		return fmt.Errorf("begin %d orders, or events whose id was used: %w", len(claims), err)
	}
	return p.decideSecond()
}

// add puts new events into their queues. An event that its queue knows was added by an earlier
// request that did not come to its end.
func (a *Acceptor) add(ctx context.Context, p *plan) error {
	jobs := p.jobs(a)
	if len(jobs) == 0 {
		return nil
	}
	if p.r.Admit != nil {
		if err := p.r.Admit(len(jobs)); err != nil {
			return err
		}
	}
	added := make([]queue.Added, len(jobs))
	if err := a.queues.Add(ctx, jobs, added); err != nil {
		p.unknown = true
		return fmt.Errorf("queue %d events: %w", len(jobs), err)
	}
	if !p.added(added) {
		return ErrFull
	}
	return nil
}

// end ends entries. No caller sees a failure here: by now all events are durable, or none was
// added. An entry that stays running does so until its lease ends. Then its request is worked
// on again, to the same effect.
func (a *Acceptor) end(ctx context.Context, es []*ledger.Entry) {
	if len(es) == 0 {
		return
	}
	err := a.ledger.End(ctx, es) // within the timeout of gathered calls: the queue may have used up the request's own
	if err != nil {
		err = a.ledger.End(ctx, es)
	}
	if err != nil {
		// Logged when a request was refused, and the ledger could not forget that it had begun.
		// To do: nothing: who sends it again within the lease is answered 503, and later taken.
		a.o.Log.WarnContext(ctx, "entries of a request stay until their lease ends", "count", len(es), "error", err)
	}
}

// Expire forgets what is older than Keep. Call it about once a minute.
func (a *Acceptor) Expire(ctx context.Context) error {
	const step = 1000
	for {
		n, err := a.all.Expire(ctx, a.o.Now().Add(-a.o.Keep), step)
		if err != nil {
			return fmt.Errorf("forget keys: %w", err)
		}
		if n < step {
			return nil
		}
	}
}
