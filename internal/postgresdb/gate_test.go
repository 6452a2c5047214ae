package postgresdb_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Work rests after each call, as long as requests come; a request's own call does not.
func TestWorkGivesWayToRequests(t *testing.T) {
	var g giveway.Gate
	db := open(t, testenv.Postgres(t), postgresdb.Options{Gate: &g})
	defer g.Enter(giveway.First(t.Context()))()
	exec(t, db, "SELECT 1")
	exec(t, db, "SELECT pg_sleep(0.4)")
	began := time.Now()
	if _, err := db.Exec(giveway.First(t.Context()), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("a request's call took %v", took)
	}
	exec(t, db, "SELECT 1")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("a call for work after one of 400ms took %v, want the rest of 150ms, too", took)
	}
}
