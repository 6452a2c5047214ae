package system

import (
	"context"

	"github.com/tidemill/tidemill/config"
)

// Prepare prepares what another configuration changes in a system that runs, of the settings that a
// reload applies (the tag reload). Everything that can fail fails here, and then leaves no trace. What
// is not changed is not touched.
type Prepare func(ctx context.Context, next *config.Loaded) (*Prepared, error)

// Prepared is a change that cannot fail any more. One of the two is called, once.
type Prepared struct {
	// Commit makes the change. What has begun ends as it began; when Commit returns, nothing of what
	// was taken away is at work any more. nil: there is nothing to do.
	Commit func()

	// Undo takes back what was prepared; nil: there is nothing to take back.
	Undo func()
}

// InForce is the configuration that is in force: Config at the start, and after a reload another one.
func (h *Host) InForce() *config.Loaded {
	if c := h.inForce.Load(); c != nil {
		return c
	}
	return h.Config
}

// PutInForce has another configuration in force.
func (h *Host) PutInForce(c *config.Loaded) { h.inForce.Store(c) }
