// Package sqlitedbtest makes each statement of a store fail, one after the other. A store that
// returns the errors, and whose calls may be repeated after one, still passes its contract:
//
//	f := sqlitedbtest.New(t)
//	db := f.Open(t)
//	…
//	err := f.Again(func() error { return store.Put(ctx, x) })
package sqlitedbtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Faults make each statement of the calls made by Again fail the first times that it runs. A
// statement is identified by its line of the store, with the two calling lines.
type Faults struct {
	t   testing.TB
	mu  sync.Mutex // guards what follows
	met map[string]int
	n   int // faults so far

	calls, inside int    // of Again, so far and now
	last          string // where the last fault was
	tx            *sqlitedb.Tx
}

// times is how often a statement fails: once before it does anything, once with its rows.
const times = 2

// New makes faults, at least one of which must have struck by the end of the test.
func New(t testing.TB) *Faults {
	f := &Faults{t: t, met: map[string]int{}}
	t.Cleanup(func() {
		if f.mu.Lock(); f.n == 0 {
			t.Error("no statement failed: that shows nothing")
		}
		f.mu.Unlock()
	})
	return f
}

// Open opens a new database for a test, with the faults.
func (f *Faults) Open(t testing.TB) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Fault: f.Fault})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Fault is for sqlitedb.Options. At most one statement of a transaction fails: another one
// failing after it would hide a dropped error.
func (f *Faults) Fault(tx *sqlitedb.Tx) sqlitedb.Fault {
	where := caller()
	f.mu.Lock()
	defer f.mu.Unlock()
	if where == "" || f.inside == 0 || f.tx == tx {
		return sqlitedb.None
	}
	n := f.met[where]
	if f.met[where]++; n >= times {
		return sqlitedb.None
	}
	f.n++
	f.last, f.tx = where, tx
	return []sqlitedb.Fault{sqlitedb.Refused, sqlitedb.Broken}[n]
}

// caller is the lines of a store that a statement comes from; empty for those of a test.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var lines []string
	for len(lines) < 3 {
		f, more := frames.Next()
		inside := strings.Contains(f.File, "/internal/sqlitedb/")
		if !inside && len(lines) == 0 && strings.HasSuffix(f.File, "_test.go") {
			return ""
		}
		if inside && len(lines) > 0 || !more {
			break
		}
		if !inside {
			lines = append(lines, fmt.Sprintf("%s:%d", f.File, f.Line))
		}
	}
	return strings.Join(lines, " ")
}

// Again calls do until it no longer fails by one of the faults. A call that returns no error
// after a fault has dropped it.
func (f *Faults) Again(do func() error) error {
	f.t.Helper()
	for {
		f.mu.Lock()
		before, calls, first := f.n, f.calls+1, f.inside == 0
		f.calls, f.inside = calls, f.inside+1
		f.mu.Unlock()
		err := do()
		f.mu.Lock()
		struck, alone := f.n > before, first && f.calls == calls // else the fault may be of a call beside it
		f.inside--
		f.mu.Unlock()
		if struck && alone && err == nil {
			f.t.Errorf("a call says nothing of a statement that failed:\n%s", f.last)
		}
		if !struck || !errors.Is(err, sqlitedb.ErrFault) && !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// Get is Again for a call that returns a value in addition to its error.
func Get[T any](f *Faults, do func() (T, error)) (got T, err error) {
	f.t.Helper()
	err = f.Again(func() error { got, err = do(); return err })
	return got, err
}
