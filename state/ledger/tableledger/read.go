package tableledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/table"
)

type reader = table.Reader[ledger.Record]

// Find implements ledger.Log.
func (l *Ledger[Raw]) Find(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	var found map[string]*ledger.Record
	err := l.t.View(ctx, func(r reader) (err error) {
		found, err = r.Get(keysOf(es))
		return err
	})
	if err != nil {
		return fmt.Errorf("find %d ledger entries: %w", len(es), err)
	}
	for _, e := range es {
		r := found[e.Key]
		if r == nil {
			r = new(ledger.Record)
		}
		r.Show(e)
	}
	return nil
}

const (
	listed  = 100   // entries that a listing reads at once, each page a snapshot
	expired = 1_000 // entries that Expire looks at at once
)

// Range implements ledger.Log, page by page.
func (l *Ledger[Raw]) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	q := query(&f)
	return func(yield func(*ledger.Entry, error) bool) {
		q := q // each listing begins anew
		for left := cmp.Or(max(f.Max, 0), math.MaxInt); left > 0; {
			q.Most = min(left, listed)
			page, err := l.page(ctx, q)
			if err != nil {
				yield(nil, fmt.Errorf("list ledger entries: %w", err))
				return
			}
			last := len(page) < q.Most
			if !last {
				end := page[len(page)-1]
				q.After = &ledger.Record{Entry: ledger.Entry{Key: end.Key, Created: end.Created}}
			}
			for _, r := range page {
				if !yield(&r.Entry, nil) {
					return
				}
			}
			if left -= len(page); last {
				return
			}
		}
	}
}

// query is a filter as the table has it.
func query(f *ledger.Filter) table.Query[ledger.Record] {
	q := table.Query[ledger.Record]{By: "created", Back: f.Back}
	position := func(milli int64, key string) *ledger.Record {
		return &ledger.Record{Entry: ledger.Entry{Key: key, Created: time.UnixMilli(milli)}}
	}
	since, after := f.Since()
	till, before := f.Till()
	switch {
	case f.From.IsZero():
	case f.Back:
		q.Where = append(q.Where, table.Cond{Field: "created", Op: ">=", Value: time.UnixMilli(since)})
	default:
		q.After = position(since, after)
	}
	switch {
	case f.To.IsZero():
	case before != "":
		q.After = position(till, before)
	default:
		q.Where = append(q.Where, table.Cond{Field: "created", Op: "<=", Value: f.To})
	}
	if f.Tenant != "" {
		q.Where = append(q.Where, table.Cond{Field: "tenant", Op: "=", Value: f.Tenant})
	}
	if f.Type != "" {
		q.Where = append(q.Where, table.Cond{Field: "type", Op: "=", Value: f.Type})
	}
	if f.State != 0 {
		q.Where = append(q.Where, table.Cond{Field: "state", Op: "=", Value: uint8(f.State)})
	}
	return q
}

func (l *Ledger[Raw]) page(ctx context.Context, q table.Query[ledger.Record]) (page []*ledger.Record, err error) {
	err = l.t.View(ctx, func(r reader) (err error) {
		page, err = r.Page(q)
		return err
	})
	return page, err
}

// Expire implements ledger.Expirer. What was created later cannot have ended before. It finds
// entries without a transaction, and looks again at those that it removes in one.
func (l *Ledger[Raw]) Expire(ctx context.Context, before time.Time, limit int) (n int, err error) {
	limit = cmp.Or(max(limit, 0), ledger.DefaultExpire)
	q := table.Query[ledger.Record]{By: "created", Most: expired, Only: []string{"created", "state", "until", "ended"},
		Where: []table.Cond{{Field: "created", Op: "<=", Value: before}}}
	for more := true; more && n < limit; {
		page, err := l.page(ctx, q)
		if err != nil {
			return n, fmt.Errorf("expire ledger entries: %w", err)
		}
		var old []string
		for _, r := range page {
			if q.After = r; r.Gone(before) && n+len(old) < limit {
				old = append(old, r.Key)
			}
		}
		removed, err := l.remove(ctx, old, before)
		if n += removed; err != nil {
			return n, fmt.Errorf("expire ledger entries: %w", err)
		}
		more = len(page) == expired
	}
	return n, nil
}

// remove removes those that are still gone.
func (l *Ledger[Raw]) remove(ctx context.Context, old []string, before time.Time) (n int, err error) {
	if len(old) == 0 {
		return 0, nil
	}
	err = l.t.Update(ctx, func(tx tx, _ Raw) error {
		found, err := tx.Get(old, "state", "until", "ended")
		if err != nil {
			return err
		}
		var gone []string
		for key, r := range found {
			if r.Gone(before) {
				gone = append(gone, key)
			}
		}
		n = len(gone)
		return tx.Delete(gone)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
