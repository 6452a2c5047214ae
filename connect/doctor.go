package connect

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
)

// doctor looks at everything that could cost events, and says what to do.
func (i *Instance) doctor(ctx context.Context) []preflight.Finding {
	var fs []preflight.Finding
	if f := i.Opened(); f != nil {
		fs = append(fs, f.Check(ctx, i.Config.Data)...)
	}
	for _, s := range i.systems {
		for _, e := range s.Pipelines() {
			fs = append(fs, checkPipeline(e))
		}
	}
	fs = append(fs, i.Retained()...)
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
