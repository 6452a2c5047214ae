package accept_test

import (
	"context"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

var errFault = tidemill.Fail(tidemill.Transient, "a fault that was asked for")

// fault says which call fails, and whether it had its effect.
type fault struct {
	call  int // the n-th from now, beginning with 1; 0: none
	times int // how many after it fail too
	after bool
}

// next says how a call has to fail.
func (f *fault) next() (before, after bool) {
	if f.call == 0 {
		return false, false
	}
	if f.call--; f.call > 0 {
		return false, false
	}
	if f.times--; f.times > 0 {
		f.call = 1
	}
	return !f.after, f.after
}

// faultyLedger is a ledger whose calls can fail, or never return.
type faultyLedger struct {
	ledger.Store
	mu         sync.Mutex
	begins     int // calls
	begin, end fault
	dead       bool        // nothing more is done: the process has died
	one        *sync.Mutex // held during calls; nil: none is
}

func (l *faultyLedger) on(f *fault, do func() error) error {
	l.mu.Lock()
	before, after := f.next()
	dead := l.dead
	l.mu.Unlock()
	if before || dead {
		return errFault
	}
	if l.one != nil {
		l.one.Lock()
		defer l.one.Unlock()
	}
	if err := do(); err != nil || !after {
		return err
	}
	return errFault
}

func (l *faultyLedger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	l.mu.Lock()
	l.begins++
	l.mu.Unlock()
	return l.on(&l.begin, func() error { return l.Store.Begin(ctx, es, o) })
}

func (l *faultyLedger) End(ctx context.Context, es []*ledger.Entry) error {
	return l.on(&l.end, func() error { return l.Store.End(ctx, es) })
}

// faultyQueue is a queue whose calls can fail or be delayed.
type faultyQueue struct {
	accept.Queues
	mu   sync.Mutex
	add  fault
	hold chan struct{} // calls wait until it is closed; nil: they do not
	in   chan struct{} // cap 1: told of a call that waits
	died func()        // called after an add; nil: nothing
	one  *sync.Mutex   // held during calls; nil: none is
}

func (q *faultyQueue) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	q.mu.Lock()
	before, after := q.add.next()
	hold, died := q.hold, q.died
	q.mu.Unlock()
	if hold != nil {
		select {
		case q.in <- struct{}{}:
		default:
		}
		<-hold
	}
	if before {
		return errFault
	}
	if q.one != nil {
		q.one.Lock()
	}
	err := q.Queues.Add(ctx, jobs, added)
	if q.one != nil {
		q.one.Unlock()
	}
	if died != nil {
		died()
	}
	if err == nil && after {
		return errFault
	}
	return err
}

// memoryStroke is the Transaction of a ledger and a queue in memory: all calls hold one lock.
type memoryTransaction struct {
	one    *sync.Mutex
	ledger ledger.Store
	queue  *named
}

// named is a queue that can be asked for names.
type named struct {
	queue.Core
	names map[string]bool
}

func (n *named) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	for _, m := range jobs { // tests that ask have room
		n.names[m.To+" "+m.Tenant+" "+m.ID] = true
	}
	return n.Core.Add(ctx, jobs, added)
}

func (m memoryTransaction) Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error) {
	m.one.Lock()
	defer m.one.Unlock()
	for _, j := range jobs {
		if m.queue.names[j.To+" "+j.Tenant+" "+j.ID] {
			return false, nil
		}
	}
	ends := make([]*ledger.Entry, len(es))
	for i, e := range es {
		end, found := *e, ledger.Entry{Key: e.Key}
		ends[i] = &end
		if err := m.ledger.Find(ctx, []*ledger.Entry{&found}); err != nil || found.State != 0 {
			return false, err
		}
	}
	if err := m.ledger.Begin(ctx, es, ledger.Begin{}); err != nil {
		return false, err
	}
	for i, e := range es {
		ends[i].Token = e.Token
	}
	if err := m.queue.Add(ctx, jobs, nil); err != nil { // all tests have room
		return false, err
	}
	return true, m.ledger.End(ctx, ends)
}

// faultyStroke is a Transaction that can fail. While a test wants faults in the steps it accepts
// nothing, so that the steps are tested.
type faultyTransaction struct {
	accept.Transaction
	of    func(queue.Core) accept.Transaction
	queue accept.Queues // that it adds to
	s     *stores

	mu    sync.Mutex
	take  fault
	taken int
}

func (f *faultyTransaction) Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error) {
	f.mu.Lock()
	before, after := f.take.next()
	f.mu.Unlock()
	l, q := f.s.ledger, f.s.queue
	l.mu.Lock()
	steps := l.dead || l.begin.call > 0 || l.end.call > 0
	l.mu.Unlock()
	q.mu.Lock()
	steps = steps || q.Queues != f.queue || q.hold != nil || q.died != nil || q.add.call > 0
	q.mu.Unlock()
	if steps {
		return false, nil
	}
	if before {
		return false, errFault
	}
	took, err := f.Transaction.Take(ctx, es, jobs)
	if took {
		f.mu.Lock()
		f.taken++
		f.mu.Unlock()
	}
	if after {
		return false, errFault
	}
	return took, err
}
