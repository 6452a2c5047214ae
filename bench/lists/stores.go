package lists

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/stores"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
)

// places are where lists are.
type places []*stores.Stores

func (p places) close() (err error) {
	for _, s := range p {
		err = errors.Join(err, s.Close())
	}
	return err
}

// lists opens all.
func (p *places) lists(ctx context.Context, folder string, servers *process.Services) (all []*list, err error) {
	for _, on := range []struct{ name, in string }{{"sqlite", ", SQLite"}, {"redis", ", Redis"}, {"postgres", ", PostgreSQL"}} {
		var s *stores.Stores
		if on.name == "sqlite" {
			s, err = stores.Open(ctx, folder, on.name)
		} else {
			s, err = stores.On(ctx, servers, on.name)
		}
		if err != nil {
			return nil, err
		}
		*p = append(*p, s)
		if on.name != "postgres" { // queues have no backend there
			all = append(all, jobs(on.in, s.Queues))
		}
		all = append(all, entries(on.in, s.Ledger), deadLetters(on.in, s.Letters))
	}
	return all, nil
}

var (
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
