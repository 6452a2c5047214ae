package sqlitewarehouse

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/idset"
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

// A handful of ids in memory makes every case pass through runs.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"with ids in memory", Options{}},
		{"with few ids in memory", Options{table: 64}},
		{"with one id in memory", Options{table: 1}},
		{"when hashes collide", Options{table: 5, hash: func(seed uint64) hasher {
			return func(project, id uuid.UUID) idset.ID { // 64 hashes for all events: only speed may change
				return idset.ID{Hash: uint64(id[15] & 63), Check: seeded(seed)(project, id).Check}
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			warehousetest.Run(t, func(t *testing.T) warehousetest.Harness {
				db := open(t)
				again := func() warehouse.Store { return store(t, db, c.o) }
				return warehousetest.Harness{Store: again(), Reopen: again}
			})
		})
	}
}
