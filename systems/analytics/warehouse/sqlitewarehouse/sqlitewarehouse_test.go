package sqlitewarehouse

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/warehousetest"
)

func open(t testing.TB) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func store(t testing.TB, db *sqlitedb.DB, o Options) *Store {
	t.Helper()
	s, err := New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// few makes a filter that is small enough to grow, and is filled slowly.
func few(t testing.TB, db *sqlitedb.DB, recent int) *Store {
	t.Helper()
	s, err := newStore(t.Context(), db, Options{Recent: recent}, tuning{hasher, 16, 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A handful of recent ids makes every case pass through rotation, merging and the table.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name   string
		recent int
	}{
		{"with everything recent", 0},
		{"with few recent", 64},
		{"with one recent", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			warehousetest.Run(t, func(t *testing.T) warehousetest.Harness {
				db := open(t)
				again := func() warehouse.Store {
					if c.recent > 0 {
						return few(t, db, c.recent)
					}
					return store(t, db, Options{})
				}
				return warehousetest.Harness{Store: again(), Reopen: again}
			})
		})
	}
}

// 64 hashes for all events: everything collides, and nothing but speed may change.
func TestConformanceWhenHashesCollide(t *testing.T) {
	warehousetest.Run(t, func(t *testing.T) warehousetest.Harness {
		db := open(t)
		again := func() warehouse.Store {
			s, err := newStore(t.Context(), db, Options{Recent: 5}, tuning{keys: 1, step: 3, hasher: func(uint64) hash {
				return func(_, id uuid.UUID) uint64 { return uint64(id[15] & 63) }
			}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return warehousetest.Harness{Store: again(), Reopen: again}
	})
}
