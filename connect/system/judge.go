package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/preflight"
)

// answerWithin is how long all servers together have to be looked at.
const answerWithin = 30 * time.Second

// Judge reads the versions and settings of the servers that were opened since it was last called,
// and tells what could lose acknowledged events; strict refuses it.
func (h *Host) Judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var refused []error
	found := h.findings()
	for _, look := range h.looks[h.judged:] {
		for _, f := range look(ctx) {
			found.WithLabelValues(f.Verdict).Inc()
			switch f.Verdict {
			case preflight.Fail:
				refused = append(refused, fmt.Errorf("%s: %s; %s", f.Check, f.Detail, f.Advice))
				// Logged at the start, for each finding about a server that can lose what was
				// confirmed; the start is refused unless that is allowed.
				// To do: do what `advice` says.
				h.Log.ErrorContext(ctx, "a server could lose events", "check", f.Check, "detail", f.Detail, "advice", f.Advice)
			case preflight.Warn:
				// Logged at the start, for each finding about a server that is less safe than it could
				// be.
				// To do: do what `advice` says.
				h.Log.WarnContext(ctx, "a server could be safer", "check", f.Check, "detail", f.Detail, "advice", f.Advice)
			}
		}
	}
	h.judged = len(h.looks)
	if !h.Config.Strict || len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("strict is on, and servers could lose events (tidemill doctor shows all that was looked at):\n%w", errors.Join(refused...))
}

// findings counts what was found.
func (h *Host) findings() *prometheus.GaugeVec {
	if h.found == nil {
		h.found = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemill_preflight_findings",
			Help: "What was found at the start when the servers' versions and settings were looked at, by verdict: fail could lose acknowledged events."}, []string{"verdict"})
		for _, verdict := range []string{preflight.OK, preflight.Warn, preflight.Fail} {
			h.found.WithLabelValues(verdict)
		}
		h.Metrics.MustRegister(h.found)
	}
	return h.found
}

// Report counts what happened to a source without us. With nothing to count it makes the metric.
func (h *Host) Report(pipeline, what string, n uint64) {
	h.Reports().WithLabelValues(pipeline, what).Add(float64(max(n, 1)))
}

// Reports counts what happened to sources without us.
func (h *Host) Reports() *prometheus.CounterVec {
	if h.reports == nil {
		h.reports = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_source_reports_total",
			Help: "Messages that were deleted, trimmed or forgotten at the source before they ended, and other changes to it that nobody here made."}, []string{"pipeline", "what"})
		h.Metrics.MustRegister(h.reports)
	}
	return h.reports
}

// Finding is one that a system makes itself.
func Finding(check, verdict, detail, advice string) preflight.Finding {
	return preflight.Finding{Check: check, Verdict: verdict, Detail: detail, Advice: advice}
}
