package windowssystem

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/windows/windowsingest"
)

// ingestAPI makes the ingest API of the windows system, and opens the ports that it is asked to have.
func (h *wiring) ingestAPI(ctx context.Context, s *stores) (*windowsingest.Handler, error) {
	c := h.Config
	w := h.own
	spool := ""
	if h.Opened() != nil { // else the data folder is not used
		spool = filepath.Join(c.Data, "windows-door")
	}
	handler, err := windowsingest.New(windowsingest.Options{Options: h.Endpoint(s.projects), Windows: s.windows, Project: s.project, Header: w.Header, Expect: w.ExpectHeader, Spool: spool,
		Limits: windowsingest.Limits{Limits: endpoint.Limits{Time: c.HTTP.BodyTimeout, PerMinute: w.RateLimit}}})
	if err != nil {
		return nil, err
	}
	h.parts.Endpoints = []system.Endpoint{{Serves: windowsingest.Serves, Handler: handler}}
	if w.Given("server_port") {
		mux := http.NewServeMux()
		h.Liveness(mux)
		mux.Handle("/", handler)
		h.parts.Ports = append(h.parts.Ports, system.Port{Number: w.ServerPort, Setting: "SERVER_PORT", Handler: mux, Limits: h.Limits()})
	}
	if w.Given("actuator_port") {
		mux := http.NewServeMux()
		h.Liveness(mux)
		mux.Handle("GET /actuator/health", system.Health(h.Takes))
		mux.Handle("GET /actuator/health/liveness", system.Health(h.Live))
		mux.Handle("GET /actuator/health/readiness", system.Health(h.Takes))
		mux.Handle("GET /actuator/prometheus", h.MetricsHandler())
		mux.Handle("GET /metrics", h.MetricsHandler())
		h.parts.Ports = append(h.parts.Ports, system.Port{Number: w.ActuatorPort, Setting: "ACTUATOR_PORT", Handler: mux})
	}
	return handler, nil
}

// findProjects finds those whose records are taken: of the embedded database where that is
// there, else of the configuration; and the one of records that come without a key.
func (h *wiring) findProjects(ctx context.Context, s *stores) error {
	if h.Projects == nil {
		h.Projects = s.projects
	}
	if s.projects = h.Projects; s.projects == nil {
		if len(h.Config.Projects) == 0 {
			// Logged at the start, when no project is configured and there is no embedded database
			// that keeps some.
			// To do: set `projects`, if records come by HTTP.
			h.Log.WarnContext(ctx, "no record is taken by HTTP: there is no project whose key could be sent")
		}
		s.projects = tableproject.Memory()
	}
	if err := h.EnsureProjects(ctx, s.projects); err != nil {
		return err
	}
	name := h.own.ProjectName()
	if name == "" {
		all, err := s.projects.List(ctx)
		if err != nil {
			return err
		}
		if name = "default"; len(all) == 1 {
			s.project = all[0].ID
			return nil
		}
	}
	s.project = project.ID(name)
	return nil
}
