// Package redistable keeps tables in Redis, on one server or a cluster. It is as durable as that
// Redis: it needs an append-only file, and a failover may lose the last writes.
//
// A table is on one slot, that of its name:
//
//	{table:name}:spec      what it was made for
//	{table:name}:rows      key → version and fields (record.go)
//	{table:name}:by:order  the positions of all records in an order, as members that sort by
//	                       their bytes; by: alone is by key
//	{table:name}:counts    name → number
//	{table:name}:version   the newest version of a record, and so of the table
//	{table:name}:next      the newest number
//
// A transaction reads as it goes, and writes by one script at its end, which first compares the
// versions of all that was read: if one has changed, do is called again. A transaction of any
// length blocks Redis for its writes alone.
package redistable

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// Raw is the transaction behind a table: Redis has none for others.
type Raw struct{}

// Options tune a table; the zero value is ready to use.
type Options struct {
	Prefix string // before the names of its keys in Redis, to share one with other programs; without braces
}

// Store is a table.Store.
type Store[T any] struct {
	client rueidis.Client
	of     *layout.Layout[T]
	tag    string
	orders []string // names, "" first: by key
}

var (
	//go:embed read.lua
	readLua string
	//go:embed page.lua
	pageLua string
	//go:embed commit.lua
	commitLua string

	readScript   = rueidis.NewLuaScript(readLua)
	pageScript   = rueidis.NewLuaScript(pageLua)
	commitScript = rueidis.NewLuaScript(commitLua)
)

// New opens a table, and makes it if it does not exist.
func New[T any](ctx context.Context, client rueidis.Client, spec table.Spec[T], o Options) (*Store[T], error) {
	if client == nil {
		return nil, errors.New("a table in Redis needs a connection")
	}
	for _, c := range []byte(o.Prefix) {
		if c == '{' || c == '}' {
			return nil, fmt.Errorf("prefix %q of a table's keys: braces are for its own slot", o.Prefix)
		}
	}
	l, err := layout.Of(spec)
	if err != nil {
		return nil, err
	}
	s := &Store[T]{client: client, of: l, tag: "{" + o.Prefix + "table:" + l.Name + "}:", orders: []string{""}}
	for _, order := range l.Orders {
		s.orders = append(s.orders, order.Name)
	}
	err = client.Do(ctx, client.B().Set().Key(s.tag+"spec").Value(l.Signature()).Nx().Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, redisconn.Error(err, "open table %s", l.Name)
	}
	made, err := client.Do(ctx, client.B().Get().Key(s.tag+"spec").Build()).ToString()
	if err != nil {
		return nil, redisconn.Error(err, "open table %s", l.Name)
	}
	return s, l.CheckSignature(made)
}

// errMoved says that what was read has changed.
var errMoved = tidemill.Fail(tidemill.Transient, "other transactions changed what was read, each time")

// most is how often a transaction is begun that others get in the way of.
const most = 1000

// tries does a transaction until no other has changed what it read.
func (s *Store[T]) tries(ctx context.Context, view bool, do func(*tx[T]) error) (err error) {
	for range most {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := &tx[T]{s: s, ctx: ctx, view: view, read: map[string]*kept[T]{}, own: map[string]*T{}}
		if err = do(t); err == nil && !view {
			err = t.commit()
		}
		if t.moved {
			err = errMoved
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return fmt.Errorf("table %s: %w", s.of.Name, err)
}

// View implements table.Store. A view that reads several times is begun again where any of the
// table has changed between.
func (s *Store[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return s.tries(ctx, true, func(t *tx[T]) error { return do(t) })
}

// Update implements table.Store. A lost answer of its script is an error, and leaves unknown
// whether it was done.
func (s *Store[T]) Update(ctx context.Context, do func(table.Tx[T], Raw) error) error {
	return s.tries(ctx, false, func(t *tx[T]) error { return do(t, Raw{}) })
}

// Count implements table.Store. It reads the records that it counts.
func (s *Store[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	p, err := s.of.Counted(most, where)
	if err != nil {
		return 0, err
	}
	err = s.tries(ctx, true, func(t *tx[T]) error {
		page, err := t.page(p)
		n = len(page)
		return err
	})
	return n, err
}

// Counts implements table.Store.
func (s *Store[T]) Counts(ctx context.Context) (map[string]int, error) {
	found, err := s.client.Do(ctx, s.client.B().Hgetall().Key(s.tag+"counts").Build()).AsIntMap()
	if err != nil {
		return nil, redisconn.Error(err, "read the counters of table %s", s.of.Name)
	}
	counts := make(map[string]int, len(found))
	for name, n := range found {
		counts[name] = int(n)
	}
	return counts, nil
}

// Sweep implements table.Store.
func (s *Store[T]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return layout.Sweep(ctx, s.of, s, now, most)
}
