//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/analytics"
)

// Pipelines with dead letters, and how many. Nothing runs the first; in the second each dies again.
const (
	discarded, discards = "discarded", 40_000
	replayed, replays   = analytics.Name, 10_000
)

// letters calls do with the dead letters of a data folder that no process has.
func (in *instance) letters(do func(deadletter.Store)) {
	in.t.Helper()
	db, err := sqlitedb.Open(in.t.Context(), connect.DatabasePath(in.Dir), sqlitedb.Options{})
	if err != nil {
		in.t.Fatal(err)
	}
	defer db.Close()
	rows, err := sqlitetable.New(in.t.Context(), db, tabledeadletter.Spec())
	if err != nil {
		in.t.Fatal(err)
	}
	s, err := tabledeadletter.New(in.t.Context(), rows, tabledeadletter.Options{Options: deadletter.Options{Max: discards}})
	if err != nil {
		in.t.Fatal(err)
	}
	do(s)
}

// operation asks how an operation stands.
func (in *instance) operation(id string) (o api.Operation) {
	in.t.Helper()
	if err := json.Unmarshal(in.Ask("operations", "show", id, "--json"), &o); err != nil {
		in.t.Fatal(err)
	}
	return o
}

// until polls an operation.
func (in *instance) until(id, what string, is func(*api.Operation) bool) (o api.Operation) {
	in.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) { // another process
		if o = in.operation(id); is(&o) {
			return o
		}
	}
	in.t.Fatalf("the operation is never %s: %+v", what, o)
	return o
}

// ingest sends events one after the other, and says how long the slowest takes.
func (in *instance) ingest(n int) time.Duration {
	in.t.Helper()
	var slowest time.Duration
	for i := range n {
		begun := time.Now()
		if err := offer(in.Addr, uuid.NewString(), "beside", fmt.Sprint("d", i)); err != nil {
			in.t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	return slowest
}

// plant puts dead letters of a pipeline into the data folder.
func (in *instance) plant(pipeline string, n int) {
	in.t.Helper()
	in.letters(func(s deadletter.Store) {
		for from := 0; from < n; from += 1000 {
			var some []tidemill.DeadLetter
			for i := range 1000 {
				m := &tidemill.Message{ID: fmt.Sprint("e", from+i), Tenant: "shop", Payload: []byte(`{"event":"x"}`)}
				some = append(some, tidemill.DeadLetter{Pipeline: pipeline, Message: m, Kind: tidemill.Timeout, Cause: "no answer", At: time.Now().Add(-time.Hour)})
			}
			if err := s.Put(in.t.Context(), some); err != nil {
				in.t.Fatal(err)
			}
		}
	})
}

// operate starts an operation on all dead letters of a pipeline.
func (in *instance) operate(what, pipeline string) (o api.Operation) {
	in.t.Helper()
	if err := json.Unmarshal(in.Ask("operations", "start", what, "--pipeline", pipeline, "--yes", "--detach", "--json"), &o); err != nil {
		in.t.Fatal(err)
	}
	return o
}

// TestOperationsGoOnAfterAKill kills the process in the middle of discards and of replays: both go on
// where they were, each dead letter is counted once, the books balance, and the audit trail has who
// started them.
func TestOperationsGoOnAfterAKill(t *testing.T) {
	t.Parallel()
	in := newInstance(t)
	in.plant(discarded, discards)
	in.plant(replayed, replays)
	in.Start()
	deletes := in.operate(api.DeadDelete, discarded)
	if deletes.Count != discards || deletes.State != "scheduled" {
		t.Fatalf("it is begun as %+v", deletes)
	}
	alone := in.ingest(10)
	changes := func(o *api.Operation) bool { return o.Changed > 0 }
	if o := in.until(deletes.ID, "running", changes); o.Begun.Before(o.Starts) {
		t.Errorf("it began at %v, before %v", o.Begun, o.Starts)
	}
	beside := in.ingest(10)
	again := in.operate(api.DeadReplay, replayed)
	before := []api.Operation{in.operation(deletes.ID), in.until(again.ID, "running", changes)}
	in.Kill()
	for _, o := range before {
		if o.Changed == 0 || o.State != "running" {
			t.Fatalf("the kill was too late: %+v", o)
		}
	}
	in.Start()
	for i, want := range []int{discards, replays} {
		o := in.until(before[i].ID, "done", func(o *api.Operation) bool { return o.Ended != nil })
		if o.State != "done" || o.Changed != want || o.Gone != 0 || len(o.Failed) != 0 || o.Uncertain != 0 {
			t.Errorf("it ended as %+v", o)
		}
		t.Logf("%s: %.0f a second, killed after %d of %d", o.What, o.PerSecond, before[i].Changed, want)
	}
	t.Logf("the slowest of ten events: %v without discards, %v beside them", alone, beside)
	if a := in.settled(); !a.Balanced {
		t.Errorf("the books of ingest: %+v", a)
	}
	in.trail(deletes.ID, again.ID)
	for len(in.Ask("dead", "list", "--state", "replaying", "--max", "1", "--json")) > 0 {
		time.Sleep(100 * time.Millisecond) // another process
	}
	if err := in.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	in.letters(func(s deadletter.Store) {
		for pipeline, want := range map[string]tidemill.Books{
			discarded: {Accepted: discards, Settled: tidemill.Count{Skipped: discards}},
			replayed:  {Accepted: replays, Pending: replays},
		} {
			if books, err := s.Open(pipeline).(tidemill.Bookkeeper).Books(t.Context()); err != nil || books != want {
				t.Errorf("the books of the dead letters of %s are %+v, %v; want %+v", pipeline, books, err, want)
			}
		}
		for l, err := range s.List(t.Context(), deadletter.Filter{Pipeline: replayed}) {
			if err != nil || l.State != deadletter.Held || l.Replays != 1 {
				t.Fatalf("replayed as %+v, %v", l, err)
			}
		}
	})
}

// trail holds that the audit trail is whole, and has the starts of operations.
func (in *instance) trail(ids ...string) {
	in.t.Helper()
	in.Ask("audit", "trail", "--check")
	said := string(in.Ask("audit", "trail", "--operation", "startOperation", "--outcome", "done", "--json"))
	for _, id := range ids {
		if !strings.Contains(said, id) {
			in.t.Errorf("the audit trail has no start of %s:\n%s", id, said)
		}
	}
}
