package sim

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/systems/bridge"
)

// bridgeWith makes worlds of the bridge, with a bug planted in each (nil: none).
func bridgeWith(bug func(*bridge.Parts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newBridgeWorld(seed, bug) }
}

func TestBridgeSeeds(t *testing.T) { runSeeds(t, bridgeWith(nil), append(FarClasses, "dead")...) }

func TestTheSameSeedGivesTheSameTraceOfTheBridge(t *testing.T) { sameTrace(t, bridgeWith(nil)) }

// TestBridgeSeedsOnSQLite runs fewer seeds on the queue that the embedded bridge has: each
// step writes a file.
func TestBridgeSeedsOnSQLite(t *testing.T) {
	few := max(*seeds/5, 1)
	runSeedsN(t, few, func(seed uint64) scene {
		w := newBridgeWorld(seed, nil)
		db, err := sqlitedb.Open(context.Background(), filepath.Join(t.TempDir(), "queue.db"), sqlitedb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store, err := sqlitequeue.New(context.Background(), db, sqlitequeue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.queues = store
		w.close = func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		return w
	})
}
