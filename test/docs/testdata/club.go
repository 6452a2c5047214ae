package main

import (
	"context"
	"log/slog"

	"github.com/tidemill/tidemill/embedded/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

func main() {}

func book(ctx context.Context, c *handler.Call) error { return nil }

func block(ctx context.Context, event []byte) {
	// BLOCK
	slog.Info("taken in", "results", results, "err", err)
}
