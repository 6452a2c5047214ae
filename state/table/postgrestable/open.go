package postgrestable

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// tries is how often a table is opened whose lock others hold, each time for two seconds. Between,
// those that wait behind us go on.
const tries = 10

// open makes the table, or adds the fields and orders that it lacks. A table that lacks nothing is
// opened with the rights to read it.
func (s *Store[T]) open(ctx context.Context) error {
	for {
		lacks, made, err := s.lacks(ctx)
		switch {
		case err != nil || made && lacks.None():
			return err
		case !made:
			err = s.change(ctx, s.make)
		default:
			err = s.alone(ctx, s.grow)
		}
		if err != nil {
			return err
		}
	}
}

// pause is how long a process waits that finds another at work.
const pause = 200 * time.Millisecond

// alone calls do if no other process adds to the table, or waits a moment: two that build indexes of
// a table at once wait for each other.
func (s *Store[T]) alone(ctx context.Context, do func(context.Context) error) (err error) {
	mine := false
	err = s.db.Alone(ctx, func(c *pgx.Conn) error {
		for _, q := range []string{"BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 0"} {
			if _, err := c.Exec(ctx, q); err != nil {
				return err
			}
		}
		err := c.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(720311594, hashtext('"+s.sql.name+"'))").Scan(&mine)
		if err != nil || !mine {
			return err
		}
		return do(ctx)
	})
	if err != nil || mine {
		return err
	}
	return sleep.For(ctx, pause)
}

// grow adds what the table lacks: columns, then indexes, which can take long, while other programs
// go on, and then says so in the spec. If it is broken off, it is begun again at the next start.
func (s *Store[T]) grow(ctx context.Context) error {
	lacks, _, err := s.lacks(ctx)
	if err != nil || lacks.None() { // another process was first
		return err
	}
	if len(lacks.Fields) > 0 && len(lacks.Orders) > 0 { // an order may be by a new field
		if err := s.change(ctx, func(string) string { return s.columns(lacks) }); err != nil {
			return err
		}
	}
	for _, o := range lacks.Orders {
		if err := s.build(ctx, o.Name); err != nil {
			return fmt.Errorf("build the index of order %s: %w", o.Name, err)
		}
	}
	return s.change(ctx, func(string) string {
		ddl := s.columns(lacks)
		for _, v := range s.of.Views {
			ddl += "DROP VIEW IF EXISTS @tidemill_" + v.Name + ";\n" + view(v)
		}
		return ddl + s.record()
	})
}

// lacks is what a table that was made lacks.
func (s *Store[T]) lacks(ctx context.Context) (lacks layout.Part, made bool, err error) {
	var spec string
	err = s.db.Query(ctx, func(r pgx.Rows) error { return r.Scan(&made) }, s.db.Own("SELECT to_regclass('@tidemill_tables') IS NOT NULL"))
	if err == nil && made {
		made = false
		err = s.db.Query(ctx, func(r pgx.Rows) error { made = true; return r.Scan(&spec) }, s.db.Own("SELECT spec FROM @tidemill_tables WHERE name=$1"), s.of.Name)
	}
	if err != nil || !made {
		return lacks, false, err
	}
	lacks, _, err = s.of.Fit(spec)
	return lacks, true, err
}

// change runs the statements that do returns for the spec of the table, empty: there is none, in a
// transaction, one process at a time.
func (s *Store[T]) change(ctx context.Context, do func(spec string) (ddl string)) (err error) {
	for range tries {
		if err = s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			spec, err := s.lock(ctx, tx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, s.db.Own(do(spec)), pgx.QueryExecModeSimpleProtocol)
			return err
		}); !postgresdb.Locked(err) {
			return err
		}
	}
	return err
}

// lock keeps other processes that open tables out until the end of the transaction, and reads the
// spec that the table was made for.
func (s *Store[T]) lock(ctx context.Context, tx pgx.Tx) (spec string, err error) {
	for _, q := range []string{
		"SET LOCAL client_min_messages = warning",
		"SET LOCAL lock_timeout = '2s'",
		"SELECT pg_advisory_xact_lock(7203115942066317002)", // a number that nothing else uses
	} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return "", err
		}
	}
	if err := s.db.MakeSchema(ctx, tx); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, s.db.Own("CREATE TABLE IF NOT EXISTS @tidemill_tables(name text PRIMARY KEY, spec text NOT NULL)")); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, s.db.Own("SELECT coalesce((SELECT spec FROM @tidemill_tables WHERE name=$1), '')"), s.of.Name).Scan(&spec)
	return spec, err
}

// record says in the registry what the table is made for. A signature has names of fields and types
// alone: nothing in it ends a text.
func (s *Store[T]) record() string {
	return fmt.Sprintf("INSERT INTO @tidemill_tables(name, spec) VALUES('%s', '%s') ON CONFLICT(name) DO UPDATE SET spec=excluded.spec;\n", s.of.Name, s.of.Signature())
}

// make makes a table that is not there. No name of a table begins with _.
func (s *Store[T]) make(spec string) string {
	if spec != "" {
		return "" // another process was first
	}
	var b strings.Builder
	l := s.of
	// Rows are written again, often those of one transaction together, when none of them can make
	// room for another: so a page has room for all of them, which keeps that from touching indexes.
	fmt.Fprintf(&b, "CREATE TABLE @tidemill_%s(%s, PRIMARY KEY(%s)) WITH (fillfactor = 45);\n", l.Name, layout.List(l.Fields, func(i int, name string) string {
		return name + " " + define(l.Fields[i].At(new(T)))
	}), layout.Quote(l.Fields[0].Name))
	for _, o := range l.Orders {
		fmt.Fprintf(&b, "CREATE INDEX ON @tidemill_%s(%s);\n", l.Name, layout.Names(l.Order(o.Name)))
	}
	fmt.Fprintf(&b, "CREATE SEQUENCE @tidemill__%s_next;\n", l.Name)
	if l.Count.Of != nil {
		fmt.Fprintf(&b, "CREATE TABLE @tidemill__%s_counts(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea NOT NULL, n bigint NOT NULL);\n", l.Name)
	}
	for _, v := range l.Views {
		b.WriteString(view(v))
	}
	return b.String() + s.record()
}

func view(v table.View) string {
	return fmt.Sprintf("CREATE VIEW @tidemill_%s AS %s;\n", v.Name, v.Postgres)
}

// columns adds the fields that a table lacks.
func (s *Store[T]) columns(lacks layout.Part) string {
	var b strings.Builder
	for _, f := range lacks.Fields {
		fmt.Fprintf(&b, "ALTER TABLE @tidemill_%s ADD COLUMN IF NOT EXISTS %s %s;\n", s.of.Name, layout.Quote(f.Name), define(f.Zero()))
	}
	return b.String()
}

// build builds the index of an order beside those who use the table. One that was left unfinished,
// which is of no use to anybody, is dropped.
func (s *Store[T]) build(ctx context.Context, order string) error {
	columns := layout.Names(s.of.Order(order))
	for {
		name, valid, err := s.indexOf(ctx, columns)
		switch {
		case err != nil || valid:
			return err
		case name != "":
			err = s.dropUnfinished(ctx, columns)
		default:
			err = s.db.Alone(ctx, func(c *pgx.Conn) error {
				_, err := c.Exec(ctx, "CREATE INDEX CONCURRENTLY ON "+s.sql.name+"("+columns+")")
				return err
			})
		}
		if err != nil && !postgresdb.Locked(err) { // locked: a process that ended had begun to build it, and the server goes on
			return err
		}
	}
}

// indexOf finds an index with these columns, one that is finished before others.
func (s *Store[T]) indexOf(ctx context.Context, columns string) (name string, valid bool, err error) {
	err = s.db.Query(ctx, func(r pgx.Rows) error { return r.Scan(&name, &valid) }, s.indexes(), columns)
	return name, valid, err
}

// indexes finds the indexes of the table with the columns $1, the best first.
func (s *Store[T]) indexes() string {
	return s.db.Own(`SELECT indexrelid::regclass::text, indisvalid FROM pg_index i WHERE indrelid = '@tidemill_` + s.of.Name + `'::regclass AND indpred IS NULL AND $1 = (
		SELECT string_agg('"' || attname || '"', ',' ORDER BY n) FROM unnest(indkey) WITH ORDINALITY k(attnum, n) JOIN pg_attribute a ON attrelid = indrelid AND a.attnum = k.attnum)
		ORDER BY indisvalid DESC LIMIT 1`)
}

// dropUnfinished drops the index if it is still unfinished when nobody builds one: that holds the
// lock that this waits for.
func (s *Store[T]) dropUnfinished(ctx context.Context, columns string) error {
	return s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.db.Own("SET LOCAL lock_timeout = '2s'; LOCK TABLE @tidemill_"+s.of.Name+" IN SHARE UPDATE EXCLUSIVE MODE"), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		var name string
		var valid bool
		if err := tx.QueryRow(ctx, s.indexes(), columns).Scan(&name, &valid); err != nil || valid {
			return err
		}
		_, err := tx.Exec(ctx, "DROP INDEX "+name)
		return err
	})
}
