//go:build embedded

package deliverysystem

import (
	"context"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
)

// Servers are left out.

func (w *wiring) sentInPostgres(context.Context, *stores) error { return system.LeftOut("PostgreSQL") }
func (w *wiring) onRedis(context.Context, *stores) error        { return system.LeftOut("Redis") }

func (w *wiring) fromBullMQ(context.Context, *deliveryingest.Handler, *stores) (r system.Running, err error) {
	return r, system.LeftOut("Redis")
}
