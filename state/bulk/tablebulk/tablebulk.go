// Package tablebulk keeps operations in a table of any backend.
package tablebulk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is an operation, or which one is active in a scope.
type Record struct {
	key   string // "operation/" and its id, or "scope/", its kind and scope
	is    bulk.Operation
	state uint8 // place in states; of a scope: 0
	holds string

	progress []byte
	expires  time.Time
}

// states are in the order of their numbers, from 1 on.
var states = []bulk.State{bulk.Previewed, bulk.Scheduled, bulk.Running, bulk.Done, bulk.Stopped, bulk.Failed}

// Spec is what a record is.
func Spec() table.Spec[Record] {
	type r = Record
	at := func(name string, of func(*r) any) table.Field[r] { return table.Field[r]{Name: name, At: of} }
	return table.Spec[r]{Name: "operation", Fields: []table.Field[r]{
		at("key", func(r *r) any { return &r.key }),
		at("state", func(r *r) any { return &r.state }),
		at("made", func(r *r) any { return &r.is.Made }),
		at("expires", func(r *r) any { return &r.expires }),
		at("holds", func(r *r) any { return &r.holds }),
		at("kind", func(r *r) any { return &r.is.Kind }),
		at("scope", func(r *r) any { return &r.is.Scope }),
		at("systems", func(r *r) any { return &r.is.Systems }),
		at("filter", func(r *r) any { return &r.is.Filter }),
		at("instant", func(r *r) any { return &r.is.Instant }),
		at("asked_by", func(r *r) any { return &r.is.By }),
		at("rate", func(r *r) any { return (*int)(&r.is.Rate) }),
		at("most", func(r *r) any { return &r.is.Most }),
		at("total", func(r *r) any { return &r.is.Total }),
		at("at_least", func(r *r) any { return &r.is.AtLeast }),
		at("starts", func(r *r) any { return &r.is.Starts }),
		at("begun", func(r *r) any { return &r.is.Begun }),
		at("ended", func(r *r) any { return &r.is.Ended }),
		at("changed", func(r *r) any { return &r.is.Changed }),
		at("gone", func(r *r) any { return &r.is.Gone }),
		at("progress", func(r *r) any { return &r.progress }),
		at("place", func(r *r) any { return &r.is.Cursor }),
		at("slice_to", func(r *r) any { return &r.is.Slice.To }),
		at("slice", func(r *r) any { return &r.is.Slice.N }),
		at("waits", func(r *r) any { return &r.is.Waits }),
		at("why", func(r *r) any { return &r.is.Why }),
		at("stopped_by", func(r *r) any { return &r.is.StoppedBy }),
		at("owner", func(r *r) any { return &r.is.Owner }),
		at("until", func(r *r) any { return &r.is.Until }),
	}, Orders: []table.Order{{Name: "made", By: []string{"made"}}, {Name: "state", By: []string{"state", "made"}}, {Name: "expires", By: []string{"expires"}}}, Expires: "expires"}
}

const (
	prefix = "operation/"
	usual  = 1000 // operations of a list where nothing is said
)

// Store implements bulk.Store.
type Store[Raw any] struct{ t table.Store[Record, Raw] }

var _ bulk.Store = (*Store[any])(nil)

// New keeps operations in a table.
func New[Raw any](t table.Store[Record, Raw]) *Store[Raw] { return &Store[Raw]{t} }

// Memory keeps them in memory.
func Memory() *Store[*memorytable.Tx] { return New(memorytable.Alone(Spec())) }

// scopeOf is the key of what is active of an operation's kind and scope.
func scopeOf(o *bulk.Operation) string { return "scope/" + o.Kind + "/" + o.Scope }

// details are what no column has.
type details struct {
	Failed   map[string]int `json:"failed,omitempty"`
	Failures []bulk.Failure `json:"failures,omitempty"`
}

// recordOf is an operation as a record.
func recordOf(o *bulk.Operation) (*Record, error) {
	r := &Record{key: prefix + o.ID, is: *o, state: stateOf(o.State), expires: o.Expires()}
	if o.Failed == nil {
		return r, nil
	}
	var err error
	r.progress, err = json.Marshal(details{o.Failed, o.Failures})
	return r, err
}

func stateOf(s bulk.State) uint8 { return uint8(slices.Index(states, s) + 1) }

// operation is the operation of a record.
func (r *Record) operation() (*bulk.Operation, error) {
	o := r.is
	o.ID = r.key[len(prefix):]
	if r.state == 0 || int(r.state) > len(states) {
		return nil, fmt.Errorf("operation %s has a state that is unknown here: %d", o.ID, r.state)
	}
	o.State = states[r.state-1]
	if len(r.progress) > 0 {
		var d details
		if err := json.Unmarshal(r.progress, &d); err != nil {
			return nil, fmt.Errorf("operation %s: %w", o.ID, err)
		}
		o.Failed, o.Failures = d.Failed, d.Failures
	}
	return &o, nil
}

// Add implements bulk.Store.
func (s *Store[Raw]) Add(ctx context.Context, o *bulk.Operation) error {
	if n := len(scopeOf(o)); n > table.MaxKey || len(prefix+o.ID) > table.MaxKey {
		return fmt.Errorf("add operation %q: its id or its scope is too long", o.ID)
	}
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error { return put(tx, &bulk.Operation{}, o) })
	if err != nil {
		return fmt.Errorf("add operation %s: %w", o.ID, err)
	}
	return nil
}

// put writes an operation, and what is active in its scope.
func put(tx table.Tx[Record], was, is *bulk.Operation) error {
	r, err := recordOf(is)
	if err != nil {
		return err
	}
	rows := []*Record{r}
	key := scopeOf(is)
	switch {
	case is.Active() && !was.Active():
		found, err := tx.Get([]string{key})
		if err != nil {
			return err
		}
		if held := found[key]; held != nil && held.holds != "" {
			return fmt.Errorf("%w (operation %s)", bulk.ErrBusy, held.holds)
		}
		rows = append(rows, &Record{key: key, holds: is.ID})
	case was.Active() && !is.Active():
		if err := tx.Delete([]string{key}); err != nil {
			return err
		}
	}
	return tx.Put(rows)
}

// get reads an operation.
func get(from table.Reader[Record], id string) (*bulk.Operation, error) {
	key := prefix + id
	if len(key) > table.MaxKey {
		return nil, bulk.ErrNotFound
	}
	found, err := from.Get([]string{key})
	if err != nil {
		return nil, err
	}
	if found[key] == nil {
		return nil, bulk.ErrNotFound
	}
	return found[key].operation()
}

// Get implements bulk.Store.
func (s *Store[Raw]) Get(ctx context.Context, id string) (o *bulk.Operation, err error) {
	if err = s.t.View(ctx, func(from table.Reader[Record]) error {
		o, err = get(from, id)
		return err
	}); err != nil {
		return nil, fmt.Errorf("operation %q: %w", id, err)
	}
	return o, nil
}

// Change implements bulk.Store.
func (s *Store[Raw]) Change(ctx context.Context, id string, do func(*bulk.Operation) error) (o *bulk.Operation, err error) {
	if err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		if o, err = get(tx, id); err != nil {
			return err
		}
		was := *o
		if err := do(o); err != nil {
			return err
		}
		return put(tx, &was, o)
	}); err != nil {
		return nil, fmt.Errorf("operation %q: %w", id, err)
	}
	return o, nil
}

// List implements bulk.Store. Scopes were made at no time, and are before all.
func (s *Store[Raw]) List(ctx context.Context, f bulk.Filter) (all []*bulk.Operation, err error) {
	most := f.Max
	if most <= 0 {
		most = usual
	}
	q := table.Query[Record]{By: "made", Back: f.Back, Most: most, Where: []table.Cond{{Field: "made", Op: ">", Value: time.Time{}}}}
	queries := []table.Query[Record]{q}
	if len(f.States) > 0 {
		queries = nil
		for _, state := range f.States {
			of := q
			of.By, of.Where = "state", []table.Cond{{Field: "state", Op: "=", Value: stateOf(state)}}
			queries = append(queries, of)
		}
	}
	err = s.t.View(ctx, func(from table.Reader[Record]) error {
		all = nil
		for _, q := range queries {
			if f.After != nil {
				q.After = &Record{key: prefix + f.After.ID, is: bulk.Operation{Made: f.After.Made}}
				if q.By == "state" {
					q.After.state = q.Where[0].Value.(uint8)
				}
			}
			some, err := pages(from, q, f.Sees)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	slices.SortFunc(all, func(a, b *bulk.Operation) int { return order(a, b, f.Back) })
	return all[:min(len(all), most)], nil
}

// pages reads the operations of a query that are chosen, page by page until there are its Most.
func pages(from table.Reader[Record], q table.Query[Record], sees func(string) bool) (all []*bulk.Operation, err error) {
	for most := q.Most; len(all) < most; {
		page, err := from.Page(q)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if sees != nil && !sees(r.is.Systems) {
				continue
			}
			o, err := r.operation()
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
		if len(page) < q.Most {
			return all, nil
		}
		q.After = page[len(page)-1]
	}
	return all[:min(len(all), q.Most)], nil
}

// order compares operations as they are listed.
func order(a, b *bulk.Operation, back bool) int {
	c := cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID))
	if back {
		return -c
	}
	return c
}

// Sweep implements bulk.Store.
func (s *Store[Raw]) Sweep(ctx context.Context, now time.Time) (n int, err error) {
	const most = 500
	for {
		gone, err := s.t.Sweep(ctx, now, most)
		if n += gone; err != nil || gone < most {
			return n, err
		}
	}
}
