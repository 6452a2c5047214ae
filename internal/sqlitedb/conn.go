package sqlitedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"
)

// conn is one connection with its prepared statements. One goroutine uses it at a time.
type conn struct {
	sql    *sql.Conn
	execs  map[string]driver.Stmt // run below database/sql, whose cost per argument is most of a short write
	reads  map[string]*sql.Stmt
	named  []driver.NamedValue // reused
	bulked map[bulkKey]string
}

type bulkKey struct {
	head, row, tail string
	rows            int
}

func newConn(c *sql.Conn) *conn {
	return &conn{sql: c, execs: map[string]driver.Stmt{}, reads: map[string]*sql.Stmt{}, bulked: map[bulkKey]string{}}
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.execs {
		errs = append(errs, s.Close())
	}
	for _, s := range c.reads {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.sql.Close())...)
}

// exec runs a statement to its end and returns how many rows it changed.
func (c *conn) exec(query string, args ...any) (affected int64, err error) {
	if c.named, err = named(c.named[:0], args); err != nil {
		return 0, err
	}
	err = c.sql.Raw(func(dc any) error {
		s, ok := c.execs[query]
		if !ok {
			var err error
			if s, err = dc.(driver.Conn).Prepare(query); err != nil {
				return err
			}
			c.execs[query] = s
		}
		r, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.named)
		if err != nil {
			return err
		}
		affected, err = r.RowsAffected()
		return err
	})
	clear(c.named)
	if err != nil {
		return 0, said(err)
	}
	return affected, nil
}

func (c *conn) read(query string) (*sql.Stmt, error) {
	if s, ok := c.reads[query]; ok {
		return s, nil
	}
	s, err := c.sql.PrepareContext(context.Background(), query)
	if err == nil {
		c.reads[query] = s
	}
	return s, said(err)
}

// named converts arguments for the driver. It refuses types whose stored form would be a guess:
// callers write times as integers.
func named(into []driver.NamedValue, args []any) ([]driver.NamedValue, error) {
	for i, a := range args {
		switch v := a.(type) {
		case nil, int64, string, bool, float64:
		case []byte:
			if v == nil {
				a = nil
			}
		case int:
			a = int64(v)
		case int32:
			a = int64(v)
		case uint8:
			a = int64(v)
		case uint16:
			a = int64(v)
		case uint32:
			a = int64(v)
		case uint64:
			a = int64(v) // the bits; large ones are negative in SQL
		case [16]byte:
			a = v[:]
		case time.Time:
			return nil, fmt.Errorf("argument %d is a time; write its milliseconds", i+1)
		default:
			d, err := driver.DefaultParameterConverter.ConvertValue(a)
			if err != nil {
				return nil, fmt.Errorf("argument %d: %w", i+1, err)
			}
			a = d
		}
		into = append(into, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return into, nil
}

// Tx is a transaction: the writer's, or a reader's snapshot.
type Tx struct {
	c     *conn
	fault func(*Tx) Fault
}

// Exec runs a statement and returns how many rows it changed. Arguments: integers, string,
// []byte (nil is NULL), bool, float64, nil, [16]byte; pass text that may hold NUL as []byte.
func (tx *Tx) Exec(query string, args ...any) (affected int64, err error) {
	if err := tx.refused(); err != nil {
		return 0, err
	}
	return tx.c.exec(query, args...)
}

// Query runs a statement that returns rows. Close them before the next statement.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	fault := tx.next()
	if fault == Refused {
		return nil, ErrFault
	}
	s, err := tx.c.read(query)
	if err != nil {
		return nil, err
	}
	if fault == Broken {
		return broken(s.QueryContext, plain(args))
	}
	rows, err := s.Query(plain(args)...)
	return rows, said(err)
}

// QueryRow runs a statement that returns at most one row: sql.ErrNoRows if none.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	if tx.next() != None {
		return tx.c.sql.QueryRowContext(endedContext(), query, plain(args)...)
	}
	s, err := tx.c.read(query)
	if err != nil {
		return tx.c.sql.QueryRowContext(context.Background(), query, plain(args)...) // says the same error
	}
	return s.QueryRow(plain(args)...)
}

// plain replaces types that database/sql does not accept.
func plain(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case [16]byte:
			args[i] = v[:]
		case uint64:
			args[i] = int64(v)
		}
	}
	return args
}

// bulkRows is how many rows one statement writes: 100 rows a statement wrote 1.5 times
// as many a second as one, and more gained nothing.
const bulkRows = 100

// Bulk writes len(args) / (placeholders in row) rows by statements of many rows each:
// head + row + "," + row … + tail.
func (tx *Tx) Bulk(head, row, tail string, args []any) (affected int64, err error) {
	per := strings.Count(row, "?")
	if per == 0 || len(args)%per != 0 {
		return 0, fmt.Errorf("bulk write: %d arguments for rows of %d", len(args), per)
	}
	if err := tx.refused(); err != nil {
		return 0, err
	}
	for rows := len(args) / per; rows > 0; rows = len(args) / per {
		n := bulkRows
		for n > rows { // 100, 50, 25, 12, 6, 3, 1: few texts to prepare
			n /= 2
		}
		k, err := tx.c.exec(tx.c.statement(head, row, tail, n), args[:n*per]...)
		if err != nil {
			return affected, err
		}
		affected += k
		args = args[n*per:]
	}
	return affected, nil
}

func (c *conn) statement(head, row, tail string, rows int) string {
	k := bulkKey{head, row, tail, rows}
	s, ok := c.bulked[k]
	if !ok {
		s = head + strings.Repeat(row+",", rows-1) + row + tail
		c.bulked[k] = s
	}
	return s
}
