package main

import (
	"context"
	"log/slog"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

func main() {}

func mail(ctx context.Context, to string) error { return nil }

func countOpens(ctx context.Context, calls []*handler.Call) error { return nil }

func writeScores(ctx context.Context, tx *sqlitetable.Tx, calls []*handler.Call) error { return nil }

func block(ctx context.Context, q queue.Store, l deadletter.Store, replays ledger.Store, profiles profile.Resolver, event []byte) {
	// BLOCK
	slog.Info("taken in", "results", results, "err", err)
}
