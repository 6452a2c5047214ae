package postgrestable

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemill/tidemill/internal/postgresdb"
)

// session is a transaction whose statements wait until one has to be answered, and are sent with
// it: its begin with what is read first, and its commit with what is written. So a transaction
// that reads and writes takes two round trips, not four. It is a pgx.Tx for callers: what they do
// comes after all that waits.
type session struct {
	ctx     context.Context
	conn    *pgx.Conn // nil: own was begun by another, and nothing waits
	own     pgx.Tx    // nil: nothing was sent
	waiting *pgx.Batch
	begins  int // statements that wait at first: they begin it

	missing map[string]map[string]bool // by table, keys that Get has not found, and that were not put since; nil: own was begun by another
}

// lacks is missing of a table: one map, however often the table is opened in the transaction.
func (s *session) lacks(table string) map[string]bool {
	if s.missing != nil && s.missing[table] == nil {
		s.missing[table] = map[string]bool{}
	}
	return s.missing[table]
}

// begin makes a session whose begin waits.
func begin(ctx context.Context, db *postgresdb.DB, c *pgx.Conn, mode pgx.TxAccessMode) *session {
	s := &session{ctx: ctx, conn: c, waiting: &pgx.Batch{}, missing: map[string]map[string]bool{}}
	db.Begin(s.waiting, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: mode})
	s.begins = s.waiting.Len()
	return s
}

// of is the session of a transaction: its own, or one that sends each statement at once.
func of(ctx context.Context, raw pgx.Tx) *session {
	if s, ok := raw.(*session); ok {
		return s
	}
	return &session{ctx: ctx, own: raw, waiting: &pgx.Batch{}}
}

// later has a statement done before the next that is answered, or the commit. what says in an
// error what it does.
func (s *session) later(what string, query string, args ...any) error {
	s.waiting.Queue(query, args...).Fn = func(r pgx.BatchResults) error {
		_, err := r.Exec()
		return said(what, err)
	}
	if s.conn == nil {
		return s.send()
	}
	return nil
}

// now does a statement, and calls row for each row of its answer.
func (s *session) now(what string, row func(pgx.Rows) error, query string, args ...any) error {
	s.waiting.Queue(query, args...).Fn = func(r pgx.BatchResults) error {
		rows, err := r.Query()
		return said(what, postgresdb.Each(rows, err, row))
	}
	return s.send()
}

func said(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// send does all that waits.
func (s *session) send() error {
	b := s.waiting
	if b.Len() == 0 {
		return nil
	}
	s.waiting = &pgx.Batch{}
	if s.own != nil {
		return s.own.SendBatch(s.ctx, b).Close()
	}
	r := s.conn.SendBatch(s.ctx, b)
	s.own = r.Tx()
	return r.Close()
}

// end commits what do has done, or undoes it where do has failed.
func (s *session) end(err error) error {
	if s.own == nil && (err != nil || s.waiting.Len() == s.begins) {
		return err // nothing was done but to begin
	}
	if err == nil {
		s.waiting.Queue("COMMIT").Fn = func(r pgx.BatchResults) error {
			tag, err := r.Exec()
			if err == nil && tag.String() == "ROLLBACK" { // do has hidden the error of a statement
				err = pgx.ErrTxCommitRollback
			}
			return err
		}
		err = s.send()
	}
	if s.conn.PgConn().TxStatus() != 'I' {
		_ = s.own.Rollback(s.ctx) // where it fails the connection is closed
	}
	return err
}

// tx is the transaction for what callers do, after all that waits.
func (s *session) tx() (pgx.Tx, error) {
	if err := s.send(); err != nil {
		return nil, err
	}
	return s.own, nil
}

// Begin implements pgx.Tx: it is a savepoint.
func (s *session) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.tx()
	if err != nil {
		return nil, err
	}
	return tx.Begin(ctx)
}

// Exec implements pgx.Tx.
func (s *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tx, err := s.tx()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

// Query implements pgx.Tx.
func (s *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := s.tx()
	if err != nil {
		return nil, err
	}
	return tx.Query(ctx, sql, args...)
}

// QueryRow implements pgx.Tx.
func (s *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	tx, err := s.tx()
	if err != nil {
		return failed{err}
	}
	return tx.QueryRow(ctx, sql, args...)
}

// CopyFrom implements pgx.Tx.
func (s *session) CopyFrom(ctx context.Context, to pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	tx, err := s.tx()
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, to, columns, rows)
}

// SendBatch implements pgx.Tx.
func (s *session) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	tx, err := s.tx()
	if err != nil {
		return failed{err}
	}
	return tx.SendBatch(ctx, b)
}

// Prepare implements pgx.Tx.
func (s *session) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := s.tx()
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

// LargeObjects implements pgx.Tx. They cannot be used where what waited has failed.
func (s *session) LargeObjects() pgx.LargeObjects {
	if tx, err := s.tx(); err == nil {
		return tx.LargeObjects()
	}
	return pgx.LargeObjects{}
}

// Conn implements pgx.Tx. Where what waited has failed, the next statement fails too.
func (s *session) Conn() *pgx.Conn {
	_ = s.send()
	return s.conn
}

// Commit implements pgx.Tx. The store commits.
func (s *session) Commit(context.Context) error { return errNotYours }

// Rollback implements pgx.Tx. The store rolls back.
func (s *session) Rollback(context.Context) error { return errNotYours }

var errNotYours = errors.New("the table ends this transaction: return nil to commit, an error to roll back")

// failed is the answer to what was not done.
type failed struct{ err error }

func (f failed) Scan(...any) error                { return f.err }
func (f failed) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failed) Query() (pgx.Rows, error)         { return nil, f.err }
func (f failed) QueryRow() pgx.Row                { return f }
func (f failed) Close() error                     { return f.err }
func (f failed) Tx() pgx.Tx                       { return nil }
