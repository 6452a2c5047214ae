package postgresledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// The order of locks: add waits for rows that another transaction has added or changed and
// not committed yet, in the order of keys, and holds only rows that no other sees. A
// transaction that locks existing rows waits only for those, in the same order.
const (
	// Existing rows are checked before anything is written for them.
	add = `WITH clock AS MATERIALIZED (SELECT date_trunc('milliseconds', coalesce($2::timestamptz, clock_timestamp())) AS now)
		INSERT INTO @tidemill_ledger(ledger, key, tenant, type, print, payload, created, state, holder, token, tries, started, until, call)
		SELECT $1, k.key, k.tenant, k.type, k.print, k.payload, c.now, 2, k.holder, nextval('@tidemill_ledger_token'), 1, c.now,
			c.now + $3::bigint * interval '1 millisecond', k.call
		FROM unnest($4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bigint[]) k(key, tenant, type, print, payload, holder, call), clock c
		ORDER BY k.key
		ON CONFLICT DO NOTHING
		RETURNING key, token, created, ctid`

	byKey = ` FROM (SELECT k FROM unnest($2::bytea[]) k ORDER BY k OFFSET 0) asked,
		LATERAL (SELECT * FROM @tidemill_ledger WHERE ledger = $1 AND key = asked.k `

	find = "SELECT " + columns + byKey + "OFFSET 0) found"

	lock = "SELECT " + columns + byKey + "FOR UPDATE) found"

	clock = `SELECT date_trunc('milliseconds', coalesce($1::timestamptz, clock_timestamp()))`

	tokens = `SELECT nextval('@tidemill_ledger_token') FROM generate_series(1, $1::integer)`

	// An upsert of existing rows: it finds each by its key, under any plan.
	again = `INSERT INTO @tidemill_ledger AS t (ledger, key, tenant, type, created, state, holder, token, tries, started, until, call, cut)
		SELECT $1, v.key, '', '', v.started, 2, v.holder, v.token, v.tries, v.started, v.until, v.call, v.cut
		FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::integer[], $6::timestamptz[], $7::timestamptz[], $8::bigint[], $9::boolean[])
			v(key, holder, token, tries, started, until, call, cut)
		ON CONFLICT (ledger, key) DO UPDATE SET state = excluded.state, holder = excluded.holder, token = excluded.token, tries = excluded.tries,
			started = excluded.started, until = excluded.until, call = excluded.call, cut = excluded.cut, ended = NULL
		RETURNING t.token, t.ctid`
)

// Begin implements ledger.Ledger: one statement where all is new.
func (l *Ledger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ledger.CheckBegin(es); err != nil {
		return err
	}
	opened := map[string]*ledger.Record{} // in this call
	for todo := es; len(todo) > 0; {
		one, rest := rules.Round(todo, batch)
		missed, err := l.begin(ctx, one, o, opened)
		if err != nil {
			return fmt.Errorf("begin %d entries of ledger %q: %w", len(es), l.o.Name, err)
		}
		todo = append(missed, rest...)
	}
	return nil
}

// begin begins entries of different keys. missed are entries whose row existed first and
// then did not.
func (l *Ledger) begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin, opened map[string]*ledger.Record) (missed []*ledger.Entry, err error) {
	var there []*ledger.Entry
	fresh := make([]*ledger.Entry, 0, len(es))
	for _, e := range es {
		if r := opened[e.Key]; r != nil { // given twice
			r.Answer(e, ledger.Shut)
			continue
		}
		fresh = append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	added, err := l.add(ctx, fresh, o)
	if err != nil {
		return nil, err
	}
	for _, e := range fresh {
		r := added[e.Key]
		if r == nil {
			there = append(there, e)
			continue
		}
		opened[e.Key] = r
		r.Answer(e, ledger.Opened)
	}
	if len(there) == 0 {
		return nil, nil
	}
	open, missed, err := l.look(ctx, there, o)
	if err != nil || len(open) == 0 {
		return missed, err
	}
	late, err := l.open(ctx, open, o, opened)
	return append(missed, late...), err
}

// add writes entries that do not exist, and returns them by key.
func (l *Ledger) add(ctx context.Context, es []*ledger.Entry, o ledger.Begin) (map[string]*ledger.Record, error) {
	byKey := make(map[string]*ledger.Entry, len(es))
	tenants, types, prints, payloads, holders := make([][]byte, len(es)), make([][]byte, len(es)), make([][]byte, len(es)), make([][]byte, len(es)), make([][]byte, len(es))
	calls := make([]int64, len(es))
	for i, e := range es {
		byKey[e.Key], calls[i] = e, int64(e.Call)
		tenants[i], types[i], prints[i], payloads[i], holders[i] = []byte(e.Tenant), []byte(e.Type), e.Print, e.Payload, []byte(e.Holder)
	}
	added, at := make(map[string]*ledger.Record, len(es)), make([]place, 0, len(es))
	err := l.db.Query(ctx, func(rows pgx.Rows) error {
		var key []byte
		var token int64
		var created time.Time
		var tid pgtype.TID
		if err := rows.Scan(&key, &token, &created, &tid); err != nil {
			return err
		}
		at = append(at, place{uint64(token), tid})
		e, r := byKey[string(key)], new(ledger.Record)
		r.Begin(e, o, uint64(token), created.UTC())
		added[e.Key] = r
		return nil
	}, l.db.Own(add), l.o.Name, l.now(), millis(o.Lasts()), keysOf(es), tenants, types, prints, payloads, holders, calls)
	if err == nil {
		l.places.keep(at)
	}
	return added, err
}

// millis rounds down, as leases everywhere end on a whole millisecond.
func millis(d time.Duration) int64 { return ledger.Instant(time.UnixMilli(0).Add(d)).UnixMilli() }

// look answers existing entries that cannot be opened, without a lock, and returns those
// that perhaps can.
func (l *Ledger) look(ctx context.Context, es []*ledger.Entry, o ledger.Begin) (open, missed []*ledger.Entry, err error) {
	var found map[string]*ledger.Record
	var now time.Time
	err = l.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
		b := &pgx.Batch{}
		b.Queue(clock, l.now()) // before the rows: so no renewed lease seems over
		b.Queue(l.db.Own(find), l.o.Name, keysOf(es))
		r := c.SendBatch(ctx, b)
		if err = r.QueryRow().Scan(&now); err == nil {
			found, err = records(r.Query())
		}
		if closed := r.Close(); err == nil {
			err = closed
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, e := range es {
		r := found[e.Key]
		switch {
		case r == nil:
			missed = append(missed, e)
		case (&ledger.Record{Entry: r.Entry, Until: r.Until}).Begin(e, o, 0, now.UTC()) == ledger.Shut:
			r.Answer(e, ledger.Shut)
		default:
			open = append(open, e)
		}
	}
	return open, missed, nil
}

// open opens existing entries, in a transaction.
func (l *Ledger) open(ctx context.Context, es []*ledger.Entry, o ledger.Begin, opened map[string]*ledger.Record) (missed []*ledger.Entry, err error) {
	var found map[string]*ledger.Record
	var at []place
	how := make([]ledger.Opening, len(es))
	err = l.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		rows, err := tx.Query(ctx, l.db.Own(lock), l.o.Name, keysOf(es))
		if found, err = records(rows, err); err != nil {
			return err
		}
		now, fencing, err := l.draw(ctx, tx, len(found))
		if err != nil {
			return err
		}
		var begun []*ledger.Record
		for i, e := range es {
			r := found[e.Key]
			if r == nil {
				continue
			}
			if how[i] = r.Begin(e, o, fencing[len(begun)], now); how[i] != ledger.Shut {
				begun = append(begun, r)
			}
		}
		at, err = l.again(ctx, tx, begun)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.places.keep(at)
	for i, e := range es {
		r := found[e.Key]
		if r == nil {
			missed = append(missed, e)
			continue
		}
		if how[i] != ledger.Shut {
			opened[e.Key] = r
		}
		r.Answer(e, how[i])
	}
	return missed, nil
}

// draw reads the clock and takes tokens, once all rows are locked: so tokens grow for each
// key.
func (l *Ledger) draw(ctx context.Context, tx pgx.Tx, n int) (now time.Time, fencing []uint64, err error) {
	b := &pgx.Batch{}
	b.Queue(clock, l.now())
	b.Queue(l.db.Own(tokens), n)
	r := tx.SendBatch(ctx, b)
	if err = r.QueryRow().Scan(&now); err == nil {
		rows, failed := r.Query()
		err = postgresdb.Each(rows, failed, func(rows pgx.Rows) error {
			var token int64
			err := rows.Scan(&token)
			fencing = append(fencing, uint64(token))
			return err
		})
	}
	if closed := r.Close(); err == nil {
		err = closed
	}
	return now.UTC(), fencing, err
}

// again writes reopened records, and returns their places.
func (l *Ledger) again(ctx context.Context, tx pgx.Tx, begun []*ledger.Record) (at []place, err error) {
	if len(begun) == 0 {
		return nil, nil
	}
	n := len(begun)
	keys, holders, fencing, tries := make([][]byte, n), make([][]byte, n), make([]int64, n), make([]int32, n)
	started, until, calls, cut := make([]time.Time, n), make([]time.Time, n), make([]int64, n), make([]bool, n)
	for i, r := range begun {
		keys[i], holders[i], fencing[i], tries[i] = []byte(r.Key), []byte(r.Holder), int64(r.Token), int32(r.Tries)
		started[i], until[i], calls[i], cut[i] = r.Started, r.Until, int64(r.Call), r.Cut
	}
	rows, err := tx.Query(ctx, l.db.Own(again), l.o.Name, keys, holders, fencing, tries, started, until, calls, cut)
	return at, postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		var token int64
		var tid pgtype.TID
		err := rows.Scan(&token, &tid)
		at = append(at, place{uint64(token), tid})
		return err
	})
}
