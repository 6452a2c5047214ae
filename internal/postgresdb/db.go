// Package postgresdb is the one connection to PostgreSQL: a bounded pool whose statements
// cannot run for ever, the tables that all backends on it share, the checks of the server's
// settings for durability, and the kinds of its errors. Use it to open the database; the
// backends (postgresperson, postgresproject, …) take what Open returns.
//
// Nothing here retries: every statement of the backends may be repeated, and the engine decides
// whether it is.
package postgresdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
)

// Options tune a connection; the zero value is ready to use.
type Options struct {
	Name    string        // application_name, as pg_stat_activity shows it; empty means tidemill
	Conns   int           // most connections; 0 means 8
	Timeout time.Duration // of one statement at the server; 0 means 30s. It waits for a lock for a third of it.
	Gate    *giveway.Gate // is passed before each transaction, by work that gives way to requests; nil: nobody waits
}

// answer is how much longer than a statement may run its answer is awaited: by then the server
// has ended it, or cannot be reached.
const answer = 2 * time.Second

// DB is an open database. It is safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	o        Options
	schema   string        // of our own tables; empty: where search_path says
	prefix   string        // what their names begin with
	local    string        // a statement with the settings of a transaction, behind a pooler; empty: they are the session's
	migrated chan struct{} // cap 1, holds a token until the tables are known to be current
}

// Open connects to the database at url, postgres://user:password@host:5432/database with the
// parameters of libpq: several hosts, target_session_attrs, sslmode and so on, and settings of the
// server by their names. The parameter schema is where the tables that this product makes for itself
// are: see Own.
//
// Behind a pooler such as PgBouncer, which has another session for each transaction, nothing is
// kept in a session: settings are those of each transaction, and no statement is prepared. This is
// found out by whether the server has our settings. The parameter default_query_exec_mode, see
// pgx, says otherwise how statements are sent.
func Open(ctx context.Context, url tidemill.Secret, o Options) (*DB, error) {
	if o.Conns < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("open PostgreSQL: Conns is %d and Timeout is %v; neither can be negative", o.Conns, o.Timeout)
	}
	if o.Name == "" {
		o.Name = "tidemill"
	}
	if o.Conns == 0 {
		o.Conns = 8
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if url.IsZero() {
		return nil, errors.New("open PostgreSQL: no URL given")
	}
	d, err := connect(ctx, url, o, false)
	if refused(err) || errors.Is(err, errPooled) {
		d, err = connect(ctx, url, o, true)
	}
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	return d, nil
}

// connect opens a pool of connections, and one connection. Where pooled is false and sessions do not
// keep settings, it returns errPooled.
func connect(ctx context.Context, url tidemill.Secret, o Options, pooled bool) (*DB, error) {
	c, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil { // its text and fields may hold the password
		return nil, errors.New("its URL cannot be read; want postgres://user:password@host:5432/database?sslmode=require")
	}
	c.MaxConns, c.MinConns = int32(o.Conns), 0
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	for name, value := range o.settings() {
		if _, ok := c.ConnConfig.RuntimeParams[name]; !ok { // the URL's own settings win
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
	d := &DB{o: o, migrated: make(chan struct{}, 1)}
	if d.schema, d.prefix, err = takeSchema(c.ConnConfig); err != nil {
		return nil, err
	}
	d.migrated <- struct{}{}
	if pooled {
		d.local = leaveToTransactions(c.ConnConfig)
	}
	if d.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), c); err != nil {
		return nil, said(err)
	}
	if err := d.within(ctx, o.Timeout, d.try); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// settings of every session. The last six are about plans: all statements of the backends look
// up keys of a table by an index, hundreds at a time, or read a page in its order, and with the
// statistics of a recently empty table the planner would read all of it.
func (o *Options) settings() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	return map[string]string{
		"application_name":                    o.Name,
		"statement_timeout":                   ms(o.Timeout),
		"lock_timeout":                        ms(o.Timeout / 3),
		"idle_in_transaction_session_timeout": ms(2 * o.Timeout), // a frozen client must not keep its locks
		"timezone":                            "UTC",
		"jit":                                 "off",
		"plan_cache_mode":                     "force_generic_plan",
		"enable_seqscan":                      "off",
		"enable_bitmapscan":                   "off",
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
	}
}

// Close ends all connections, once those in use are returned.
func (d *DB) Close() { d.pool.Close() }

// Do calls do with one connection, which it must not keep, for statements without a transaction
// around them: behind a pooler they are one. Errors have their kind. It ends a little after
// Options.Timeout, whatever the network does.
func (d *DB) Do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return d.within(ctx, d.o.Timeout, func(ctx context.Context, c *pgx.Conn) error {
		if d.local == "" {
			return do(ctx, c)
		}
		return pgx.BeginTxFunc(ctx, c, d.options(pgx.TxOptions{}), func(pgx.Tx) error { return do(ctx, c) })
	})
}

// Tx calls do in a transaction, READ COMMITTED, and commits it if do returns nil. After an
// error nothing is changed, unless the answer to the commit was lost.
func (d *DB) Tx(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return d.TxAs(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
}

// TxAs is Tx with an isolation level and an access mode.
func (d *DB) TxAs(ctx context.Context, o pgx.TxOptions, do func(context.Context, pgx.Tx) error) error {
	return d.within(ctx, d.o.Timeout, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, d.options(o), func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

// Pipeline calls do with one connection, as Do, for one transaction that do begins by a batch of
// Begin and ends.
func (d *DB) Pipeline(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return d.within(ctx, d.o.Timeout, do)
}

// Exec runs one statement and returns how many rows it changed.
func (d *DB) Exec(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	err = d.within(ctx, d.o.Timeout, func(ctx context.Context, c *pgx.Conn) error {
		if d.local != "" {
			b := d.batch()
			b.Queue(statement, args...).Exec(func(tag pgconn.CommandTag) error { changed = tag.RowsAffected(); return nil })
			return c.SendBatch(ctx, b).Close()
		}
		tag, err := c.Exec(ctx, statement, args...)
		changed = tag.RowsAffected()
		return err
	})
	return changed, err
}

// Query runs one statement and calls row for each row of its answer. row's values are valid
// until it returns.
func (d *DB) Query(ctx context.Context, row func(pgx.Rows) error, statement string, args ...any) error {
	return d.within(ctx, d.o.Timeout, func(ctx context.Context, c *pgx.Conn) error {
		if d.local != "" {
			b := d.batch()
			b.Queue(statement, args...).Query(func(rows pgx.Rows) error { return Each(rows, nil, row) })
			return c.SendBatch(ctx, b).Close()
		}
		rows, err := c.Query(ctx, statement, args...)
		return Each(rows, err, row)
	})
}

// Each calls row for each of rows and closes them; its first arguments are the results of
// Query.
func Each(rows pgx.Rows, err error, row func(pgx.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *DB) within(ctx context.Context, limit time.Duration, do func(context.Context, *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.o.Gate != nil {
		defer d.o.Gate.Enter(ctx)()
	}
	limited, end := context.WithTimeout(ctx, limit+answer)
	defer end()
	err := d.pool.AcquireFunc(limited, func(c *pgxpool.Conn) error {
		err := do(limited, c.Conn())
		if err != nil && c.Conn().IsClosed() && Kind(err) == tidemill.Transient {
			d.pool.Reset() // the server went away: a repetition must not meet its other dead sessions
		}
		return err
	})
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w (%v)", ended, said(err))
	}
	return said(err)
}

// Pooled says whether a pooler is between, which has another session for each transaction.
func (d *DB) Pooled() bool { return d.local != "" }

// Session is a connection that is not of the pool, for what needs a session of its own. The caller closes it.
func (d *DB) Session(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
	if err != nil {
		return nil, said(err)
	}
	return c, nil
}
