package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// came notes a job that a queue has accepted.
func (w *deliveryWorld) came(m *tidemill.Message) {
	e := w.of(m.Payload)
	switch {
	case e == nil || !bytes.Equal(m.Payload, e.payload) || m.Tenant != e.site:
		w.fault("queue %s took in what nobody sent: %s of %s: %s", m.To, m.ID, m.Tenant, m.Payload)
	case strings.HasPrefix(m.To, "ingest."):
		e.comes(w, m)
	case e.legs[parkedFor(m.To)] != nil:
		e.legs[parkedFor(m.To)].parked = true
		w.count[Parked]++
	default:
		l := e.legs[strings.TrimPrefix(m.To, "s2s.")]
		if l == nil {
			w.fault("event %d came into %s, and must not be sent there", e.n, m.To)
			return
		}
		l.comes(m, m.To)
	}
}

// parkedFor is the partner whose parked jobs a queue has; empty: it is not such a queue.
func parkedFor(queue string) string {
	name, _ := strings.CutPrefix(queue, "parked.")
	if name == queue {
		return ""
	}
	return name
}

// doorOnRecord is the queues' intake below the gate.
type intakeOnRecord struct{ w *deliveryWorld }

func (d intakeOnRecord) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if added == nil {
		added = make([]queue.Added, len(jobs))
	}
	d.w.book.Lock()
	defer d.w.book.Unlock()
	if err := d.w.queues.Add(ctx, jobs, added); err != nil {
		return err
	}
	for i, m := range jobs {
		if added[i] == queue.New {
			d.w.came(m)
		}
	}
	return nil
}

// gatedQueues are a process's queues.
type gatedQueues struct {
	*memoryqueue.Store
	w  *deliveryWorld
	in *instance
}

func (q gatedQueues) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	return q.w.g.do(q.in.p, "add", fmt.Sprint(jobs[0].ID, len(jobs)), func() error { return intakeOnRecord{q.w}.Add(ctx, jobs, added) })
}

// Set comes first in a process: it has to succeed, or the process does not start.
func (q gatedQueues) Set(ctx context.Context, name string, change func(*queue.Settings)) (s queue.Settings, err error) {
	q.w.g.turn(q.in.p, "set", name)
	return q.Store.Set(ctx, name, change)
}

// Stats begins the loop over partners: nothing else happens at the same time.
func (q gatedQueues) Stats(ctx context.Context, name string) (queue.Stats, error) {
	if parkedFor(name) == q.w.fars[0].name {
		q.w.g.turn(q.in.p, "look", name)
	}
	return q.Store.Stats(ctx, name)
}

func (q gatedQueues) Promote(ctx context.Context, f queue.Filter) (n int, err error) {
	err = q.w.g.do(q.in.p, "promote", f.Queue, func() (err error) { n, err = q.Store.Promote(ctx, f); return err })
	return n, err
}

func (q gatedQueues) Open(name string, o queue.Options) tidemill.Source {
	record := q.w.onRecord(q.Store.Open(name, o), name, q.in)
	s := gatedSource{record, name, idleQueue(q.Store, name), q.w.g, q.in.p}
	if q.w.forwards {
		return s
	}
	return apart{s}
}

// apart is a source that does not add in the transaction of a settlement.
type apart struct{ gatedSource }

func (s apart) Traits() tidemill.Traits {
	t := s.gatedSource.Traits()
	t.Forwards = false
	return t
}

// onRecord records a source of jobs or dead letters.
func (w *deliveryWorld) onRecord(s tidemill.Source, name string, in *instance) onRecord {
	pipeline, replay := strings.CutSuffix(name, ".replay")
	to, sends := strings.CutPrefix(pipeline, "s2s.")
	return onRecord{s, w.fault,
		func(m *tidemill.Message) {
			w.book.Lock()
			defer w.book.Unlock()
			e := w.of(m.Payload)
			if e == nil {
				w.fault("%s handed out what nobody sent: %s", name, m.Payload)
				return
			}
			if st := in.sys.Pipeline(name).Stats(); st.InFlight > w.atMost(to) {
				w.fault("process %d holds %d messages of %s, at most %d are allowed", in.p.n, st.InFlight, name, w.atMost(to))
			}
			if l := e.legs[to]; l != nil {
				l.handed(in.p, m, replay)
			}
		},
		func(s *tidemill.Settlement) {
			w.book.Lock()
			defer w.book.Unlock()
			e := w.byJob[jobOf(pipeline, s.ID)]
			if e == nil {
				w.fault("%s: the end of %s, which nobody knows", name, s.ID)
				return
			}
			g := &e.grave
			for _, m := range s.Next {
				if e := w.of(m.Payload); e == nil || e.legs[strings.TrimPrefix(m.To, "s2s.")] == nil || e.legs[strings.TrimPrefix(m.To, "s2s.")].place == 0 {
					w.came(m)
				}
			}
			if l := e.legs[to]; l != nil {
				l.ends(in.p, s, replay)
				g = &l.grave
			} else if !sends && parkedFor(pipeline) == "" {
				e.ends(w, s, replay)
			}
			if replay && s.End == tidemill.Done {
				if s.Fate == tidemill.Dead {
					g.died(time.Now(), s.Cause)
				} else {
					g.deaths = nil
				}
			}
		}}
}

// jobOf is the job's name in the ingest API's queue of a message of a pipeline.
func jobOf(pipeline, id string) string {
	if strings.HasPrefix(pipeline, "s2s.") || parkedFor(pipeline) != "" {
		id = id[:max(strings.LastIndexByte(id, '/'), 0)]
	}
	return id
}

// ofFast is how many times its lanes' need an engine holds of fast work.
const ofFast = 10

// atMost is how many messages of a pipeline a process may hold.
func (w *deliveryWorld) atMost(partner string) int {
	for _, f := range w.fars {
		if f.name == partner {
			return ofFast * readOver * f.items
		}
	}
	return ofFast * 2 * fewest * 8
}

// lettersOnRecord are dead letters below the gate.
type lettersOnRecord struct {
	deadletter.Store
	w  *deliveryWorld
	in *instance
}

func (s lettersOnRecord) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	s.w.book.Lock()
	defer s.w.book.Unlock()
	if err := s.Store.Put(ctx, letters); err != nil {
		return err
	}
	for i := range letters {
		x := &letters[i]
		e := s.w.of(x.Message.Payload)
		if e == nil {
			s.w.fault("a letter of what nobody sent: %s", x.Message.Payload)
			continue
		}
		g := &e.grave
		if l := e.legs[strings.TrimPrefix(x.Pipeline, "s2s.")]; l != nil {
			l.lettered(s.in.p, x)
			g = &l.grave
		}
		g.died(x.At, x.Cause)
	}
	return nil
}

func (s lettersOnRecord) Open(pipeline string) tidemill.Source {
	return s.w.onRecord(s.Store.Open(pipeline), pipeline+".replay", s.in)
}

// gatedLedger is a process's ledger.
type gatedLedger struct {
	w *deliveryWorld
	*tableledger.Ledger[*memorytable.Tx]
	name string
	p    *process
}

func (l gatedLedger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	return l.call(ctx, "begin", es, func() error { return l.Ledger.Begin(ctx, es, o) })
}

func (l gatedLedger) End(ctx context.Context, es []*ledger.Entry) error {
	return l.call(ctx, "end", es, func() error { return l.Ledger.End(ctx, es) })
}

// call makes an unanswered call unknown to the caller, and notes whose end could not be
// written.
func (l gatedLedger) call(ctx context.Context, what string, es []*ledger.Entry, apply func() error) error {
	who, _ := ctx.Value(clientKey{}).(string)
	own := make([]ledger.Entry, len(es))
	for i, e := range es {
		own[i] = *e
	}
	err := l.w.g.do(l.p, what+" "+l.name, fmt.Sprint(who, es[0].Key, len(es)), apply)
	if err == nil {
		return nil
	}
	l.w.book.Lock()
	defer l.w.book.Unlock()
	for i, e := range es {
		*e = own[i]
		endpoint, sent := strings.Split(e.Key, "\x00"), strings.Split(e.Key, "/")
		switch {
		case what != "end":
		case l.name == "keys" && len(endpoint) == 3:
			l.w.unwritten[endpoint[2]] = true
		case l.name == "sent" && len(sent) == 3:
			if c := l.w.byJob[sent[2]]; c != nil && c.legs[sent[0]] != nil {
				c.legs[sent[0]].wrote = l.p
			}
		}
	}
	return err
}

func (l gatedLedger) Expire(ctx context.Context, before time.Time, most int) (n int, err error) {
	err = l.w.g.do(l.p, "expire "+l.name, "", func() (err error) { n, err = l.Ledger.Expire(ctx, before, most); return err })
	return n, err
}
