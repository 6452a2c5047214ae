package sim

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/crm"
)

// crmDoorOnRecord is the queue's intake below the gate.
type crmIntakeOnRecord struct{ w *crmWorld }

func (d crmIntakeOnRecord) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
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

// crmQueues are a process's queues.
type crmQueues struct {
	*memoryqueue.Store
	w *crmWorld
	p *process
}

func (q crmQueues) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	return q.w.g.do(q.p, "open jobs", fmt.Sprint(jobs[0].Tenant, jobs[0].ID, len(jobs)), func() error { return crmIntakeOnRecord{q.w}.Add(ctx, jobs, added) })
}

// Set comes first in a process: it has to succeed, or the process does not start.
func (q crmQueues) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	q.w.g.turn(q.p, "set", name)
	return q.Store.Set(ctx, name, change)
}

func (q crmQueues) Depths(ctx context.Context, name string) (d []queue.Depth, err error) {
	err = q.w.g.do(q.p, "depths", "", func() (err error) { d, err = q.Store.Depths(ctx, name); return err })
	return d, err
}

func (q crmQueues) Open(name string, o queue.Options) tidemill.Source {
	return gatedSource{q.w.onRecord(q.Store.Open(name, o), name), name, idleQueue(q.Store, name), q.w.g, q.p}
}

// crmLettersOnRecord are dead letters below the gate.
type crmLettersOnRecord struct {
	deadletter.Store
	w *crmWorld
}

// crmLease is how long an event whose worker may still live is left alone.
const crmLease = queue.Lease

func (s crmLettersOnRecord) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
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

func (s crmLettersOnRecord) Open(pipeline string) tidemill.Source {
	return s.w.onRecord(s.Store.Open(pipeline), "letters of "+pipeline)
}

// onRecord records a source of jobs or dead letters.
func (w *crmWorld) onRecord(s tidemill.Source, name string) onRecord {
	at := func(m tidemill.Mark, id string) string { return fmt.Sprint(name, m, id) }
	return onRecord{s, w.fault,
		func(m *tidemill.Message) {
			w.book.Lock()
			defer w.book.Unlock()
			e := w.known(m.Payload)
			if e == nil || m.Tenant != e.tenant {
				w.fault("%s handed out what nobody sent: %s of %s", name, m.ID, m.Tenant)
				return
			}
			w.handouts[at(m.Mark, m.ID)] = &handout{e, m.ID, crm.RequestOf(m)}
			if name == crm.Queue {
				w.handed(e, m)
			}
		},
		func(s *tidemill.Settlement) {
			w.book.Lock()
			defer w.book.Unlock()
			h := w.handouts[at(s.Mark, s.ID)]
			if h == nil {
				w.fault("%s: the end of %s, which was never handed out so", name, s.ID)
				return
			}
			if name == crm.Queue {
				w.ends(h, s)
			} else if s.End == tidemill.Done && s.Fate == tidemill.Delivered {
				w.count[Opened]++
			}
		}}
}

// gatedProfiles are profiles behind the gate.
type gatedProfiles struct {
	profile.Resolver
	g *Gate
	p *process
}

func (s gatedProfiles) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	return s.g.do(s.p, "resolve", fmt.Sprint(asks[0].Tenant, asks[0].External, len(asks)), func() error { return s.Resolver.Resolve(ctx, asks, answers) })
}

// gatedLog is a process's ledger: the sync log, or that of replays.
type gatedLog struct {
	w *crmWorld
	*tableledger.Ledger[*memorytable.Tx]
	name string
	p    *process
}

func (l gatedLog) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	own := entries(es)
	err := l.do("begin", es, func() error {
		err := l.Ledger.Begin(ctx, es, o)
		if err == nil && l.name == "log" {
			l.w.begins(es, ledger.Instant(time.Now().Add(crmLease)))
		}
		return err
	})
	if err != nil { // the caller does not know the answer
		for i, e := range es {
			*e = own[i]
		}
	}
	return err
}

func (l gatedLog) End(ctx context.Context, es []*ledger.Entry) error {
	own := entries(es)
	err := l.do("end", es, func() error {
		err := l.Ledger.End(ctx, es)
		if l.name == "log" {
			l.w.logged(es, err)
		}
		return err
	})
	if err != nil {
		for i, e := range es {
			*e = own[i]
		}
		if l.name == "log" {
			l.w.unlogged(l.p, own)
		}
	}
	return err
}

func (l gatedLog) Find(ctx context.Context, es []*ledger.Entry) error {
	return l.do("find", es, func() error { return l.Ledger.Find(ctx, es) })
}

func (l gatedLog) do(what string, es []*ledger.Entry, apply func() error) error {
	return l.w.g.do(l.p, what+" "+l.name, fmt.Sprint(es[0].Key, " ", len(es)), apply)
}

func (l gatedLog) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		var all []*ledger.Entry
		err := l.w.g.do(l.p, "range "+l.name, fmt.Sprint(f.State, f.After, f.From.UnixMilli()), func() error {
			all = nil
			for e, err := range l.Ledger.Range(ctx, f) {
				if err != nil {
					return err
				}
				all = append(all, e)
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (l gatedLog) Expire(ctx context.Context, before time.Time, most int) (n int, err error) {
	err = l.w.g.do(l.p, "expire "+l.name, "", func() (err error) { n, err = l.Ledger.Expire(ctx, before, most); return err })
	return n, err
}

// memoryTx is a transaction of the database in memory: the effects of its commit.
type memoryTx struct{ effects []func() }

// Within implements ledger.Transactor: all of it happens in one step.
func (l gatedLog) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, *memoryTx) error) error {
	return l.do("within", es, func() error {
		ended, records := entries(es), make([]*ledger.Record, len(es))
		for i, e := range es {
			is := &ledger.Entry{Key: e.Key}
			if err := l.beneath(ctx, is); err != nil {
				return err
			}
			if is.State != 0 {
				records[i] = &ledger.Record{Entry: *is}
			}
		}
		if before, err := ledger.Admit(ended, records); err != nil || before {
			return err
		}
		tx := &memoryTx{}
		if err := do(ctx, tx); err != nil {
			return err
		}
		err := l.Ledger.End(ctx, es)
		if err != nil {
			return err
		}
		l.w.logged(es, nil)
		for _, effect := range tx.effects {
			effect()
		}
		return nil
	})
}

// beneath is Find below the gate.
func (l gatedLog) beneath(ctx context.Context, e *ledger.Entry) error {
	return l.Ledger.Find(ctx, []*ledger.Entry{e})
}

// entries are copies of entries.
func entries(es []*ledger.Entry) []ledger.Entry {
	own := make([]ledger.Entry, len(es))
	for i, e := range es {
		own[i] = *e
	}
	return own
}
