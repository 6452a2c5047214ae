package main

import (
	"context"
	_ "embed"
	"os"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

//go:embed openapi.json
var document []byte

// journal is the system: all that a program needs to know of it.
var journal = system.System{
	Name: name, Settings: group, Build: build,
	Operations: new(operations).all(), Missing: "the journal does not run in this instance", Document: document,
	Unit: "note", Commands: commands, First: first,
}

// replays is the pipeline of its dead letters.
const replays = name + "-dlq"

// build puts it together on the embedded database.
func build(ctx context.Context, h *system.Host) (*system.Parts, error) {
	own := config.Of[*settings](h.Config)
	f, err := h.File(ctx)
	if err != nil {
		return nil, err
	}
	if h.Projects == nil {
		h.Projects = f.Projects
	}
	if err := h.EnsureProjects(ctx, h.Projects); err != nil {
		return nil, err
	}
	written := prometheus.NewCounter(prometheus.CounterOpts{Name: "journal_notes_written_total", Help: "Notes that this instance has written."})
	n := &notes{path: own.path(), longest: own.Longest, written: func(n int) { written.Add(float64(n)) }}
	books := map[string]tidemill.Bookkeeper{}
	var pipelines []*flow.Engine
	for _, p := range []struct {
		name   string
		source tidemill.Source
	}{{name, f.Queues.Open(name, queue.Options{})}, {replays, f.DeadLetters.Open(name)}} {
		e, err := flow.New(flow.Pipeline{Name: p.name, Source: p.source, Work: n.steps().Lane, Dead: f.DeadLetters, Batch: 100, Log: h.Log, Now: h.Now, Observe: h.Observe})
		if err != nil {
			return nil, err
		}
		pipelines = append(pipelines, e)
		books[p.name] = p.source.(tidemill.Bookkeeper)
	}
	add := func(ctx context.Context, m *tidemill.Message) error {
		if m.To = name; m.ID == "" {
			m.ID = uuid.NewString()
		}
		return f.Queues.Add(ctx, []*tidemill.Message{m}, nil)
	}
	ingest, err := newIngest(h.Endpoint(h.Projects), add)
	if err != nil {
		return nil, err
	}
	return &system.Parts{
		Runs: []system.Running{{System: flow.NewSystem(flow.SystemParts{Name: name, Pipelines: pipelines, Log: h.Log, Now: h.Now}),
			Shown: admin.System{Books: books, Audit: audit(books)}, Counted: books}},
		Endpoints:  []system.Endpoint{{Serves: func(p string) bool { return p == path }, Handler: ingest}},
		Operations: (&operations{n, add}).all(),
		Metrics:    []prometheus.Collector{written},
		Checks:     []func(context.Context) []preflight.Finding{n.writable},
		API:        func(p *admin.Parts) { p.Projects, p.Queues = h.Projects, f.Queues; p.AddLetters(name, f.DeadLetters) },
	}, nil
}

// report is the proof that no note is missing.
type report struct {
	System   string `json:"system"`
	Balanced bool   `json:"balanced"`
	deadletter.Audit
	Faults []string `json:"faults"`
}

func audit(books map[string]tidemill.Bookkeeper) func(context.Context) (any, bool, error) {
	return func(ctx context.Context) (any, bool, error) {
		a, faults, err := deadletter.AuditOf(ctx, books[name], books[replays], "notes")
		return report{name, len(faults) == 0, a, append([]string{}, faults...)}, len(faults) == 0, err
	}
}

// writable is what the doctor looks at.
func (n *notes) writable(context.Context) []preflight.Finding {
	f, err := os.OpenFile(n.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return []preflight.Finding{system.Finding("journal file", preflight.Fail, err.Error(), "set journal.file to a file that this process may write to")}
	}
	defer f.Close()
	return []preflight.Finding{system.Finding("journal file", preflight.OK, n.path, "")}
}
