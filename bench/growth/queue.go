package growth

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/stores"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
)

const owners = 1000 // of jobs, dead letters and entries

var payload = fmt.Appendf(nil, `{"total":12,"note":"%0200d"}`, 7)

// message is the i-th one.
func message(i int, to string) *tidemill.Message {
	return &tidemill.Message{ID: id(i), To: to, Tenant: fmt.Sprint("owner-", i%owners), Type: "purchase", Payload: payload}
}

// jobs wait in one queue. Work adds some behind them, takes as many before them, and settles these.
type jobs struct {
	plain
	store queue.Store
	from  tidemill.Source
	into  []*tidemill.Message
}

func newJobs(s *stores.Stores) job {
	return &jobs{store: s.Queues, from: s.Queues.Open("growth", queue.Options{}), into: stores.Messages(step)}
}

func (j *jobs) add(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		all := make([]*tidemill.Message, n)
		for i := range all {
			all[i] = message(j.made, "growth")
			j.made++
		}
		return j.store.Add(ctx, all, nil)
	})
}

// tidy has the names put together that are known, as the product does now and then. In Redis they expire.
func (j *jobs) tidy(ctx context.Context) error {
	if s, ok := j.store.(interface{ Sweep(context.Context) error }); ok {
		return s.Sweep(ctx)
	}
	return nil
}

func (j *jobs) do(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		if err := j.add(ctx, n); err != nil {
			return err
		}
		j.gone += n
		return stores.End(ctx, j.from, j.into, n)
	})
}

const pipelines = 20

// letters are dead letters of 20 pipelines. Work puts some of one, replays the oldest half as many, and
// deletes as many.
type letters struct {
	plain
	store deadletter.Store
	from  [pipelines]tidemill.Source
	into  []*tidemill.Message
	turn  int // whose are next
}

func newLetters(s *stores.Stores) job {
	l := &letters{store: s.Letters, into: stores.Messages(step)}
	for i := range l.from {
		l.from[i] = s.Letters.Open(pipeline(i))
	}
	return l
}

func pipeline(i int) string { return fmt.Sprintf("growth-%02d", i%pipelines) }

func (l *letters) add(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		all := make([]tidemill.DeadLetter, n)
		for i := range all {
			all[i] = tidemill.DeadLetter{Pipeline: pipeline(l.turn), Kind: tidemill.Partner, Cause: fmt.Sprintf("cause %c: answered %d", 'a'+l.made%20, 500+l.made%7), At: time.Now(), Message: message(l.made, "growth")}
			l.made++
		}
		l.turn++
		return l.store.Put(ctx, all)
	})
}

func (l *letters) do(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		of := l.turn
		if err := l.add(ctx, n); err != nil {
			return err
		}
		l.gone += n
		f := deadletter.Filter{Pipeline: pipeline(of), Max: n / 2}
		got, err := l.store.Replay(ctx, f)
		if err == nil {
			err = missing(got, f.Max, "dead letters to be replayed")
		}
		if err != nil {
			return err
		}
		if err := stores.End(ctx, l.from[of%pipelines], l.into, got); err != nil {
			return err
		}
		f.Max = n - got
		if got, err = l.store.Delete(ctx, f); err == nil {
			err = missing(got, f.Max, "dead letters to be deleted")
		}
		return err
	})
}

// entries are those of a ledger that are done. Work begins and ends some, looks at as many others, and
// has the oldest expire, as many again.
type entries struct {
	plain
	store ledger.Store
}

func newEntries(s *stores.Stores) job { return &entries{store: s.Ledger} }

func (e *entries) add(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		all := make([]*ledger.Entry, n)
		for i := range all {
			all[i] = &ledger.Entry{Key: id(e.made), Tenant: fmt.Sprint("owner-", e.made%owners), Type: "purchase", Payload: payload}
			e.made++
		}
		if err := e.store.Begin(ctx, all, ledger.Begin{}); err != nil {
			return err
		}
		for _, one := range all {
			if one.State != ledger.Fresh {
				return fmt.Errorf("a new entry is in state %d", one.State)
			}
			one.State = ledger.Done
		}
		return e.store.End(ctx, all)
	})
}

func (e *entries) do(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		if err := e.add(ctx, n); err != nil {
			return err
		}
		old := make([]*ledger.Entry, n)
		for i := range old { // of those that do not expire soon, some from everywhere
			old[i] = &ledger.Entry{Key: id(e.made - 1 - i*max((e.made-e.gone)/2, n)/n)}
		}
		if err := e.store.Find(ctx, old); err != nil {
			return err
		}
		for _, one := range old {
			if one.State != ledger.Done {
				return fmt.Errorf("an entry that was done is in state %d", one.State)
			}
		}
		got, err := e.store.Expire(ctx, time.Now(), n)
		if e.gone += got; err == nil {
			err = missing(got, n, "entries that expire")
		}
		return err
	})
}
