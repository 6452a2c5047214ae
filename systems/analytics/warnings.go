package analytics

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// maxWarnings is how many warnings may wait to be written. Further ones are counted and
// dropped, so that a flood of bad events does not use up memory.
const maxWarnings = 10_000

// Warnings collects what a project's owner should know, and writes it in batches.
type Warnings struct {
	to  warehouse.Warehouse
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards all below
	waiting []warehouse.Warning
	dropped uint64
	counts  map[string]uint64
}

func newWarnings(to warehouse.Warehouse, log *slog.Logger, now func() time.Time) *Warnings {
	return &Warnings{to: to, log: log, now: now, counts: map[string]uint64{}}
}

// Counts are how many warnings of each type were added since the start, including dropped ones:
// events refused after the endpoint and merges refused, by reason.
func (w *Warnings) Counts() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

// Add adds a warning. Its time, unless it has one, is now, whenever the event happened: its
// reader looks today, and it is kept from today on. Add never blocks.
func (w *Warnings) Add(n warehouse.Warning) {
	if n.At.IsZero() {
		n.At = w.now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[n.Type]++
	if len(w.waiting) >= maxWarnings {
		w.dropped++
		return
	}
	w.waiting = append(w.waiting, n)
}

// Flush writes the waiting warnings. After an error they wait on.
func (w *Warnings) Flush(ctx context.Context) error {
	w.mu.Lock()
	batch, dropped := w.waiting, w.dropped
	w.waiting, w.dropped = nil, 0
	w.mu.Unlock()
	if dropped > 0 {
		// Logged when more ingestion warnings came than wait to be written; `count` of them are lost,
		// no event is.
		// To do: nothing; see whether the store of warnings is well, if it goes on.
		w.log.WarnContext(ctx, "ingestion warnings dropped", "count", dropped)
	}
	if len(batch) == 0 {
		return nil
	}
	if err := w.to.Warn(ctx, batch); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		room := max(maxWarnings-len(w.waiting), 0)
		w.waiting = slices.Concat(batch[:min(room, len(batch))], w.waiting)
		return err
	}
	return nil
}

func warning(e *event.Event, typ, reason string) warehouse.Warning {
	return warehouse.Warning{Project: e.Project, Type: typ, Event: e.Name, Distinct: e.DistinctID, Reason: reason}
}

// refusedMerge is the warning of a merge by an event of that name.
func refusedMerge(m *person.Merge, name string) warehouse.Warning {
	return warehouse.Warning{Project: m.Project, Type: "cannot_merge_already_identified", Event: name, Distinct: m.Distinct,
		Reason: "the other id belongs to an identified person: " + m.Other}
}

// warnRefused notes a refusal.
func (s *System) warnRefused(e *event.Event, err error) {
	typ := tidemill.KindOf(err).String()
	if r, ok := errors.AsType[*event.Refusal](err); ok {
		typ = r.Reason
	}
	s.Warnings.Add(warning(e, typ, err.Error()))
}
