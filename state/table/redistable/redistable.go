// Package redistable keeps tables in Redis, on one server or a cluster. It is as durable as that
// Redis: it needs an append-only file, and a failover may lose the last writes.
//
// The tables of a group are on one slot, and can take part in one transaction. A table that is
// given no group is one of its own, with its name.
//
//	{table:group}:name:spec      what it was made for (spec.go)
//	{table:group}:name:rows      key → version and fields (record.go)
//	{table:group}:name:by:order  the positions of all records in an order, as members that sort
//	                             by their bytes; by: alone is by key
//	{table:group}:name:counts    name → number
//	{table:group}:name:version   the newest version of a record, and so of the table
//	{table:group}:name:next      the newest number
//
// A transaction reads as it goes, and writes by one script at its end, which first compares the
// versions of all that was read, in all its tables: if one has changed, do is called again. One that
// fails and has read several times compares them too. A transaction of any length blocks Redis for its
// writes alone.
//
// A program with an older spec keeps the fields that it does not know, and the orders too: each
// commit says which spec it knows, and is made again with the newer one.
package redistable

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// Options tune a table; the zero value is ready to use.
type Options struct {
	Prefix string // before the names of its keys in Redis, to share one with other programs; without braces
	Group  string // tables of one group and prefix can take part in one transaction; written like the name of a table; empty: the table's own name
}

// Store is a table.Store.
type Store[T any] struct {
	client rueidis.Client
	of     *layout.Layout[T]
	group  string // with it begin the keys of all tables of its group
	tag    string // with it begin its own
	spec   atomic.Pointer[known[T]]
}

var (
	//go:embed read.lua
	readLua string
	//go:embed page.lua
	pageLua string
	//go:embed commit.lua
	commitLua string
	//go:embed spec.lua
	specLua string
	//go:embed fill.lua
	fillLua string

	readScript   = rueidis.NewLuaScript(readLua)
	pageScript   = rueidis.NewLuaScript(pageLua)
	commitScript = rueidis.NewLuaScript(commitLua)
	specScript   = rueidis.NewLuaScript(specLua)
	fillScript   = rueidis.NewLuaScript(fillLua)
)

// New opens a table, and makes it if it does not exist.
func New[T any](ctx context.Context, client rueidis.Client, spec table.Spec[T], o Options) (*Store[T], error) {
	if client == nil {
		return nil, errors.New("a table in Redis needs a connection")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("prefix %q of a table's keys: braces are for its own slot", o.Prefix)
	}
	l, err := layout.Of(spec)
	if err != nil {
		return nil, err
	}
	if o.Group == "" {
		o.Group = l.Name
	}
	if err := layout.CheckName("group", o.Group); err != nil {
		return nil, err
	}
	s := &Store[T]{client: client, of: l, group: "{" + o.Prefix + "table:" + o.Group + "}:"}
	s.tag = s.group + l.Name + ":"
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// In is the table in a transaction of another table of its group. Where it is of another group, or
// was opened with another connection, its verbs return an error, and the transaction changes
// nothing.
func (s *Store[T]) In(_ context.Context, raw *Tx) table.Tx[T] {
	if raw.client != s.client || raw.group != s.group {
		return layout.Refused[T]{Err: raw.refuse(fmt.Errorf("table %s is not of the group of the transaction, or of its connection", s.of.Name))}
	}
	if raw.tables[s.of.Name] == nil {
		raw.tables[s.of.Name] = newTx(s, raw)
	}
	t, ok := raw.tables[s.of.Name].(*tx[T])
	if !ok || t.s != s && t.s.of.Signature() != s.of.Signature() {
		return layout.Refused[T]{Err: raw.refuse(fmt.Errorf("table %s is in the transaction with another spec", s.of.Name))}
	}
	return t
}

// View implements table.Store. A view that reads several times is begun again where any of the
// table has changed between.
func (s *Store[T]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return s.view(ctx, func(t *tx[T]) error { return do(t) })
}

func (s *Store[T]) view(ctx context.Context, do func(*tx[T]) error) error {
	err := tries(ctx, func() *Tx { return &Tx{ctx: ctx, view: true} }, func(raw *Tx) error { return do(newTx(s, raw)) })
	return s.named(err)
}

// Update implements table.Store. A lost answer of its script is an error, and leaves unknown
// whether it was done.
func (s *Store[T]) Update(ctx context.Context, do func(table.Tx[T], *Tx) error) error {
	err := tries(ctx, func() *Tx { return &Tx{ctx: ctx, client: s.client, group: s.group, tables: map[string]part{}} }, func(raw *Tx) error {
		if err := do(s.In(ctx, raw), raw); err != nil {
			return raw.failed(err)
		}
		return raw.commit()
	})
	return s.named(err)
}

// named says whose transaction it is that others get in the way of.
func (s *Store[T]) named(err error) error {
	if errors.Is(err, errMoved) {
		return fmt.Errorf("table %s: %w", s.of.Name, err)
	}
	return err
}

// Count implements table.Store. It reads the records that it counts.
func (s *Store[T]) Count(ctx context.Context, most int, where ...table.Cond) (n int, err error) {
	p, err := s.of.Counted(most, where)
	if err != nil {
		return 0, err
	}
	err = s.view(ctx, func(t *tx[T]) error {
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
