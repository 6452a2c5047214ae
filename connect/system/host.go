// Package system is what a system and the process that it runs in know of each other: the
// connections to servers, which all systems share, the embedded database, clock and log.
package system

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/live"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/project"
)

// Host is the process: what systems are built with, and what they leave to be closed.
type Host struct {
	Config  *config.Loaded // at the start; see InForce
	Version string
	Systems []string // that run
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *prometheus.Registry
	Observe func(stage string, messages int, took time.Duration, err error) // of the stages of pipelines

	Way     giveway.Way      // by which pipelines give way to the requests of endpoints
	Tracer  tidemill.Tracer  // takes the spans of events; nil: nothing is followed
	Sockets *metrics.Sockets // of listeners
	Fates   *live.Feed       // is shown what becomes of events

	Live     func() error                              // fails where the process shall be started anew
	Takes    func() error                              // fails when events cannot be taken in now
	Operator func(r *http.Request, system string) bool // says who may see what the API shows of a system; nil until all are built

	Projects project.Store  // whose keys are taken; nil: no system that was built has any
	Common   *answer.Common // what the API's operations need

	// Bounds are those of each queue of the embedded database, which has the queues of all systems.
	Bounds Bounds

	Uses  []string    // what the systems run on, a line each, for people
	Loops []flow.Loop // of no system's own

	retained []*retained // in their order

	inForce atomic.Pointer[config.Loaded] // nil: Config
	servers map[string]any                // by product and address
	file    *File                         // nil: no role is in it
	looks   []Look
	judged  int                    // of looks
	found   *prometheus.GaugeVec   // by Judge; nil: nothing was looked at
	reports *prometheus.CounterVec // of what happened to sources; nil: embedded
	close   []func() error         // of what was opened, in that order
}

// Look asks a server how far events may be entrusted to it.
type Look func(context.Context) []preflight.Finding

// Look has a server looked at by the next Judge, and by every doctor.
func (h *Host) Look(l Look) { h.looks = append(h.looks, l) }

// Looks are those of all servers.
func (h *Host) Looks() []Look { return h.looks }

// OnClose has something closed before all that was opened until now.
func (h *Host) OnClose(end func() error) { h.close = append(h.close, end) }

// Close closes what was opened, the last first. Closing again does nothing.
func (h *Host) Close() error {
	var errs []error
	for _, end := range slices.Backward(h.close) {
		errs = append(errs, end())
	}
	h.close = nil
	return errors.Join(errs...)
}
