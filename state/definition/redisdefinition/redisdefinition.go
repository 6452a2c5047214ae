// Package redisdefinition drops the caches of definitions that readers keep in Redis, in
// front of any store of definitions. Use it where other programs read event_names:<project>
// and event_property_names:<project>.
package redisdefinition

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/state/definition"
)

// timeout bounds dropping caches: no event waits for it.
const timeout = time.Second

// Definitions is another definition.Definitions whose upserts drop readers' caches of the
// names they brought. Cataloguing upserts only names that were not seen this hour, so only
// those drop a cache.
type Definitions struct {
	definition.Definitions
	client rueidis.Client
	log    *slog.Logger
}

var _ definition.Definitions = (*Definitions)(nil)

// New puts it in front of a store. A nil log discards.
func New(client rueidis.Client, of definition.Definitions, log *slog.Logger) (*Definitions, error) {
	if client == nil || of == nil {
		return nil, errors.New("caches of definitions need a connection and a store")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Definitions{of, client, log}, nil
}

// Upsert implements definition.Definitions: the store first, then the caches. If a cache
// cannot be dropped, that is logged, and it shows the names when it expires.
func (d *Definitions) Upsert(ctx context.Context, b *definition.Batch) error {
	if err := d.Definitions.Upsert(ctx, b); err != nil {
		return err
	}
	keys := keys(b)
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for key, err := range rueidis.MDel(d.client, ctx, keys) {
		if err != nil {
			// Logged when the Redis that readers of definitions cache in did not take that a name is
			// new.
			// To do: see whether that Redis is well; readers see the new names when their cache runs
			// out.
			d.log.WarnContext(ctx, "a cache of definitions could not be dropped; its readers see new names when it runs out", "key", key, "error", err)
			break // the others fail for the same reason, or are dropped
		}
	}
	return nil
}

// keys are the caches that lack names of b, each once.
func keys(b *definition.Batch) []string {
	var all []string
	add := func(prefix string, project uuid.UUID) { all = append(all, prefix+project.String()) }
	for i := range b.Events {
		if i == 0 || b.Events[i].Project != b.Events[i-1].Project {
			add("event_names:", b.Events[i].Project)
		}
	}
	for i := range b.Properties {
		if i == 0 || b.Properties[i].Project != b.Properties[i-1].Project {
			add("event_property_names:", b.Properties[i].Project)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
