package lists

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// databases are where lists are, and what closes them.
type databases struct{ ends []func() error }

func (d *databases) close() error {
	var errs []error
	for _, end := range d.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// lists opens all.
func (d *databases) lists(ctx context.Context, folder, redis, postgres string) (all []*list, err error) {
	for _, open := range []func() ([]*list, error){
		func() ([]*list, error) { return d.inSQLite(ctx, filepath.Join(folder, "lists.db")) },
		func() ([]*list, error) { return d.inRedis(ctx, redis) },
		func() ([]*list, error) { return d.inPostgres(ctx, postgres) },
	} {
		some, err := open()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (d *databases) inSQLite(ctx context.Context, file string) ([]*list, error) {
	db, err := sqlitedb.Open(ctx, file, sqlitedb.Options{})
	if err != nil {
		return nil, err
	}
	d.ends = append(d.ends, db.Close)
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	if err != nil {
		return nil, err
	}
	log, err := sqlitetable.New(ctx, db, tableledger.Spec("lists"))
	if err != nil {
		return nil, err
	}
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return nil, err
	}
	letters, err := tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds})
	if err != nil {
		return nil, err
	}
	const in = ", SQLite"
	return []*list{jobs(in, queues), entries(in, tableledger.New(log, tableledger.Options{})), deadLetters(in, letters)}, nil
}

func (d *databases) inRedis(ctx context.Context, url string) ([]*list, error) {
	client, err := redisconn.Open(ctx, tidemill.NewSecret(url), redisconn.Options{})
	if err != nil {
		return nil, err
	}
	d.ends = append(d.ends, func() error { client.Close(); return nil })
	queues, err := redisqueue.New(client, redisqueue.Options{})
	if err != nil {
		return nil, err
	}
	log, err := redisledger.New(client, redisledger.Options{})
	if err != nil {
		return nil, err
	}
	letters, err := redisdeadletter.New(ctx, client, redisdeadletter.Options{Options: bounds})
	if err != nil {
		return nil, err
	}
	const in = ", Redis"
	return []*list{jobs(in, queues), entries(in, log), deadLetters(in, letters)}, nil
}

func (d *databases) inPostgres(ctx context.Context, url string) ([]*list, error) {
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		return nil, err
	}
	d.ends = append(d.ends, func() error { db.Close(); return nil })
	log, err := postgresledger.New(ctx, db, postgresledger.Options{})
	if err != nil {
		return nil, err
	}
	dead, err := postgrestable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return nil, err
	}
	letters, err := tabledeadletter.New(ctx, dead, tabledeadletter.Options{Options: bounds, Look: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	const in = ", PostgreSQL"
	return []*list{entries(in, log), deadLetters(in, letters)}, nil
}

var (
	bounds  = deadletter.Options{Max: 1 << 30}
	tenants = []string{"one", "two"} // in turns
	body    = bytes.Repeat([]byte("x"), 200)
)

// each calls add with 1,000 numbers at a time.
func each(n int, add func(from, to int) error) error {
	for from := 0; from < n; from += 1000 {
		if err := add(from, min(from+1000, n)); err != nil {
			return err
		}
	}
	return nil
}

// positions are those of all that is listed.
func positions[T any](all iter.Seq2[T, error], of func(T) position) (at []position, err error) {
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		at = append(at, of(one))
	}
	return at, nil
}

// jobs are a queue's.
func jobs(in string, s queue.Store) *list {
	return &list{
		name: "jobs" + in,
		fill: func(ctx context.Context, n int) error {
			return each(n, func(from, to int) error {
				var ms []*tidemill.Message
				for i := from; i < to; i++ {
					ms = append(ms, &tidemill.Message{To: "q", Tenant: tenants[i%2], ID: fmt.Sprint(i), Payload: body})
				}
				return s.Add(ctx, ms, nil)
			})
		},
		page: func(ctx context.Context, from *position, back, some bool, most int) ([]position, error) {
			f := queue.Filter{Queue: "q", Back: back, Max: most}
			if from != nil {
				f.After = tidemill.Mark{Hi: from.a, Lo: from.b}
			}
			if some {
				f.Tenant = tenants[0]
			}
			return positions(s.List(ctx, f), func(j *queue.Job) position { return position{a: j.Mark.Hi, b: j.Mark.Lo} })
		},
	}
}

// entries are a ledger's.
func entries(in string, s ledger.Store) *list {
	return &list{
		name: "entries of a ledger" + in,
		fill: func(ctx context.Context, n int) error {
			return each(n, func(from, to int) error {
				var es []*ledger.Entry
				for i := from; i < to; i++ {
					es = append(es, &ledger.Entry{Key: fmt.Sprint(i), Tenant: tenants[i%2], Payload: body})
				}
				if err := s.Begin(ctx, es, ledger.Begin{}); err != nil {
					return err
				}
				for _, e := range es {
					e.State = ledger.Done
				}
				return s.End(ctx, es)
			})
		},
		page: func(ctx context.Context, from *position, back, some bool, most int) ([]position, error) {
			f := ledger.Filter{Back: back, Max: most}
			switch {
			case from != nil && back:
				f.To, f.After = time.UnixMilli(int64(from.a)), from.key
			case from != nil:
				f.From, f.After = time.UnixMilli(int64(from.a)), from.key
			}
			if some {
				f.Tenant = tenants[0]
			}
			return positions(s.Range(ctx, f), func(e *ledger.Entry) position {
				return position{a: uint64(e.Created.UnixMilli()), key: e.Key}
			})
		},
	}
}

// deadLetters are those of one pipeline.
func deadLetters(in string, s deadletter.Store) *list {
	return &list{
		name: "dead letters" + in,
		fill: func(ctx context.Context, n int) error {
			return each(n, func(from, to int) error {
				var ls []tidemill.DeadLetter
				for i := from; i < to; i++ {
					ls = append(ls, tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Timeout, At: time.Now(), Cause: "no answer",
						Message: &tidemill.Message{Tenant: tenants[i%2], ID: fmt.Sprint(i), Payload: body}})
				}
				return s.Put(ctx, ls)
			})
		},
		page: func(ctx context.Context, from *position, back, some bool, most int) ([]position, error) {
			f := deadletter.Filter{Pipeline: "p", Back: back, Max: most}
			if from != nil {
				f.AfterSeq = int64(from.b)
			}
			if some {
				f.Tenant = tenants[0]
			}
			return positions(s.List(ctx, f), func(l *deadletter.Letter) position { return position{b: uint64(l.Seq)} })
		},
	}
}
