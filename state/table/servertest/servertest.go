// Package servertest opens tables on the real servers of tests, for the suites of roles that stand on
// a table.
package servertest

import (
	"context"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
)

// InPostgreSQL returns what opens a table in the database of a URL, each time by connections of its
// own. When it is opened first, it is emptied.
func InPostgreSQL[T any](t testing.TB, url string, spec table.Spec[T]) func() *postgrestable.Store[T] {
	emptied := false
	return func() *postgrestable.Store[T] {
		t.Helper()
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		s, err := postgrestable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		if !emptied {
			if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_"+spec.Name); err != nil {
				t.Fatal(err)
			}
			emptied = true
		}
		return s
	}
}

// InRedis returns what opens a table of a name that nobody else has, whose keys are removed with the
// test.
func InRedis[T any](t testing.TB, client redistest.Client, spec table.Spec[T]) func() *redistable.Store[T] {
	spec.Name = testenv.Name(spec.Name)
	t.Cleanup(func() { Remove(t, client, spec.Name, spec) })
	return func() *redistable.Store[T] {
		t.Helper()
		s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// Remove removes the keys of a table in Redis, as package redistable names them.
func Remove[T any](t testing.TB, client redistest.Client, group string, spec table.Spec[T]) {
	t.Helper()
	tag := "{table:" + group + "}:" + spec.Name + ":"
	keys := []string{tag + "spec", tag + "rows", tag + "counts", tag + "version", tag + "next", tag + "by:"}
	for _, o := range spec.Orders {
		keys = append(keys, tag+"by:"+o.Name)
	}
	if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
		t.Errorf("remove table %s: %v", spec.Name, err)
	}
}
