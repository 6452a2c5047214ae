package clickhousewarehouse

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Insert implements warehouse.Warehouse: the rows that are not known to be there are one
// INSERT. Rows of several months lie in several partitions, each of which is stored or
// not; a batch that failed between two is completed by its next try.
func (s *Store) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Took) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(took) != len(rows) {
		return fmt.Errorf("insert %d events: there is room for %d answers; took must be as long as rows", len(rows), len(took))
	}
	b := s.take()
	defer s.give(b)
	stamp := s.stamps(len(rows))
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
			b.add(e, stamp+int64(i))
		case origin == e.Origin:
			took[i] = warehouse.Again
		default:
			took[i] = warehouse.Duplicate
		}
	}
	if b.rows() == 0 {
		return nil
	}
	encoded, token, err := b.encode()
	if err == nil {
		err = s.conn.Insert(ctx, s.into, encoded, s.settings(token, b.months())...)
	}
	if err != nil {
		return fmt.Errorf("insert %d events: %w", b.rows(), err)
	}
	s.recent.put(b.seen)
	return nil
}

// partitions is how many an insert may have by the server's default.
const partitions = 100

// settings of an insert: it is answered when it is stored, and recognised when it comes
// again.
func (s *Store) settings(token string, months int64) []clickhousehttp.Arg {
	args := []clickhousehttp.Arg{
		clickhousehttp.Set("insert_deduplicate", "1"),
		clickhousehttp.Set("insert_deduplication_token", token),
	}
	if s.o.Async {
		args = append(args, clickhousehttp.Set("async_insert", "1"), clickhousehttp.Set("wait_for_async_insert", "1"))
	} else {
		args = append(args, clickhousehttp.Set("async_insert", "0"))
	}
	if months > partitions { // a rare import; the limit is there to find wrong partition keys
		args = append(args, clickhousehttp.Set("max_partitions_per_insert_block", "0"))
	}
	return args
}

// recent knows the origins of the events that were stored last: a full generation, and
// the one that is being filled.
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

// put notes a batch that is stored. An event that another batch stored meanwhile keeps
// its first origin.
func (r *recent) put(batch map[key]uint64) {
	if r.max == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young)+len(batch) > r.max {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
	for k, origin := range batch {
		if _, ok := r.old[k]; !ok {
			if _, ok := r.young[k]; !ok {
				r.young[k] = origin
			}
		}
	}
}
