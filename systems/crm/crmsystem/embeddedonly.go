//go:build embedded

package crmsystem

import (
	"context"

	"github.com/tidemill/tidemill/connect/system"
)

// Servers are left out.

func (w *wiring) onPostgres(context.Context, *stores) error { return system.LeftOut("PostgreSQL") }
func (w *wiring) onRedis(context.Context, *stores) error    { return system.LeftOut("Redis") }
func (w *wiring) fromBullMQ(context.Context, *stores) error { return system.LeftOut("Redis") }
