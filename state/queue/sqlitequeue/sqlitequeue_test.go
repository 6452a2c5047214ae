package sqlitequeue

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/queuetest"
)

// file is a database file that can be closed and opened again.
type file struct {
	t    testing.TB
	path string
	db   *sqlitedb.DB
	o    Options
}

func newFile(t testing.TB, o Options) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "queue.db"), o: o}
	t.Cleanup(f.close)
	return f
}

func (f *file) open() *Store {
	f.t.Helper()
	db, err := sqlitedb.Open(f.t.Context(), f.path, sqlitedb.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.db = db
	s, err := New(f.t.Context(), db, f.o)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *file) close() {
	if err := f.db.Close(); err != nil {
		f.t.Errorf("close: %v", err)
	}
}

func TestContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T, capacity int) queuetest.Harness {
		f := newFile(t, Options{Capacity: capacity, tableNames: 1000})
		return queuetest.Harness{Store: f.open(), Kill: func() queue.Store {
			f.close()
			return f.open()
		}}
	})
}

func TestAnOrderByKeyIsRefused(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open("q", queue.Options{Ordered: true}).Receive(t.Context(), make([]*tidemill.Message, 1)); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("Receive returned %v, want a refusal", err)
	}
}
