package clickhousewarehouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Insert implements warehouse.Warehouse. The rows that are not known to be stored are one
// INSERT, or one for each span of years, one after the other. Rows of several months are in
// several partitions, each stored or not; if a batch failed between two, its next try completes
// it.
func (s *Store) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(took) != len(rows) {
		return fmt.Errorf("insert %d events: there is room for %d answers; took must be as long as rows", len(rows), len(took))
	}
	b := s.take()
	defer s.give(b)
	for i, e := range rows {
		k := key{e.Project, e.ID}
		origin, known := b.seen[k]
		if !known {
			origin, known = s.recent.get(k)
		}
		switch {
		case !known:
			took[i] = warehouse.Stored
			b.seen[k] = e.Origin
			b.todo = append(b.todo, i)
		case origin == e.Origin:
			took[i] = warehouse.Again
		default:
			took[i] = warehouse.Duplicate
		}
	}
	span := func(i int) int { return spanOf(rows[i].Timestamp) }
	stamp := s.stamps(len(rows))
	for sorted, todo := false, b.todo; len(todo) > 0; {
		n := slices.IndexFunc(todo, func(i int) bool { return span(i) != span(todo[0]) })
		switch {
		case n < 0:
			n = len(todo)
		case !sorted: // most batches are of one span
			slices.SortStableFunc(todo, func(i, j int) int { return cmp.Compare(span(i), span(j)) })
			sorted = true
			continue
		}
		if err := s.insert(ctx, b, rows, todo[:n], stamp); err != nil {
			return fmt.Errorf("insert %d events: %w", n, err)
		}
		todo = todo[n:]
	}
	return nil
}

// insert stores the named rows, in one INSERT. stamp is that of the batch's first row.
func (s *Store) insert(ctx context.Context, b *block, rows []*event.Event, which []int, stamp int64) error {
	b.clear()
	for _, i := range which {
		b.add(rows[i], stamp+int64(i))
	}
	encoded, token, err := b.encode()
	if err == nil {
		err = s.conn.Insert(ctx, s.into, encoded, s.settings(token)...)
	}
	if err == nil {
		s.recent.put(rows, which)
	}
	return err
}

// Years in one INSERT: 96 months, each a partition, of the 100 that a server allows in one by
// default (max_partitions_per_insert_block). A span depends on the row alone, so a batch that
// is tried again is cut into the same INSERTs with the same tokens.
const spanYears = 8

func spanOf(t time.Time) int { return t.UTC().Year() / spanYears }

// settings of an insert: it is answered when it is stored, and recognised when it comes
// again.
func (s *Store) settings(token string) []clickhousehttp.Arg {
	args := []clickhousehttp.Arg{
		clickhousehttp.Set("insert_deduplicate", "1"),
		clickhousehttp.Set("insert_deduplication_token", token),
	}
	if s.o.Async {
		return append(args, clickhousehttp.Set("async_insert", "1"), clickhousehttp.Set("wait_for_async_insert", "1"))
	}
	return append(args, clickhousehttp.Set("async_insert", "0"))
}

// recent knows the origins of the last stored events: one full generation, and the one being
// filled.
type recent struct {
	max int

	mu         sync.Mutex // guards what follows; held for work in memory only
	young, old map[key]uint64
}

func newRecent(max int) *recent {
	return &recent{max: max, young: map[key]uint64{}, old: map[key]uint64{}}
}

func (r *recent) get(k key) (origin uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if origin, ok = r.young[k]; !ok {
		origin, ok = r.old[k]
	}
	return origin, ok
}

// put notes stored rows. An event that another batch stored meanwhile keeps its first origin.
func (r *recent) put(rows []*event.Event, which []int) {
	if r.max == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young)+len(which) > r.max {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
	for _, i := range which {
		k := key{rows[i].Project, rows[i].ID}
		if _, ok := r.old[k]; !ok {
			if _, ok := r.young[k]; !ok {
				r.young[k] = rows[i].Origin
			}
		}
	}
}
