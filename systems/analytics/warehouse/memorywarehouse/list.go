package memorywarehouse

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// List implements warehouse.Reader. It looks at all events.
func (s *Store) List(ctx context.Context, l warehouse.Listing) (out warehouse.Listed, err error) {
	if l.Newest = false; ctx.Err() != nil {
		return out, ctx.Err()
	}
	if err := l.Check(); err != nil {
		return out, err
	}
	after, ok := warehouse.PlaceOf(l.After)
	if !ok && l.After != "" {
		return out, l.NoKey()
	}
	compare := func(a, b warehouse.Place) int {
		d := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Tie, b.Tie))
		if l.Oldest {
			return d
		}
		return -d
	}
	events := s.stored()
	var places []warehouse.Place
	for i := range events {
		e := s.resolved(events[i])
		if p := (warehouse.Place{At: e.Timestamp.UnixMilli(), Tie: int64(i)}); l.Match(&e) && (l.After == "" || compare(p, after) > 0) {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, compare)
	for _, p := range places[:min(len(places), l.Most())] {
		e := s.resolved(events[p.Tie])
		out.Events, out.Keys = append(out.Events, &e), append(out.Keys, p.Key())
	}
	return out, nil
}
