package connect

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/flow"
)

// A pipeline that has not turned for this long is stuck: an idle or paused one turns.
const stuckAfter = 30 * time.Second

type readiness struct{ on atomic.Bool }

func (r *readiness) set(on bool) { r.on.Store(on) }

// live fails when a pipeline is stuck: what watches the process shall restart it.
func (i *Instance) live() error {
	for _, s := range i.systems {
		for _, e := range s.Pipelines() {
			if turned := e.Stats().Turned; e.State() == flow.Running && !turned.IsZero() && i.Now().Sub(turned) > stuckAfter {
				return errors.New("pipeline " + e.Name() + " has not turned since " + turned.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

// takes fails when events cannot be taken in now.
func (i *Instance) takes() error {
	if !i.ready.on.Load() {
		return errors.New("starting or stopping")
	}
	for _, s := range i.systems {
		for _, e := range s.Pipelines() {
			if e.State() == flow.Stopped {
				return errors.New("pipeline " + e.Name() + " has stopped")
			}
		}
	}
	return nil
}
