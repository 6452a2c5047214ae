//go:build !embedded

package windowssystem

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/rediswindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search/opensearchsearch"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// onRedis puts a Redis behind windows and dead letters, under keys of their own.
func (h *wiring) onRedis(ctx context.Context, s *stores) error {
	w, address := h.own, h.own.RedisURL()
	client, err := h.Redis(ctx, address)
	if err != nil {
		return err
	}
	if w.Brokers() == "" {
		if s.queues, err = redisqueue.New(client, redisqueue.Options{Prefix: queuesKeys, Capacity: w.QueueMax, Shards: w.Shards}); err != nil {
			return err
		}
	}
	store, err := rediswindow.New(client, rediswindow.Options{
		Options: window.Options{Window: w.Window, Lease: w.Lease, Owner: h.owner()}, Prefix: keys, Shards: w.Shards, TTL: w.Life})
	if err != nil {
		return err
	}
	s.windows = store
	s.adopt = func(ctx context.Context, prefix string, project uuid.UUID, dryRun bool) (windowsapi.AdoptedWindows, error) {
		do := store.Adopt
		if dryRun {
			do = store.Adoptable
		}
		done, err := do(ctx, rediswindow.Old{Prefix: prefix, Batch: func(id string) string { return record.NewBatch(project, id).String() }})
		return windowsapi.AdoptedWindows{Batches: done.Batches, Records: done.Records, Lost: done.Lost}, err
	}
	if s.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: w.DeadMax}, Stream: lettersStream, Pipeline: windows.Delivered}); err != nil {
		return err
	}
	h.Uses = append(h.Uses, fmt.Sprintf("windows: Redis, %s", address))
	return nil
}

// onOpenSearch puts an OpenSearch or Elasticsearch behind the index.
func (h *wiring) onOpenSearch(ctx context.Context, s *stores) error {
	c := &h.own.Search
	conn, err := opensearchhttp.Open(ctx, string(c.URL), opensearchhttp.Options{})
	if err != nil {
		return err
	}
	h.OnClose(func() error { conn.Close(); return nil })
	index, err := opensearchsearch.New(conn, opensearchsearch.Options{Unmanaged: c.Unmanaged, NewIndices: c.NewIndices, Now: h.Now}, s.events, s.mentions)
	if err != nil {
		return err
	}
	s.index = index
	h.Look(index.Inspect)
	h.Uses = append(h.Uses, fmt.Sprintf("index: %s %s, %s", conn.Product(), conn.Version(), c.URL))
	return nil
}
