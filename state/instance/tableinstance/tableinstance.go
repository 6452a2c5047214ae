// Package tableinstance keeps instances in a table of any backend.
package tableinstance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is an instance.
type Record struct{ record }

// record is in it as one, so that the names of functions of the table, which have all fields in them, are short.
type record struct {
	id      string
	until   time.Time // when it is forgotten
	started time.Time
	seen    time.Time
	body    []byte // the rest of it, in JSON
}

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "instance", Fields: []table.Field[Record]{
		{Name: "id", At: func(r *Record) any { return &r.id }},
		{Name: "until", At: func(r *Record) any { return &r.until }},
		{Name: "started", At: func(r *Record) any { return &r.started }},
		{Name: "seen", At: func(r *Record) any { return &r.seen }},
		{Name: "body", At: func(r *Record) any { return &r.body }},
	}, Orders: []table.Order{{Name: "end", By: []string{"until"}}, {Name: "start", By: []string{"started"}}}, Expires: "until"}
}

// Store is an instance.Store.
type Store[Raw any] struct {
	t   table.Store[Record, Raw]
	now func() time.Time
}

var _ instance.Store = (*Store[any])(nil)

// New makes a store of a table. Instances that share it must agree about now: give them the clock of
// their server, or clocks that are right to a second. Nil: time.Now.
func New[Raw any](t table.Store[Record, Raw], now func() time.Time) *Store[Raw] {
	if now == nil {
		now = time.Now
	}
	return &Store[Raw]{t, now}
}

// Memory makes a store in memory.
func Memory(now func() time.Time) *Store[*memorytable.Tx] { return New(memorytable.Alone(Spec()), now) }

// Beat implements instance.Store.
func (s *Store[Raw]) Beat(ctx context.Context, i instance.Instance) error {
	if n := len(i.ID); n == 0 || n > 100 {
		return fmt.Errorf("an instance whose id has %d bytes: want 1 to 100", n)
	}
	body, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("say that instance %s is there: %w", i.ID, err)
	}
	now := s.now()
	err = s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		return tx.Put([]*Record{{record{id: i.ID, until: now.Add(instance.Kept), started: i.Started, seen: now, body: body}}})
	})
	if err != nil {
		return fmt.Errorf("say that instance %s is there: %w", i.ID, err)
	}
	return nil
}

// most is how many instances are listed.
const most = 1000

// List implements instance.Store.
func (s *Store[Raw]) List(ctx context.Context) (all []instance.Instance, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		all = nil
		page, err := tx.Page(table.Query[Record]{By: "start", Back: true, Most: most, Where: []table.Cond{{Field: "until", Op: ">", Value: s.now()}}})
		for _, r := range page {
			i := instance.Instance{}
			if err := json.Unmarshal(r.body, &i); err != nil {
				return fmt.Errorf("what instance %s said is damaged: %w", r.id, err)
			}
			i.ID, i.Seen = r.id, r.seen
			all = append(all, i)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return all, nil
}

// Sweep implements instance.Store.
func (s *Store[Raw]) Sweep(ctx context.Context) error {
	if _, err := s.t.Sweep(ctx, s.now(), most); err != nil {
		return fmt.Errorf("forget instances: %w", err)
	}
	return nil
}
