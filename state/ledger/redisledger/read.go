package redisledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/ledger"
)

// The most that one script of a listing does.
const (
	look = 1000 // entries that it reads, about: all of a millisecond
	page = 100  // entries that it returns
)

// Find implements ledger.Log.
func (l *Ledger) Find(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for rest := es; len(rest) > 0; rest = rest[min(batch, len(rest)):] {
		if err := l.find(ctx, rest[:min(batch, len(rest))]); err != nil {
			return redisconn.Error(err, "find %d entries of ledger %q", len(es), l.name)
		}
	}
	return nil
}

func (l *Ledger) find(ctx context.Context, es []*ledger.Entry) error {
	keys := make([]string, len(es))
	for i, e := range es {
		keys[i] = e.Key
	}
	found, err := findScript.Exec(ctx, l.client, l.keys[:2], keys).ToArray()
	if err == nil && len(found) != 2*len(es) {
		err = errAnswer
	}
	if err != nil {
		return err
	}
	for i, e := range es {
		r, err := record(e.Key, found[2*i:2*i+2])
		if err != nil {
			return err
		}
		if r == nil {
			r = new(ledger.Record)
		}
		r.Show(e)
	}
	return nil
}

// place is between two entries of the order.
type place struct{ created, key string }

// bounds are where a listing begins, and the time that it ends at. None was created before 1970.
func bounds(f *ledger.Filter) (at place, end string) {
	since, after := f.Since()
	till, before := f.Till()
	if f.Back {
		return place{decimal(till), before}, decimal(max(since, 0))
	}
	return place{decimal(max(since, 0)), after}, decimal(till)
}

// Range implements ledger.Log, page by page.
func (l *Ledger) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		at, end := bounds(&f)
		for left := cmp.Or(max(f.Max, 0), math.MaxInt); left > 0; {
			es, next, err := l.page(ctx, &f, at, end, min(left, page))
			if err != nil {
				yield(nil, redisconn.Error(err, "list entries of ledger %q", l.name))
				return
			}
			for _, e := range es {
				if !yield(e, nil) {
					return
				}
			}
			if next.created == "" {
				return
			}
			left, at = left-len(es), next
		}
	}
}

// page reads up to most entries behind a place, and says where it ended: nowhere after the
// last.
func (l *Ledger) page(ctx context.Context, f *ledger.Filter, at place, end string, most int) ([]*ledger.Entry, place, error) {
	if err := ctx.Err(); err != nil {
		return nil, place{}, err
	}
	args := []string{at.created, at.key, end, strconv.Itoa(look), strconv.Itoa(most), f.Tenant, f.Type, strconv.Itoa(int(f.State)), flag(f.Back)}
	answer, err := pageScript.Exec(ctx, l.client, l.keys[:3], args).ToArray()
	if err == nil && (len(answer) < 2 || len(answer)%3 != 2) {
		err = errAnswer
	}
	if err != nil {
		return nil, place{}, err
	}
	var next place
	next.created, _ = answer[0].ToString()
	next.key, _ = answer[1].ToString()
	es := make([]*ledger.Entry, 0, len(answer)/3)
	for of := answer[2:]; len(of) > 0; of = of[3:] {
		key, err := of[0].ToString()
		if err != nil {
			return nil, place{}, err
		}
		r, err := record(key, of[1:3])
		if err != nil || r == nil {
			return nil, place{}, errors.Join(errAnswer, err)
		}
		es = append(es, &r.Entry)
	}
	return es, next, nil
}

// Expire implements ledger.Expirer.
func (l *Ledger) Expire(ctx context.Context, before time.Time, limit int) (int, error) {
	left := cmp.Or(max(limit, 0), ledger.DefaultExpire)
	for at, n := "0", 0; ; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		args := []string{at, decimal(wire.MillisUp(before)), strconv.Itoa(look), strconv.Itoa(min(left-n, look))}
		answer, err := expireScript.Exec(ctx, l.client, l.keys[:3], args).ToArray()
		if err == nil && len(answer) != 2 {
			err = errAnswer
		}
		if err != nil {
			return n, redisconn.Error(err, "expire entries of ledger %q", l.name)
		}
		removed, err := answer[0].AsInt64()
		if err != nil {
			return n, redisconn.Error(err, "expire entries of ledger %q", l.name)
		}
		n += int(removed)
		if at, err = answer[1].ToString(); err != nil {
			return n, redisconn.Error(err, "expire entries of ledger %q", l.name)
		}
		if n >= left || at == "" {
			return n, nil
		}
	}
}
