package connect

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/records"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/memoryproject"
)

// windowsDoor makes the door of the windows system, and opens the ports that it is asked to have.
func (i *Instance) windowsDoor(ctx context.Context, s *windowsStores) error {
	c := i.Config
	w := &c.Windows
	spool := ""
	if i.Opened() != nil { // else the data folder is not used
		spool = filepath.Join(c.Data, "windows-door")
	}
	var err error
	i.records, err = records.New(records.Options{Options: i.endpoint(s.projects), Windows: s.windows, Project: s.project, Header: w.Header, Expect: w.ExpectHeader, Spool: spool,
		Limits: records.Limits{Limits: endpoint.Limits{Time: c.HTTP.BodyTimeout, PerMinute: w.RateLimit}}})
	if err != nil {
		return err
	}
	if w.Given("server_port") {
		mux := http.NewServeMux()
		i.liveness(mux)
		mux.Handle("/", i.records)
		if err := i.port(w.ServerPort, "SERVER_PORT", mux, i.limits()); err != nil {
			return err
		}
	}
	if w.Given("actuator_port") {
		mux := http.NewServeMux()
		i.liveness(mux)
		mux.Handle("GET /actuator/health", health(i.takes))
		mux.Handle("GET /actuator/health/liveness", health(i.live))
		mux.Handle("GET /actuator/health/readiness", health(i.takes))
		mux.Handle("GET /actuator/prometheus", i.metricsHandler())
		mux.Handle("GET /metrics", i.metricsHandler())
		return i.port(w.ActuatorPort, "ACTUATOR_PORT", mux, serve.Limits{})
	}
	return nil
}

// windowsProjects finds those whose records are taken: of the embedded database where that is
// there, else of the configuration; and the one of records that come without a key.
func (i *Instance) windowsProjects(ctx context.Context, s *windowsStores) error {
	if i.projects == nil {
		i.projects = s.projects
	}
	if s.projects = i.projects; s.projects == nil {
		if len(i.Config.Projects) == 0 {
			i.Log.WarnContext(ctx, "no record is taken by HTTP: no project is configured whose key could be sent, and there is no embedded database that keeps some; set projects")
		}
		s.projects = memoryproject.New()
	}
	if err := i.ensureProjects(ctx, s.projects); err != nil {
		return err
	}
	name := i.Config.WindowsProject()
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
