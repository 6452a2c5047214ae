// Package memoryledger keeps a ledger in memory: for tests, simulation and data that may be
// lost at a restart. It is the reference of the role's meaning.
package memoryledger

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	Now func() time.Time // the clock of leases; nil means time.Now. It must not block.
}

// Ledger is a ledger in memory. It grows until Expire is called.
type Ledger struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows, held for short work in memory only
	entries map[string]*ledger.Record
	token   uint64 // the newest given
}

var _ ledger.Store = (*Ledger)(nil)

// New makes an empty ledger.
func New(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Ledger{now: o.Now, entries: map[string]*ledger.Record{}}
}

// Begin implements ledger.Ledger.
func (l *Ledger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckBegin(es)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := ledger.Instant(l.now())
	opened := make(map[string]bool, len(es)) // in this call
	for _, e := range es {
		r := l.entries[e.Key]
		if r == nil {
			r = new(ledger.Record)
			l.entries[strings.Clone(e.Key)] = r // the zero record opens
		}
		how := ledger.Shut
		if !opened[e.Key] {
			how = r.Begin(e, o, l.token+1, now)
		}
		if how != ledger.Shut {
			opened[r.Key] = true
		}
		if how == ledger.Opened {
			l.token++
		}
		r.Answer(e, how)
	}
	return nil
}

// End implements ledger.Ledger.
func (l *Ledger) End(ctx context.Context, es []*ledger.Entry) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckEnd(es)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := ledger.Instant(l.now())
	for _, e := range es {
		r := l.entries[e.Key]
		if r == nil {
			r = new(ledger.Record)
		}
		if r.End(e, now) && r.State == ledger.Dropped {
			delete(l.entries, e.Key)
		}
	}
	return nil
}

// Find implements ledger.Log.
func (l *Ledger) Find(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range es {
		r := l.entries[e.Key]
		if r == nil {
			r = new(ledger.Record)
		}
		r.Show(e)
	}
	return nil
}

// Range implements ledger.Log: the entries that match when it begins.
func (l *Ledger) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		for _, r := range l.sorted(func(r *ledger.Record) bool { return f.Match(&r.Entry) }, f.Max) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			e := new(ledger.Entry)
			r.Show(e)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Expire implements ledger.Expirer.
func (l *Ledger) Expire(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	old := l.sorted(func(r *ledger.Record) bool { return r.Gone(before) }, cmp.Or(max(limit, 0), rules.DefaultExpire))
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, o := range old {
		if r := l.entries[o.Key]; r != nil && r.Gone(before) { // not begun again meanwhile
			delete(l.entries, o.Key)
			n++
		}
	}
	return n, nil
}

// sorted copies the chosen records, oldest first, at most limit if that is above zero.
func (l *Ledger) sorted(chosen func(*ledger.Record) bool, limit int) []ledger.Record {
	l.mu.Lock()
	var rs []ledger.Record
	for _, r := range l.entries {
		if chosen(r) {
			rs = append(rs, *r)
		}
	}
	l.mu.Unlock()
	slices.SortFunc(rs, func(a, b ledger.Record) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Key, b.Key))
	})
	if limit > 0 {
		rs = rs[:min(limit, len(rs))]
	}
	return rs
}
