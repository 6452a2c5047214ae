package postgresledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/ledger"
)

const (
	page  = 100  // entries read at once, each page a snapshot
	reach = 5000 // entries searched for a page

	// Expired entries are found in order of creation, without a lock, and locked in the
	// order of keys like everything else. SKIP LOCKED leaves rows in use for the next time,
	// but may still wait for a row that is being changed.
	isOver = "created < $3 AND (state IN (3, 5) AND ended < $3 OR state = 2 AND until < $3)"

	findOver = `SELECT array_agg(key) FROM (SELECT key FROM @tidemill_ledger WHERE ledger || '' = $1 AND ` + isOver + `
		ORDER BY created, key LIMIT $2) over`

	lockOver = "SELECT array_agg(key)" + byKey + "AND " + isOver + " FOR UPDATE SKIP LOCKED) found"

	// Another statement than the one that locked them: it sees them as they were locked.
	remove = `DELETE FROM @tidemill_ledger WHERE ctid = ANY (ARRAY (SELECT place FROM unnest($2::bytea[]) k,
		LATERAL (SELECT ctid AS place FROM @tidemill_ledger WHERE ledger = $1 AND key = k OFFSET 0) found))`
)

var (
	list     = listing(">", "<=", "")
	listBack = listing("<", ">=", " DESC")
)

// listing is the statement of a page, behind a place and up to a time. The last entry that was
// read is returned too, even if it does not match: the next page begins behind it.
func listing(behind, until, direction string) string {
	order := " ORDER BY created" + direction + ", key" + direction
	return "SELECT " + columns + `, chosen FROM (
			SELECT *, ($5::bytea = '' OR tenant = $5) AND ($6::bytea = '' OR type = $6) AND ($7::smallint = 0 OR state = $7) AS chosen,
				lead(created) OVER (` + order + `) IS NULL AS last
			FROM (SELECT * FROM @tidemill_ledger WHERE ledger || '' = $1 AND (created, key) ` + behind + ` ($2::timestamptz, $3::bytea) AND created ` + until + ` $4::timestamptz` +
		order + ` LIMIT $8) seen) judged
		WHERE chosen OR last` + order + ` LIMIT $9`
}

// Find implements ledger.Log.
func (l *Ledger) Find(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	var found map[string]*ledger.Record
	err := l.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
		found, err = records(c.Query(ctx, l.db.Own(find), l.o.Name, keysOf(es)))
		return err
	})
	if err != nil {
		return fmt.Errorf("find %d entries of ledger %q: %w", len(es), l.o.Name, err)
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

// The bounds of all creation times: PostgreSQL's times do not reach as far as Go's.
const first, last = 0, 253402300799999 // 1970, and the end of the year 9999

// Range implements ledger.Log, page by page.
func (l *Ledger) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		statement, at, key, till := bounds(&f)
		for left := cmp.Or(max(f.Max, 0), math.MaxInt); left > 0; {
			seen, err := l.page(ctx, statement, l.o.Name, at, key, till, []byte(f.Tenant), []byte(f.Type), int16(f.State), reach, min(left, page))
			if err != nil {
				yield(nil, fmt.Errorf("list entries of ledger %q: %w", l.o.Name, err))
				return
			}
			if len(seen) == 0 {
				return
			}
			end := seen[len(seen)-1]
			at, key = end.Created, []byte(end.Key)
			for _, r := range seen {
				if !r.chosen {
					continue
				}
				if left--; !yield(&r.Entry, nil) {
					return
				}
			}
		}
	}
}

// bounds are where a listing begins, and the time that it ends at.
func bounds(f *ledger.Filter) (statement string, at time.Time, key []byte, till time.Time) {
	from, after := f.Since()
	to, before := f.Till()
	from, to = min(max(from, first), last), min(max(to, first-1), last)
	switch {
	case !f.Back:
		return list, time.UnixMilli(from), []byte(after), time.UnixMilli(to)
	case before == "": // before the first key of the next millisecond
		to++
	}
	return listBack, time.UnixMilli(to), []byte(before), time.UnixMilli(from)
}

// listed is a row of a listing.
type listed struct {
	*ledger.Record
	chosen bool
}

// page reads a page by a listing and its arguments.
func (l *Ledger) page(ctx context.Context, statement string, args ...any) (seen []listed, err error) {
	err = l.db.Query(ctx, func(rows pgx.Rows) error {
		r := listed{}
		var err error
		r.Record, err = scan(rows, &r.chosen)
		seen = append(seen, r)
		return err
	}, l.db.Own(statement), args...)
	return seen, err
}

// Expire implements ledger.Expirer.
func (l *Ledger) Expire(ctx context.Context, before time.Time, limit int) (int, error) {
	var n int64
	b := time.UnixMilli(wire.MillisUp(before))
	err := l.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var keys [][]byte
		if err := tx.QueryRow(ctx, l.db.Own(findOver), l.o.Name, cmp.Or(max(limit, 0), ledger.DefaultExpire), b).Scan(&keys); err != nil || len(keys) == 0 {
			return err
		}
		if err := tx.QueryRow(ctx, l.db.Own(lockOver), l.o.Name, keys, b).Scan(&keys); err != nil || len(keys) == 0 {
			return err
		}
		tag, err := tx.Exec(ctx, l.db.Own(remove), l.o.Name, keys)
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expire entries of ledger %q: %w", l.o.Name, err)
	}
	return int(n), nil
}
