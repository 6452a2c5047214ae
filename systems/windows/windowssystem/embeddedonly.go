//go:build embedded

package windowssystem

import (
	"context"

	"github.com/tidemill/tidemill/connect/system"
)

// Servers are left out.

func (h *wiring) onRedis(context.Context, *stores) error      { return system.LeftOut("Redis") }
func (h *wiring) onOpenSearch(context.Context, *stores) error { return system.LeftOut("OpenSearch") }
func (h *wiring) onKafka(context.Context, *stores) error      { return system.LeftOut("Kafka") }
