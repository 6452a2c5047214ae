package windowssystem

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
	"github.com/tidemill/tidemill/systems/windows/windowsingest"
)

// chain are the processors of a configuration.
func (h *wiring) chain(c *windowsconfig.Settings) (*process.Chain, error) {
	steps, err := c.Steps(h.Now)
	if err != nil {
		return nil, err
	}
	return process.New(steps, process.Options{Log: h.Log, Now: h.Now})
}

// reload prepares another configuration: processors, with the secrets that they name, and the limit of
// the endpoint.
func (h *wiring) reload(sys *windows.System, handler *windowsingest.Handler) system.Prepare {
	return func(_ context.Context, next *config.Loaded) (*system.Prepared, error) {
		c := windowsconfig.Of(next)
		chain, err := h.chain(c)
		if err != nil {
			return nil, err
		}
		changed := slices.ContainsFunc(h.InForce().Changes(next), func(c config.Change) bool {
			return c.List() == "windows.processors" || c.Setting == "windows.processors"
		})
		return &system.Prepared{Commit: func() {
			handler.LimitTo(c.RateLimit)
			if changed {
				sys.Process(chain)
			}
		}}, nil
	}
}
