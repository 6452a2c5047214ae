package sqlitequeue

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
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

func fresh(o Options) queuetest.Fresh {
	return func(t *testing.T, capacity int) queuetest.Harness {
		o := o
		o.Capacity, o.tableNames = capacity, 1000
		f := newFile(t, o)
		return queuetest.Harness{Store: f.open(), Whole: true, Kill: func() queue.Core {
			f.close()
			return f.open()
		}}
	}
}

func TestContract(t *testing.T) { queuetest.Run(t, fresh(Options{})) }

// While requests wait for the writer, ends with what follows from them are several transactions.
func TestContractInShortTransactions(t *testing.T) { queuetest.Run(t, fresh(Options{next: 1})) }

func TestContractOfOrderedSources(t *testing.T) { queuetest.RunOrdered(t, fresh(Options{})) }

// TestContractWithLittleMemory has to find nearly everything in the file, and each statement
// fails the first times. Keys beyond those in memory wait for their turns a little longer, so
// nothing is said of the order of keys.
func TestContractWithLittleMemory(t *testing.T) {
	queuetest.Run(t, failing(sqlitedbtest.New(t), Options{bounds: bounds{ahead: 1, backs: 2, groups: 4}}))
}
