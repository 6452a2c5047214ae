// Package tableledger keeps a ledger in any table: in memory, the embedded SQLite file,
// PostgreSQL or Redis. Its rules are package ledger's, its storage package table's.
//
//	t, err := sqlitetable.New(ctx, db, tableledger.Spec("synclog"))
//	…
//	l := tableledger.New(t, tableledger.Options{})
//
// A ledger is the table ledger_ and its name, with a column for each field of an entry, which
// other programs may read by SQL.
package tableledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Spec is the table of the ledger of that name, a-z, 0-9 and _, at most 25: each has its own keys
// and its own time to keep them. Empty is a name too.
func Spec(name string) table.Spec[ledger.Record] {
	type r = ledger.Record
	full := "ledger"
	if name != "" {
		full += "_" + name
	}
	return table.Spec[r]{Name: full, Fields: []table.Field[r]{
		{Name: "key", At: func(r *r) any { return &r.Key }},
		{Name: "tenant", At: func(r *r) any { return &r.Tenant }},
		{Name: "type", At: func(r *r) any { return &r.Type }},
		{Name: "state", At: func(r *r) any { return (*uint8)(&r.State) }}, // 2 running, 3 done, 4 held, 5 failed
		{Name: "created", At: func(r *r) any { return &r.Created }},
		{Name: "started", At: func(r *r) any { return &r.Started }},
		{Name: "ended", At: func(r *r) any { return &r.Ended }},
		{Name: "tries", At: func(r *r) any { return &r.Tries }},
		{Name: "result", At: func(r *r) any { return &r.Result }},
		{Name: "err", At: func(r *r) any { return &r.Err }},
		{Name: "payload", At: func(r *r) any { return &r.Payload }},
		{Name: "print", At: func(r *r) any { return &r.Print }},
		{Name: "holder", At: func(r *r) any { return &r.Holder }},
		{Name: "until", At: func(r *r) any { return &r.Until }},
		{Name: "token", At: func(r *r) any { return &r.Token }},
		{Name: "call", At: func(r *r) any { return &r.Call }},
		{Name: "cut", At: func(r *r) any { return &r.Cut }},
	}, Orders: []table.Order{{Name: "created", By: []string{"created"}}}}
}

// The fields that a Begin of an entry that exists changes, those that an End reads, and those
// that it changes.
var (
	reopened = []string{"state", "started", "ended", "tries", "holder", "until", "token", "call", "cut"}
	ending   = []string{"state", "ended", "token"}
	ended    = []string{"state", "ended", "result", "err"}
)

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	// Now is the clock of leases. Nil means time.Now: where several processes share a ledger,
	// give them all the same clock, that of the server. It must not block.
	Now func() time.Time
}

// Ledger implements ledger.Store, and ledger.Transactor.
type Ledger[Raw any] struct {
	t   table.Store[ledger.Record, Raw]
	now func() time.Time
}

var (
	_ ledger.Store                       = (*Ledger[*memorytable.Tx])(nil)
	_ ledger.Transactor[*memorytable.Tx] = (*Ledger[*memorytable.Tx])(nil)
)

// New makes a ledger of a table that was made by Spec.
func New[Raw any](t table.Store[ledger.Record, Raw], o Options) *Ledger[Raw] {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Ledger[Raw]{t, o.Now}
}

// Memory makes an empty ledger in memory: for tests, simulation and what may be lost at a restart.
func Memory(o Options) *Ledger[*memorytable.Tx] {
	return New(memorytable.Alone(Spec("")), o)
}

type tx = table.Tx[ledger.Record]

func keysOf(es []*ledger.Entry) []string {
	keys := make([]string, len(es))
	for i, e := range es {
		keys[i] = e.Key
	}
	return keys
}

// begun is what a Begin has done, by the places of its entries.
type begun struct {
	records []*ledger.Record
	how     []ledger.Opening
}

// Begin implements ledger.Ledger.
func (l *Ledger[Raw]) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckBegin(es)); err != nil || len(es) == 0 {
		return err
	}
	var b begun
	err := l.t.Update(ctx, func(tx tx, _ Raw) (err error) {
		b, err = l.begin(tx, es, o)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin %d ledger entries: %w", len(es), err)
	}
	for i, e := range es {
		b.records[i].Answer(e, b.how[i])
	}
	return nil
}

func (l *Ledger[Raw]) begin(tx tx, es []*ledger.Entry, o ledger.Begin) (b begun, err error) {
	found, err := tx.Get(keysOf(es))
	if err != nil {
		return b, err
	}
	now := ledger.Instant(l.now())
	b = begun{make([]*ledger.Record, len(es)), make([]ledger.Opening, len(es))}
	mine := make(map[string]bool, len(es)) // opened in this call
	var fresh, again, without []*ledger.Record
	for i, e := range es {
		r := found[e.Key]
		if r == nil {
			r = new(ledger.Record) // the zero record opens
			found[e.Key] = r
		}
		b.records[i] = r
		isNew := r.State == 0
		if !mine[e.Key] {
			b.how[i] = r.Begin(e, o, 0, now)
		}
		if b.how[i] == ledger.Shut {
			as := *r // it is now; a later one of the same key may open it
			b.records[i] = &as
			continue
		}
		mine[e.Key] = true
		if isNew {
			fresh = append(fresh, r)
		} else {
			again = append(again, r)
		}
		if r.Token == 0 {
			without = append(without, r)
		}
	}
	if err := number(tx, without); err != nil {
		return b, err
	}
	return b, errors.Join(put(tx, fresh), put(tx, again, reopened...))
}

// number gives records tokens, growing in their order.
func number(tx tx, rs []*ledger.Record) error {
	for some := range slices.Chunk(rs, table.MaxNext) {
		newest, err := tx.Next(len(some))
		if err != nil {
			return err
		}
		for i, r := range some {
			r.Token = newest - uint64(len(some)-1-i)
		}
	}
	return nil
}

func put(tx tx, rs []*ledger.Record, only ...string) error {
	if len(rs) == 0 {
		return nil
	}
	return tx.Put(rs, only...)
}

// End implements ledger.Ledger.
func (l *Ledger[Raw]) End(ctx context.Context, es []*ledger.Entry) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckEnd(es)); err != nil || len(es) == 0 {
		return err
	}
	var as []ledger.Entry
	err := l.t.Update(ctx, func(tx tx, _ Raw) error {
		as = copies(es)
		found, err := tx.Get(keysOf(es), ending...)
		if err != nil {
			return err
		}
		return l.end(tx, as, found)
	})
	if err != nil {
		return fmt.Errorf("end %d ledger entries: %w", len(es), err)
	}
	told(es, as)
	return nil
}

// end ends entries by their records, and writes what changed.
func (l *Ledger[Raw]) end(tx tx, es []ledger.Entry, found map[string]*ledger.Record) error {
	now := ledger.Instant(l.now())
	changed, gone := make([]*ledger.Record, 0, len(es)), []string(nil)
	for i := range es {
		r := found[es[i].Key]
		if r == nil {
			r = new(ledger.Record)
		}
		switch {
		case !r.End(&es[i], now):
		case r.State == ledger.Dropped:
			gone = append(gone, r.Key)
		default:
			changed = append(changed, r)
		}
	}
	if err := put(tx, changed, ended...); err != nil || len(gone) == 0 {
		return err
	}
	return tx.Delete(gone)
}

// copies are entries to work on until they are known to be written.
func copies(es []*ledger.Entry) []ledger.Entry {
	as := make([]ledger.Entry, len(es))
	for i, e := range es {
		as[i] = *e
	}
	return as
}

func told(es []*ledger.Entry, as []ledger.Entry) {
	for i, e := range es {
		e.Stale, e.Ended = as[i].Stale, as[i].Ended
	}
}

// Within implements ledger.Transactor, in a transaction of the table's database. do is called
// again where others get in the way of the transaction, with the entries as they were given; and
// must not use this ledger: it waits for do.
func (l *Ledger[Raw]) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, Raw) error) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	given := copies(es)
	as := given
	err := l.t.Update(ctx, func(tx tx, raw Raw) error {
		for i, e := range es {
			*e = given[i]
		}
		as = copies(es)
		found, err := tx.Get(keysOf(es), ending...)
		if err != nil {
			return err
		}
		records := make([]*ledger.Record, len(es))
		for i, e := range es {
			records[i] = found[e.Key]
		}
		if before, err := ledger.Admit(as, records); err != nil || before {
			return err
		}
		if err := do(ctx, raw); err != nil {
			return err
		}
		if err := ledger.CheckEnd(es); err != nil {
			return err
		}
		as = copies(es) // do has said how they end
		return l.end(tx, as, found)
	})
	told(es, as)
	if err != nil {
		return fmt.Errorf("end %d ledger entries with their effects: %w", len(es), err)
	}
	return nil
}
