// Package analyticstest has the promises of the analytics system, as a table of cases: events
// go in through the ingest API or straight into the stream, the whole system runs over them,
// and the warehouse, the persons, the definitions, the dead letters, the warnings and the books
// are checked. One call runs all of it against a set of backends:
//
//	func TestSystem(t *testing.T) { analyticstest.Run(t, fresh) }
package analyticstest

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Harness is one fresh and empty set of backends.
type Harness struct {
	Intake      queue.Intake           // accepts entries for the queue "analytics"
	Source      func() tidemill.Source // hands them out; a Keeper and Bookkeeper. One for each system
	Persons     person.Store
	Warehouse   warehouse.Store
	Definitions definition.Definitions
	Letters     deadletter.Store
	Locks       lock.Locks
	Projects    project.Projects

	// Door accepts requests for Projects into Intake, and writes refusals to Warehouse.
	Door http.Handler

	// Reopen drops everything that is not durable, as the end of the process does, and opens
	// the same data again. Nil: the data last as long as the harness.
	Reopen func() Harness
}

// Fresh makes a harness. Run calls it in a synctest bubble, together with its functions
// registered by t.Cleanup.
type Fresh func(t *testing.T) Harness

// Run checks every promise against fresh backends that work inside a synctest bubble, where
// hours of outage pass at once.
func Run(t *testing.T, fresh Fresh) {
	each(t, func(t *testing.T, p promise) {
		synctest.Test(t, func(t *testing.T) { p.hold(newBench(t, fresh, true)) })
	})
}

// RunInRealTime checks the same promises against backends that are servers. Where a case lets
// minutes or hours pass, it lets a hundredth of them pass here. Cases run in parallel, each on
// its own harness: some wait for long, so let many run at once (-parallel 200).
func RunInRealTime(t *testing.T, fresh Fresh) {
	each(t, func(t *testing.T, p promise) {
		t.Parallel()
		p.hold(newBench(t, fresh, false))
	})
}

func each(t *testing.T, run func(*testing.T, promise)) {
	for _, table := range [][]promise{
		parsing, refusing, identifying, enriching, properties, merging, keeping, flushing, outages, letters, replays, running, instances, endpoints, orders, claiming,
	} {
		for _, p := range table {
			t.Run(p.name, func(t *testing.T) { run(t, p) })
		}
	}
}

// A promise is one case. Its name begins with the number of the requirement.
type promise struct {
	name, reason string
	holds        func(*bench)
}

func (p promise) hold(b *bench) {
	b.prepare()
	p.holds(b)
	if b.Failed() {
		b.Log("why it matters:", p.reason)
	}
}

// Project is the existing project, and Key its ingest key.
var Project = project.Project{ID: uuid.MustParse("33333333-3333-4333-8333-333333333333"), Name: "fixture"}

// Key is an ingest key of Project.
const Key = "phc_analyticstest"
