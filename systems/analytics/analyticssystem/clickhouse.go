//go:build !embedded

package analyticssystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/clickhousewarehouse"
)

// clickhouse makes a ClickHouse the warehouse.
func (w *wiring) clickhouse(ctx context.Context, b *backends) error {
	c := &w.Config.ClickHouse
	conn, err := clickhousehttp.Open(ctx, string(c.URL), clickhousehttp.Options{Database: c.Database, User: c.User, Password: c.Password})
	if err != nil {
		return err
	}
	w.OnClose(func() error { conn.Close(); return nil })
	events, err := clickhousewarehouse.New(ctx, conn, clickhousewarehouse.Options{Collection: c.Collection, Keep: w.own.Keep})
	if err != nil {
		return err
	}
	if was := events.Was(); was != "" {
		// Logged at the start, when the table's TTL was another than `analytics.keep` and was changed.
		w.Log.InfoContext(ctx, "events are kept for another time in ClickHouse now", "keep", w.own.Keep, "was", was)
	}
	if b.versions, err = events.HighestVersion(ctx); err != nil {
		return err
	}
	b.warehouse = events
	w.Look(events.Inspect)
	w.Uses = append(w.Uses, fmt.Sprintf("warehouse: ClickHouse %s, %s, database %s", conn.Version(), c.URL, c.Database))
	return nil
}
