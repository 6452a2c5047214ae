// What the checkers find needs no race detector: make sim runs these.

//go:build !race

package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
)

// The bugs below are the classic ones of delivery.

// mended are queues whose sources are changed by name, and perhaps their settings.
type mended struct {
	queue.Store
	open func(name string, s tidemill.Source) tidemill.Source
	set  func(*queue.Settings)
}

func (q mended) Open(name string, o queue.Options) tidemill.Source {
	s := q.Store.Open(name, o)
	if q.open != nil {
		s = q.open(name, s)
	}
	return s
}

func (q mended) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	return q.Store.Set(ctx, name, func(s *queue.Settings) {
		change(s)
		if q.set != nil {
			q.set(s)
		}
	})
}

// opened changes the source of every queue.
func opened(open func(name string, s tidemill.Source) tidemill.Source) func(*DeliveryParts) {
	return func(p *DeliveryParts) { p.Queues = mended{Store: p.Queues, open: open} }
}

// settles changes a source's settlements. It is a queue's source.
type settles struct {
	tidemill.Source
	first func(*tidemill.Settlement)
}

func (s settles) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		s.first(&ends[i])
	}
	return s.Source.Settle(ctx, ends)
}

func (s settles) Keep(ctx context.Context) error { return s.Source.(tidemill.Keeper).Keep(ctx) }
func (s settles) Gate(ctx context.Context, until time.Time, probes int) error {
	return s.Source.(tidemill.Gater).Gate(ctx, until, probes)
}
func (s settles) Books(ctx context.Context) (tidemill.Books, error) {
	return s.Source.(tidemill.Bookkeeper).Books(ctx)
}

// settling changes the queues' settlements.
func settling(first func(*tidemill.Settlement)) func(*DeliveryParts) {
	return opened(func(_ string, s tidemill.Source) tidemill.Source { return settles{s, first} })
}

// ackFirst acknowledges an event, and then adds its jobs.
type ackFirst struct {
	settles
	queues queue.Intake
}

func (s ackFirst) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	var late []*tidemill.Message
	for i := range ends {
		for _, m := range ends[i].Next {
			own := *m
			late = append(late, &own)
		}
		ends[i].Next = nil
	}
	err := s.Source.Settle(ctx, ends)
	if err == nil && len(late) > 0 {
		_ = s.queues.Add(ctx, late, make([]queue.Added, len(late)))
	}
	return err
}

// oneForAll shuts every partner's queue when it shuts one.
type oneForAll struct {
	settles
	all *gaters
}

type gaters struct {
	mu   sync.Mutex
	list []tidemill.Gater
}

func (s oneForAll) Gate(ctx context.Context, until time.Time, probes int) error {
	s.all.mu.Lock()
	list := slices.Clone(s.all.list)
	s.all.mu.Unlock()
	for _, g := range list {
		if err := g.Gate(ctx, until, probes); err != nil {
			return err
		}
	}
	return nil
}

// careless hands out jobs without a header.
type careless struct {
	settles
	loses string
}

func (s careless) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := s.Source.Receive(ctx, into)
	for _, m := range into[:n] {
		for i := range m.Header {
			if string(m.Header[i].Name) == s.loses {
				m.Header[i].Name = []byte("lost")
			}
		}
	}
	return n, err
}

// forgetful is a ledger that claims to know nothing.
type forgetful struct{ ledger.Store }

func (l forgetful) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	o.Anew = true
	err := l.Store.Begin(ctx, es, o)
	for _, e := range es {
		e.Broken = false
	}
	return err
}

// endless is a ledger that never gets an end.
type endless struct{ ledger.Store }

func (endless) End(context.Context, []*ledger.Entry) error { return nil }

// renaming names jobs of the ingest API by the call, not by the request.
type renaming struct {
	queue.Intake
	calls *atomic.Int64
}

func (q renaming) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	call := q.calls.Add(1)
	for _, j := range jobs {
		j.ID = fmt.Sprint(j.ID, ".", call)
	}
	return q.Intake.Add(ctx, jobs, added)
}

// eraser keeps only the newest failure of a dead letter.
type eraser struct{ deadletter.Store }

func (s eraser) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for _, l := range letters {
		_, _ = s.Store.Delete(ctx, deadletter.Filter{Pipeline: l.Pipeline, Tenant: l.Message.Tenant, IDs: []string{l.Message.ID}})
	}
	return s.Store.Put(ctx, letters)
}

// over changes what goes to partners and comes from them.
type over struct {
	http.RoundTripper
	before func(*http.Request)
	after  func(*http.Request, *http.Response, error) (*http.Response, error)
}

func (o over) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.before != nil {
		o.before(r)
	}
	a, err := o.RoundTripper.RoundTrip(r)
	if o.after != nil {
		return o.after(r, a, err)
	}
	return a, err
}

// answering changes answers.
func answering(after func(*http.Request, *http.Response, error) (*http.Response, error)) func(*DeliveryParts) {
	return func(p *DeliveryParts) { p.Env.Via = over{RoundTripper: p.Env.Via, after: after} }
}

// invented is an answer that a partner did not give.
func invented(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// narrow are queues whose partners' queues refuse jobs without room.
type narrow struct{ queue.Store }

func (n narrow) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	return n.Store.Set(ctx, name, func(q *queue.Settings) {
		if change(q); strings.HasPrefix(name, "s2s.") {
			q.Max = 2
		}
	})
}

func TestTheCheckerFindsPlantedBugsOfDelivery(t *testing.T) {
	with := deliveryWith
	isPartner := func(name string) bool { return strings.HasPrefix(name, "s2s.") }
	findBugs(t, 100, []planted{
		{"an event is acknowledged before its jobs are there", with(func(p *DeliveryParts) {
			queues := p.Queues
			opened(func(_ string, s tidemill.Source) tidemill.Source { return ackFirst{settles{Source: s}, queues} })(p)
		})},
		{"a job has another id each time", func(seed uint64) scene {
			var n atomic.Int64
			return newDeliveryWorld(seed, settling(func(e *tidemill.Settlement) {
				for _, m := range e.Next {
					m.ID = fmt.Sprint(m.ID, ".", n.Add(1))
				}
			}))
		}},
		{"the ledger is not told of the end", with(func(p *DeliveryParts) { p.Sent = endless{p.Sent} })},
		{"the ledger remembers nothing", with(func(p *DeliveryParts) { p.Sent = forgetful{p.Sent} })},
		{"the breaker never opens", with(func(p *DeliveryParts) {
			for i := range p.Partners {
				p.Partners[i].Breaker.Fails = 1 << 20
			}
		})},
		{"one circuit for all partners", func(seed uint64) scene {
			all := new(gaters)
			return newDeliveryWorld(seed, opened(func(name string, s tidemill.Source) tidemill.Source {
				if !isPartner(name) {
					return s
				}
				all.mu.Lock()
				defer all.mu.Unlock()
				all.list = append(all.list, s.(tidemill.Gater))
				return oneForAll{settles{s, func(*tidemill.Settlement) {}}, all}
			}))
		}},
		{"what a site says of consent is ignored", with(func(p *DeliveryParts) { p.Options.Absent = nil })},
		{"what a browser says is ignored", with(opened(func(_ string, s tidemill.Source) tidemill.Source {
			return careless{settles{s, func(*tidemill.Settlement) {}}, "gpc"}
		}))},
		{"a vendor's consent is ignored", with(func(p *DeliveryParts) {
			for i := range p.Partners {
				p.Partners[i].Vendor = ""
			}
		})},
		{"a letter loses its history", with(func(p *DeliveryParts) { p.DeadLetters = eraser{p.DeadLetters} })},
		{"letters are dropped", with(func(p *DeliveryParts) { p.DeadLetters = dropOnDeadLetterError{p.DeadLetters} })},
		{"a retry has a key of its own", func(seed uint64) scene {
			var n sync.Map
			return newDeliveryWorld(seed, func(p *DeliveryParts) {
				p.Env.Via = over{RoundTripper: p.Env.Via, before: func(r *http.Request) {
					name, key := keyIn(r.Header)
					if _, again := n.LoadOrStore(r.URL.Host+key, true); again {
						r.Header[name] = []string{key + ".again"}
					}
				}}
			})
		}},
		{"a part that failed is taken for delivered", with(answering(func(_ *http.Request, a *http.Response, err error) (*http.Response, error) {
			if err == nil && a.StatusCode == 200 {
				b, _ := io.ReadAll(a.Body)
				a.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(b), `"ok":false`, `"ok":true`)))
			}
			return a, err
		}))},
		{"a lost answer is taken for a good one", with(func(p *DeliveryParts) {
			p.Env.Via = over{RoundTripper: p.Env.Via, after: func(r *http.Request, a *http.Response, err error) (*http.Response, error) {
				if err == io.ErrUnexpectedEOF && r.Context().Err() == nil && !strings.HasPrefix(r.URL.Host, "batch") {
					return invented(r, 200, ""), nil
				}
				return a, err
			}}
		})},
		{"a lost answer is repeated at once", with(func(p *DeliveryParts) {
			via := p.Env.Via
			p.Env.Via = over{RoundTripper: via, after: func(r *http.Request, a *http.Response, err error) (*http.Response, error) {
				if err == io.ErrUnexpectedEOF && r.GetBody != nil {
					r.Body, _ = r.GetBody()
					return via.RoundTrip(r)
				}
				return a, err
			}}
		})},
		{"a lost answer is a failure like any other", with(func(p *DeliveryParts) { p.Env.Deduplicated = true })},
		{"the wait that a partner asks for is ignored", with(answering(func(_ *http.Request, a *http.Response, err error) (*http.Response, error) {
			if err == nil {
				a.Header.Del("Retry-After")
			}
			return a, err
		}))},
		{"a partner's queue that is full stops routing", with(func(p *DeliveryParts) {
			for i := range p.Partners {
				p.Partners[i].Queue.Jobs = 0
			}
			p.Queues = narrow{p.Queues}
		})},
		{"an open circuit burns tries", with(settling(func(e *tidemill.Settlement) { e.CountTry = e.CountTry || e.End == tidemill.Again }))},
		{"what failed is skipped", with(settling(func(e *tidemill.Settlement) {
			if e.End == tidemill.Again && e.CountTry {
				e.End, e.Fate, e.CountTry = tidemill.Done, tidemill.Skipped, false
			}
		}))},
		{"order is not kept", with(func(p *DeliveryParts) {
			for i := range p.Partners {
				p.Partners[i].Ordered = false
			}
		})},
		{"sites take no turns", with(func(p *DeliveryParts) {
			p.Queues = mended{Store: p.Queues, set: func(s *queue.Settings) { s.Fair = queue.Unfair }}
		})},
		{"the ingest API names events anew each time", func(seed uint64) scene {
			calls := new(atomic.Int64)
			return newDeliveryWorld(seed, func(p *DeliveryParts) { p.Door = renaming{p.Door, calls} })
		}},
		{"the ingest API says yes before the queue does", with(func(p *DeliveryParts) { p.Door = ackBeforeDurable{p.Door} })},
	})
}
