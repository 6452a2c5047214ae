package postgresdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Work rests after each call, as long as requests come; a request's own call does not.
func TestWorkGivesWayToRequests(t *testing.T) {
	g := giveway.Gate{Lanes: 1}
	db := open(t, testenv.Postgres(t), postgresdb.Options{Gate: &g})
	defer g.Enter(giveway.First(t.Context()))()
	exec(t, db, "SELECT 1")
	exec(t, db, "SELECT pg_sleep(0.6)") // and then a rest of 0.9 s
	began := time.Now()
	for _, ctx := range []context.Context{giveway.First(t.Context()), giveway.Waited(t.Context())} {
		if _, err := db.Exec(ctx, "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 800*time.Millisecond {
		t.Errorf("calls for requests took %v", took)
	}
	exec(t, db, "SELECT 1")
	if took := time.Since(began); took < 800*time.Millisecond {
		t.Errorf("a call for work ended %v after one of 0.6 s, want a rest of 0.9 s before it", took)
	}
}
