package postgresledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// The statement locks rows in the order of keys, one after the other, and writes them.
// Their places are looked up by key before, or known since they were begun. Another
// transaction may have changed them meanwhile, so the locked row is checked for its holder
// and for not being Done, which is 3.
const (
	writeEnds = `UPDATE @tidemill_ledger t SET state = v.state, result = v.result, err = v.err,
			ended = (SELECT date_trunc('milliseconds', coalesce($7::timestamptz, clock_timestamp())))
		FROM `

	write = writeEnds + `(SELECT v.*, found.place FROM (SELECT * FROM unnest($2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[]) v(key, token, state, result, err)
				ORDER BY key OFFSET 0) v,
			LATERAL (SELECT ctid AS place FROM @tidemill_ledger WHERE ledger = $1 AND key = v.key OFFSET 0) found OFFSET 0) v
		WHERE t.ctid = v.place AND t.token = v.token AND t.state <> 3
		RETURNING t.key, t.ended`

	// A condition that does not use places is written so that no index seems useful, as every
	// index does while the table is empty.
	writeThere = writeEnds + `(SELECT * FROM unnest($2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[], $8::tid[]) v(key, token, state, result, err, place)
				ORDER BY key OFFSET 0) v
		WHERE t.ctid = v.place AND t.ledger IS NOT DISTINCT FROM $1 AND t.key IS NOT DISTINCT FROM v.key AND t.token = v.token AND t.state <> 3
		RETURNING t.key, t.ended`

	drop = `DELETE FROM @tidemill_ledger WHERE ledger = $1 AND key = $2 AND token = $3 AND state <> 3
		RETURNING date_trunc('milliseconds', coalesce($4::timestamptz, clock_timestamp()))`

	lockEnds = "SELECT key, token, state, ended" + byKey + "FOR UPDATE) found"

	findEnds = "SELECT key, token, state, ended" + byKey + "OFFSET 0) found"
)

// End implements ledger.Ledger: one statement where nothing is stale.
func (l *Ledger) End(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ledger.CheckEnd(es); err != nil || len(es) == 0 {
		return err
	}
	err := l.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) error { return l.end(ctx, c, es) })
	if err != nil {
		return fmt.Errorf("end %d entries of ledger %q: %w", len(es), l.o.Name, err)
	}
	return nil
}

// end ends entries, those of one key one after the other.
func (l *Ledger) end(ctx context.Context, q querier, es []*ledger.Entry) error {
	for todo := es; len(todo) > 0; {
		one, rest := rules.Round(todo, batch)
		var ends, drops []*ledger.Entry
		for _, e := range one {
			if e.State == ledger.Dropped {
				drops = append(drops, e)
			} else {
				ends = append(ends, e)
			}
		}
		missed, err := l.write(ctx, q, ends)
		if err != nil {
			return err
		}
		more, err := l.drop(ctx, q, drops)
		if err != nil {
			return err
		}
		todo = append(append(missed, more...), rest...)
	}
	return nil
}

// write changes the rows of entries of different keys. missed are entries that are not
// where they were begun.
func (l *Ledger) write(ctx context.Context, q querier, es []*ledger.Entry) (missed []*ledger.Entry, err error) {
	var there, others []*ledger.Entry
	var at []pgtype.TID
	for _, e := range es {
		if tid, ok := l.places.take(e.Token); ok {
			there, at = append(there, e), append(at, tid)
		} else {
			others = append(others, e)
		}
	}
	for _, part := range []struct {
		es        []*ledger.Entry
		statement string
		more      []any
	}{{there, writeThere, []any{at}}, {others, write, nil}} {
		if len(part.es) == 0 {
			continue
		}
		ended, err := l.writeBy(ctx, q, part.statement, part.es, part.more...)
		if err != nil {
			return nil, err
		}
		more, err := l.judge(ctx, q, part.es, ended)
		if err != nil {
			return nil, err
		}
		missed = append(missed, more...)
	}
	return missed, nil
}

// writeBy changes rows by a statement, and returns them and when they ended.
func (l *Ledger) writeBy(ctx context.Context, q querier, statement string, es []*ledger.Entry, more ...any) (map[string]time.Time, error) {
	fencing, states, results, causes := make([]int64, len(es)), make([]int16, len(es)), make([][]byte, len(es)), make([][]byte, len(es))
	for i, e := range es {
		fencing[i], states[i], results[i], causes[i] = int64(e.Token), int16(e.State), e.Result, []byte(ledger.Cause(e.Err))
	}
	ended := make(map[string]time.Time, len(es))
	rows, err := q.Query(ctx, l.db.Own(statement), append([]any{l.o.Name, keysOf(es), fencing, states, results, causes, l.now()}, more...)...)
	return ended, postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		var key []byte
		var at time.Time
		err := rows.Scan(&key, &at)
		ended[string(key)] = at.UTC()
		return err
	})
}

// drop removes the rows of entries of different keys. These are few, so it uses one
// statement for each, all in one round trip and in the order of keys.
func (l *Ledger) drop(ctx context.Context, q querier, es []*ledger.Entry) (missed []*ledger.Entry, err error) {
	if len(es) == 0 {
		return nil, nil
	}
	sorted := slices.SortedFunc(slices.Values(es), func(a, b *ledger.Entry) int { return strings.Compare(a.Key, b.Key) })
	b, ended := &pgx.Batch{}, make(map[string]time.Time, len(es))
	for _, e := range sorted {
		b.Queue(l.db.Own(drop), l.o.Name, []byte(e.Key), int64(e.Token), l.now()).Query(func(rows pgx.Rows) error {
			return postgresdb.Each(rows, nil, func(rows pgx.Rows) error {
				var at time.Time
				err := rows.Scan(&at)
				ended[e.Key] = at.UTC()
				return err
			})
		})
	}
	if err := q.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return l.judge(ctx, q, es, ended)
}

// judge sets the written entries, and reads the others; missed are those that could be
// written by now.
func (l *Ledger) judge(ctx context.Context, q querier, es []*ledger.Entry, ended map[string]time.Time) (missed []*ledger.Entry, err error) {
	var others []*ledger.Entry
	for _, e := range es {
		at, ok := ended[e.Key]
		if !ok {
			others = append(others, e)
			continue
		}
		e.Stale, e.Ended = false, at
	}
	if len(others) == 0 {
		return nil, nil
	}
	found, err := l.ends(ctx, q, findEnds, others)
	if err != nil {
		return nil, err
	}
	for _, e := range others {
		r := found[e.Key]
		if r == nil {
			r = new(ledger.Record)
		}
		if r.End(e, time.Time{}) {
			missed = append(missed, e)
		}
	}
	return missed, nil
}

// ends reads how entries ended, by key.
func (l *Ledger) ends(ctx context.Context, q querier, statement string, es []*ledger.Entry) (map[string]*ledger.Record, error) {
	found := make(map[string]*ledger.Record, len(es))
	rows, err := q.Query(ctx, l.db.Own(statement), l.o.Name, keysOf(es))
	return found, postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		var key []byte
		var token int64
		var state int16
		var ended *time.Time
		if err := rows.Scan(&key, &token, &state, &ended); err != nil {
			return err
		}
		r := &ledger.Record{Entry: ledger.Entry{Key: string(key), Token: uint64(token), State: ledger.State(state)}}
		if ended != nil {
			r.Ended = ended.UTC()
		}
		found[r.Key] = r
		return nil
	})
}

// Within implements ledger.Transactor: the transaction is READ COMMITTED, and the entries'
// rows are locked from before do until the commit. do is called at most once.
func (l *Ledger) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, pgx.Tx) error) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	judged := make([]ledger.Entry, len(es))
	for i, e := range es {
		judged[i] = *e
	}
	before := false
	err := l.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := l.ends(ctx, tx, lockEnds, es)
		if err != nil {
			return err
		}
		records := make([]*ledger.Record, len(es))
		for i, e := range es {
			records[i] = found[e.Key]
		}
		if before, err = ledger.Admit(judged, records); err != nil || before {
			return err
		}
		if err := do(ctx, tx); err != nil {
			return err
		}
		if err := ledger.CheckEnd(es); err != nil {
			return err
		}
		for i, e := range es { // do has said how they end
			judged[i] = *e
		}
		return l.end(ctx, tx, pointers(judged))
	})
	for i, e := range es {
		e.Stale, e.Ended = judged[i].Stale, judged[i].Ended
	}
	if err != nil {
		return fmt.Errorf("end %d entries of ledger %q with their effects: %w", len(es), l.o.Name, err)
	}
	return nil
}

func pointers(es []ledger.Entry) []*ledger.Entry {
	ps := make([]*ledger.Entry, len(es))
	for i := range es {
		ps[i] = &es[i]
	}
	return ps
}
