package connect

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

// doctor looks at everything that could cost events, and says what to do.
func (i *Instance) doctor(ctx context.Context) []preflight.Finding {
	var fs []preflight.Finding
	if f := i.Opened(); f != nil {
		fs = append(fs, f.Check(ctx, i.Config.Data)...)
	}
	for _, s := range i.systems {
		for _, e := range s.Pipelines {
			fs = append(fs, checkPipeline(e))
		}
	}
	for _, look := range i.Looks() {
		fs = append(fs, look(ctx)...)
	}
	for _, check := range i.checks {
		fs = append(fs, check(ctx)...)
	}
	return fs
}

var finding = system.Finding

func checkPipeline(e *flow.Engine) preflight.Finding {
	s, name := e.Stats(), "pipeline "+e.Name()
	switch {
	case s.State == flow.Paused:
		return finding(name, preflight.Warn, "paused", "tidemill resume "+e.Name())
	case !s.Until.IsZero():
		return finding(name, preflight.Warn, "its breaker is open: "+s.Why, "mend the destination; it is tried again by itself")
	case s.Errors > 0:
		return finding(name, preflight.Warn, fmt.Sprintf("%d errors in a row, the last: %v", s.Errors, s.Last), "")
	case s.State == flow.Idle:
		return finding(name, preflight.OK, "not started: the data was opened to look at it", "")
	}
	return finding(name, preflight.OK, s.State.String(), "")
}

func checkGeo(s enrich.GeoStatus) preflight.Finding {
	switch {
	case s.Source == "":
		return finding("countries", preflight.OK, "no database: countries stay empty", "")
	case s.Err != nil:
		return finding("countries", preflight.Warn, s.Err.Error(), "events go on, with the old database or without countries")
	case !s.Loaded():
		return finding("countries", preflight.Warn, s.Source+": not loaded yet", "")
	}
	return finding("countries", preflight.OK, s.Source, "")
}

func (i *Instance) checkProjects() preflight.Finding {
	for _, p := range i.Config.Projects {
		if len(p.Key.Reveal()) < 16 {
			return finding("keys", preflight.Warn, fmt.Sprintf("the key of project %s has fewer than 16 characters", p.Name), "take a long random one where others can reach the address")
		}
	}
	host := i.Config.Listen
	if config.Loopback(hostOf(host)) {
		return finding("keys", preflight.OK, "kept as hashes; the address is this machine's alone", "")
	}
	return finding("keys", preflight.OK, "kept as hashes; the API needs its key", "")
}
