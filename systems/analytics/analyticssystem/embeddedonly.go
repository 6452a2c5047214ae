//go:build embedded

package analyticssystem

import (
	"context"

	"github.com/tidemill/tidemill/connect/system"
)

// Servers are left out.

func (w *wiring) clickhouse(context.Context, *backends) error { return system.LeftOut("ClickHouse") }
func (w *wiring) postgres(context.Context, *backends) error   { return system.LeftOut("PostgreSQL") }
func (w *wiring) redis(context.Context, *backends) error      { return system.LeftOut("Redis") }
func (w *wiring) kafka(context.Context, *backends) error      { return system.LeftOut("Kafka") }
