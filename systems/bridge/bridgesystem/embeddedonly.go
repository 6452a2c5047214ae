//go:build embedded

package bridgesystem

import (
	"context"

	"github.com/tidemill/tidemill/connect/system"
)

// Servers are left out.

func (w *wiring) onServers(context.Context, *ends) error { return system.LeftOut("Redis") }
