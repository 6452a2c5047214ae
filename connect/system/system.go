package system

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/plan"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// System is what a program can run, as one value. A Table has those of a program; nothing else in it
// names one.
type System struct {
	Name     string
	Settings config.Group // what of the configuration is its own

	// Check refuses what it cannot start with, beside what config.Load refuses. It connects to
	// nothing. Nil: there is no more.
	Check func(*config.Loaded) error

	// Bounds are how much of its own the embedded database may hold; nil: it has no word in that.
	Bounds func(*config.Loaded) Bounds

	// Room is how many bytes the heap may grow to where it runs alone; nil: as much as is usual.
	Room func(*config.Loaded) int64

	// Stateless says that it keeps nothing that a command could look at while nothing runs, but for
	// dead letters in the embedded database.
	Stateless bool

	// Operations are all that the API does of it, to be described; only those of Parts are done. Missing
	// is why they are not where it does not run.
	Operations []operation.Handler
	Missing    string
	Document   []byte      // Operations in OpenAPI, where api.Document has them not; package apitest writes it
	Letters    admin.Owner // which dead letters are its own

	Pages *page.Set // of the console; nil: it has none there

	Unit     string                // what its books count, as record; empty: event
	KeyUse   string                // how senders show a key, with %s for where it listens; empty: as X-API-Key
	Commands func() []Command      // of the command line, anew for each run; nil: none
	First    func(*Trial) []string // commands that send a first event and find it again

	// Rehearse makes what says what would become of events under a configuration; nil: nothing can.
	Rehearse func(*Rehearsing) (Rehearsal, error)

	// Figures are what was measured of it, by sets of servers, for plans; none: it cannot be planned.
	Figures []plan.Figures

	// Build opens what it stands on and puts it together.
	Build func(context.Context, *Host) (*Parts, error)
}

// Parts are a system on its backends, open but not yet running.
type Parts struct {
	Runs       []Running
	Endpoints  []Endpoint
	Ports      []Port
	Metrics    []prometheus.Collector
	Checks     []func(context.Context) []preflight.Finding // what the doctor looks at beside the servers
	Operations []operation.Handler                         // those of System.Operations that are done here
	Missing    string                                      // why there are none; empty: System.Missing
	Finder     answer.Finder                               // finds and explains its things by their ids; nil: they have none
	API        func(*admin.Parts)                          // adds its queues, projects and dead letters to those of all; nil: it has none
	Reload     Prepare                                     // nil: no setting of its own is applied while it runs
}

// Running is a flow system with what operators see of it.
type Running struct {
	*flow.System
	Shown   admin.System
	Counted map[string]tidemill.Bookkeeper // of the pipelines, whose books are in the metrics

	CountedNow func() map[string]tidemill.Bookkeeper // Counted, where pipelines come and go; nil: they stay
}

// Endpoint is what a system answers at the common listener. Of several that serve a path the first
// answers, in the order of the systems.
type Endpoint struct {
	Serves  func(path string) bool // nil: all that nobody else does
	Handler http.Handler

	// Operators says that who asks is a probe or an operator, who is answered though all
	// connections are at work.
	Operators bool
}

// Port is a listener of a system's own.
type Port struct {
	Number  int
	Setting string // that it is named by
	Handler http.Handler
	Limits  serve.Limits
}
