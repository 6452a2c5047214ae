package sqliteledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

const (
	lookupKeys = 256 // of one statement at most
	rangePage  = 100 // entries read at once, each page a snapshot
	columns    = "id, key, tenant, type, payload, print, created, state, holder, token, tries, started, until, ended, result, err, call, cut"
)

// lookup finds the stored entries of these keys.
func (l *Ledger) lookup(tx *sqlitedb.Tx, es []*ledger.Entry) (map[string]*stored, error) {
	found := make(map[string]*stored, len(es))
	err := l.byKey(tx, columns, es, func(rows *sql.Rows) error {
		r, err := scan(rows)
		if err == nil {
			found[r.Key] = r
		}
		return err
	})
	return found, err
}

// lookupState is lookup for End, which needs neither payload nor result.
func (l *Ledger) lookupState(tx *sqlitedb.Tx, es []*ledger.Entry) (map[string]*stored, error) {
	found := make(map[string]*stored, len(es))
	err := l.byKey(tx, "id, key, token, state, ended", es, func(rows *sql.Rows) error {
		r := new(stored)
		var ended int64
		if err := rows.Scan(&r.id, &r.Key, &r.Token, &r.State, &ended); err != nil {
			return err
		}
		r.Ended = instant(ended)
		found[r.Key] = r
		return nil
	})
	return found, err
}

// byKey selects columns of the entries of these keys, by few statements of few lengths:
// the last key fills up the rest.
func (l *Ledger) byKey(tx *sqlitedb.Tx, columns string, es []*ledger.Entry, row func(*sql.Rows) error) error {
	for len(es) > 0 {
		n := 1
		for n < min(len(es), lookupKeys) {
			n *= 4
		}
		args := make([]any, n)
		for i := range args {
			args[i] = []byte(es[min(i, len(es)-1)].Key)
		}
		if err := each(tx, fmt.Sprintf(l.sql.lookup, columns)+strings.Repeat(",?", n-1)+")", args, row); err != nil {
			return fmt.Errorf("look up entries: %w", err)
		}
		es = es[min(n, len(es)):]
	}
	return nil
}

// each calls row for every row of a query.
func each(tx *sqlitedb.Tx, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func scan(rows *sql.Rows) (*stored, error) {
	r := new(stored)
	var created, started, until, ended, call int64
	err := rows.Scan(&r.id, &r.Key, &r.Tenant, &r.Type, &r.Payload, &r.Print, &created, &r.State, &r.Holder, &r.Token, &r.Tries,
		&started, &until, &ended, &r.Result, &r.Err, &call, &r.Cut)
	r.Call = uint64(call) // the bits
	r.Created, r.Started, r.Until, r.Ended = instant(created), instant(started), instant(until), instant(ended)
	return r, err
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Find implements ledger.Log.
func (l *Ledger) Find(ctx context.Context, es []*ledger.Entry) error {
	var found map[string]*stored
	err := l.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		found, err = l.lookup(tx, es)
		return err
	})
	if err != nil {
		return fmt.Errorf("find %d ledger entries: %w", len(es), err)
	}
	for _, e := range es {
		r := found[e.Key]
		if r == nil {
			r = new(stored)
		}
		r.Show(e)
	}
	return nil
}

// Range implements ledger.Log, page by page.
func (l *Ledger) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	where, chosen := "(created, key) > (?, ?) AND created <= ?", []any(nil)
	if f.Tenant != "" {
		where, chosen = where+" AND tenant = ?", append(chosen, []byte(f.Tenant))
	}
	if f.Type != "" {
		where, chosen = where+" AND type = ?", append(chosen, []byte(f.Type))
	}
	if f.State != 0 {
		where, chosen = where+" AND state = ?", append(chosen, uint8(f.State))
	}
	query := l.sql.page + where + " ORDER BY created, key LIMIT ?"
	return func(yield func(*ledger.Entry, error) bool) {
		since, after := f.Since()
		key, to := append([]byte{}, after...), f.Till() // no key is empty
		for left := cmp.Or(max(f.Max, 0), math.MaxInt); left > 0; {
			var page []*stored
			err := l.db.Read(ctx, func(tx *sqlitedb.Tx) error {
				args := append(append([]any{since, key, to}, chosen...), min(left, rangePage))
				return each(tx, query, args, func(rows *sql.Rows) error {
					r, err := scan(rows)
					page = append(page, r)
					return err
				})
			})
			if err != nil {
				yield(nil, fmt.Errorf("list ledger entries: %w", err))
				return
			}
			for _, r := range page {
				if !yield(&r.Entry, nil) {
					return
				}
			}
			if len(page) < min(left, rangePage) {
				return
			}
			left -= len(page)
			end := page[len(page)-1]
			since, key = end.Created.UnixMilli(), []byte(end.Key)
		}
	}
}

// Expire implements ledger.Expirer. A later entry cannot have ended before.
func (l *Ledger) Expire(ctx context.Context, before time.Time, limit int) (int, error) {
	var n int64
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
		b := wire.MillisUp(before)
		n, err = tx.Exec(l.sql.expire, b, uint8(ledger.Done), uint8(ledger.Failed), b, uint8(ledger.Running), b, cmp.Or(max(limit, 0), rules.DefaultExpire))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expire ledger entries: %w", err)
	}
	return int(n), nil
}
