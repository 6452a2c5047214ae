// Package accept holds the rules of CRM's ingest API, without HTTP: events are checked one by
// one, and an answer means that the accepted ones are durable in the queue. Use it under any
// transport: HTTP, the command line, another system's queue, a Go program.
//
// An event's job is named by tenant and event id. The queue knows the name for at least a day:
// the same event sent again is a duplicate, and changes nothing. The sync log recognises one
// that comes later, when it is its turn.
package accept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// Queue that events wait in.
const Queue = "crm-events"

// Status is what became of one event.
type Status string

// What becomes of events.
const (
	Accepted  Status = "accepted"  // durable
	Duplicate Status = "duplicate" // an event of this tenant and id was accepted before
	Rejected  Status = "rejected"  // Err says why
)

// Why events are not accepted. ErrFull and ErrClosed are of kind rate_limit: the same
// events may be sent again later.
var (
	ErrTenant = errors.New("the key is not one of this tenant")
	ErrFull   = errors.New("the queue is full: try again later")
	ErrClosed = errors.New("the queue is being drained and takes no new events: try again later")
)

// Result is what became of one event.
type Result struct {
	Status           Status
	ID, Tenant, Type string // as far as they could be read
	Err              error  // Rejected: ErrTenant, or of kind validation around an *event.Invalid
}

// Options tune an Acceptor; the zero value is ready to use.
type Options struct {
	Priorities *priority.Table // nil: the default rules
	Timeout    time.Duration   // until events are durable; 0 means 10s
}

// Acceptor accepts events. It is safe for concurrent use.
type Acceptor struct {
	queue queue.Intake
	o     Options
}

// New makes an Acceptor.
func New(q queue.Intake, o Options) (*Acceptor, error) {
	if q == nil || o.Timeout < 0 {
		return nil, fmt.Errorf("accept events: want a queue, and a timeout of 0 or more, not %v", o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Priorities == nil {
		var err error
		if o.Priorities, err = priority.New(priority.Default()); err != nil {
			return nil, err
		}
	}
	return &Acceptor{q, o}, nil
}

// Accept makes events durable, and says what became of each. may reports whether the sender may
// speak for a tenant; nil: for any. After an error some events may be in the queue: sending all
// of them again is safe.
//
// Accept goes on if ctx ends, within its timeout, so that nothing is left half done.
func (a *Acceptor) Accept(ctx context.Context, raws [][]byte, may func(tenant string) bool) ([]Result, error) {
	results := make([]Result, len(raws))
	jobs, of := make([]*tidemill.Message, 0, len(raws)), make([]*Result, 0, len(raws))
	for i, raw := range raws {
		var e event.Event
		err := event.Decode(raw, &e)
		r := &results[i]
		*r = Result{ID: e.ID, Tenant: e.Tenant, Type: e.Type, Err: err}
		if e.Tenant != "" && may != nil && !may(e.Tenant) {
			r.Err = ErrTenant // and nothing else is said about it
		}
		if r.Err != nil {
			r.Status = Rejected
			continue
		}
		jobs, of = append(jobs, a.job(&e)), append(of, r)
	}
	if len(jobs) == 0 {
		return results, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.o.Timeout)
	defer cancel()
	added := make([]queue.Added, len(jobs))
	trace := tidemill.TraceIn(ctx)
	for _, j := range jobs {
		j.Header = trace.Put(j.Header)
	}
	if err := a.queue.Add(ctx, jobs, added); err != nil {
		return nil, fmt.Errorf("queue %d events: %w", len(jobs), err)
	}
	for i, r := range of {
		switch added[i] {
		case queue.New:
			r.Status = Accepted
		case queue.Known:
			r.Status = Duplicate
		case queue.Closed:
			return nil, &tidemill.Error{Kind: tidemill.RateLimit, Err: ErrClosed}
		default:
			return nil, &tidemill.Error{Kind: tidemill.RateLimit, Err: ErrFull}
		}
	}
	return results, nil
}

// Job makes an event's job, for callers that add it to the queue themselves. The error is that
// of event.Decode.
func (a *Acceptor) Job(raw []byte) (*tidemill.Message, error) {
	var e event.Event
	if err := event.Decode(raw, &e); err != nil {
		return nil, err
	}
	return a.job(&e), nil
}

func (a *Acceptor) job(e *event.Event) *tidemill.Message {
	return &tidemill.Message{ID: e.ID, To: Queue, Tenant: e.Tenant, Type: e.Type, Time: e.Time, Payload: e.Raw, Priority: a.o.Priorities.Of(e.Type)}
}
