package main

import (
	"context"
	"log/slog"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/embedded/jobs"
)

func main() {}

func send(ctx context.Context, to string) error { return nil }

func block(ctx context.Context) {
	// BLOCK
	slog.Info("the end", "err", err)
}
