package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/preflight"
)

// judge reads the versions and settings of servers and tells what could lose acknowledged
// events; strict refuses it.
func (i *Instance) judge(ctx context.Context, servers []func(context.Context) []preflight.Finding) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var refused []error
	found := i.findings()
	for _, inspect := range servers {
		for _, f := range inspect(ctx) {
			found.WithLabelValues(f.Verdict).Inc()
			switch f.Verdict {
			case preflight.Fail:
				refused = append(refused, fmt.Errorf("%s: %s; %s", f.Check, f.Detail, f.Advice))
				i.options.Log.ErrorContext(ctx, "a server could lose events", "check", f.Check, "detail", f.Detail, "advice", f.Advice)
			case preflight.Warn:
				i.options.Log.WarnContext(ctx, "a server could be safer", "check", f.Check, "detail", f.Detail, "advice", f.Advice)
			}
		}
	}
	if !i.config.Strict || len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("strict is on, and servers could lose events (tidemill doctor shows all that was looked at):\n%w", errors.Join(refused...))
}

// findings counts what was found.
func (i *Instance) findings() *prometheus.GaugeVec {
	if i.found == nil {
		i.found = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemill_preflight_findings",
			Help: "What was found at the start when the servers' versions and settings were looked at, by verdict: fail could lose acknowledged events."}, []string{"verdict"})
		for _, verdict := range []string{preflight.OK, preflight.Warn, preflight.Fail} {
			i.found.WithLabelValues(verdict)
		}
		i.metrics.MustRegister(i.found)
	}
	return i.found
}
