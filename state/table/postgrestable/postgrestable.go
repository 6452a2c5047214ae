// Package postgrestable keeps tables in PostgreSQL, for several processes at once. The table of a
// spec is tidemill_ and its name. It has a column for each field, which any client reads: strings
// and bytes are bytea, times timestamptz (the beginning of 1970: none), numbers bigint and
// smallint, bools boolean; a uint64 over math.MaxInt64 is negative, with its bits.
//
// Transactions are REPEATABLE READ and lock what an Update reads. A transaction that meets
// another's change is begun again; nothing is kept in a session. Two that read several records
// one after the other in different orders can wait for each other until the server ends one of
// them: read all records that are to be changed by one Get.
package postgrestable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// Store is a table.Store.
type Store[T any] struct {
	db  *postgresdb.DB
	of  *layout.Layout[T]
	sql statements

	known sync.Map // *some of fields, by their names
}

// New opens a table of db, and makes it if it does not exist.
func New[T any](ctx context.Context, db *postgresdb.DB, spec table.Spec[T]) (*Store[T], error) {
	l, err := layout.Of(spec)
	if err != nil {
		return nil, err
	}
	s := &Store[T]{db: db, of: l, sql: statementsOf(l, db.Own)}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open table %s: %w", l.Name, err)
	}
	return s, nil
}

// In is the table in a transaction of its database, which is REPEATABLE READ.
func (s *Store[T]) In(ctx context.Context, raw pgx.Tx) table.Tx[T] {
	in := of(ctx, raw)
	return tx[T]{s, in, true, in.lacks(s.of.Name)}
}

// View implements table.Store.
func (s *Store[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return s.do(ctx, pgx.ReadOnly, func(own *session) error { return do(tx[T]{s: s, in: own}) })
}

// Update implements table.Store. A lost answer to a commit is an error, and leaves unknown
// whether it was done.
func (s *Store[T]) Update(ctx context.Context, do func(table.Tx[T], pgx.Tx) error) error {
	return s.do(ctx, pgx.ReadWrite, func(own *session) error { return do(s.In(ctx, own), own) })
}

// most is how often a transaction is begun that others get in the way of.
const most = 1000

func (s *Store[T]) do(ctx context.Context, mode pgx.TxAccessMode, do func(*session) error) (err error) {
	for range most {
		err = s.db.Pipeline(ctx, func(ctx context.Context, c *pgx.Conn) error {
			own := begin(ctx, s.db, c, mode)
			return own.end(do(own))
		})
		if !conflict(err) {
			return err
		}
	}
	return err
}

// conflict reports whether a transaction failed because of another: what it read has changed, or
// each waited for the other.
func conflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}

// Count implements table.Store.
func (s *Store[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	p, err := s.of.Counted(most, where)
	if err != nil || p.Empty {
		return 0, err
	}
	query, args := p.SQL("1", s.sql.name, false, mark, value)
	err = s.db.Query(ctx, func(r pgx.Rows) error { return r.Scan(&n) }, "SELECT count(*) FROM ("+query+") found", args...)
	if err != nil {
		return 0, fmt.Errorf("count records of table %s: %w", s.of.Name, err)
	}
	return n, nil
}

// Counts implements table.Store.
func (s *Store[T]) Counts(ctx context.Context) (map[string]int, error) {
	counts, changes := map[string]int{}, 0
	if s.of.Count.Of == nil {
		return counts, ctx.Err()
	}
	err := s.db.Query(ctx, func(rows pgx.Rows) error {
		var name []byte
		var n, of int
		err := rows.Scan(&name, &n, &of)
		if changes += of; n > 0 {
			counts[string(name)] = n
		}
		return err
	}, s.sql.counts)
	if err == nil && changes > len(counts)+fold {
		_, err = s.db.Exec(ctx, s.sql.fold)
	}
	if err != nil {
		return nil, fmt.Errorf("read the counters of table %s: %w", s.of.Name, err)
	}
	return counts, nil
}

// fold is how many changes of counters are kept as rows of their own. They are, so that
// transactions which count do not wait for each other.
const fold = 200

// Sweep implements table.Store.
func (s *Store[T]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return layout.Sweep(ctx, s.of, s, now, most)
}
