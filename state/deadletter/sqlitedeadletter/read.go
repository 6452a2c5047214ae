package sqlitedeadletter

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

const (
	lookupRows = 256 // of one statement at most
	listPage   = 32  // dead letters read at once with their payloads, each page a snapshot

	columns = "d.seq, d.pipeline, d.tenant, d.id, d.shard, d.hi, d.lo, d.kind, d.first, d.last, d.deaths, d.history, d.state, d.damaged, d.replays, d.asked, d.handed, d.burnt, d.epoch, d.due, d.until, d.edited"
	whole   = "SELECT " + columns + ", b.message, b.payload, b.row, b.original, b.sum FROM deadletter d LEFT JOIN deadletter_body b ON b.seq = d.seq "
)

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

// in runs a query for many values, by few statements of few lengths: head, then
// parenthesis after parenthesis of row, then tail; the last value fills up the rest.
func in(tx *sqlitedb.Tx, head, row, tail string, before []any, values [][]any, do func(*sql.Rows) error) error {
	for len(values) > 0 {
		n := 1
		for n < min(len(values), lookupRows) {
			n *= 4
		}
		args := slices.Clone(before)
		for i := range n {
			args = append(args, values[min(i, len(values)-1)]...)
		}
		if err := each(tx, head+row+strings.Repeat(","+row, n-1)+tail, args, do); err != nil {
			return err
		}
		values = values[min(n, len(values)):]
	}
	return nil
}

// scan reads a record's columns, and its message where it was selected. Numbers are read
// wide: a flipped bit must not make a row unreadable.
func scan(rows *sql.Rows, withBody bool) (*deadletter.Record, error) {
	r := new(deadletter.Record)
	var history, message []byte
	var shard, hi, lo, kind, first, last, state, damaged, epoch, due, until, edited int64
	var stored sql.NullInt64
	into := []any{&r.Seq, &r.Pipeline, &r.Tenant, &r.ID, &shard, &hi, &lo, &kind, &first, &last, &r.Deaths, &history, &state, &damaged,
		&r.Replays, &r.Asked, &r.Handed, &r.Burnt, &epoch, &due, &until, &edited}
	if withBody {
		into = append(into, &message, &r.Payload, &r.Row, &r.Original, &stored)
	}
	if err := rows.Scan(into...); err != nil {
		return nil, fmt.Errorf("read a letter: %w", err)
	}
	var failed error
	if r.History, failed = rules.DecodeHistory(history); failed != nil {
		r.History = []deadletter.Failure{{At: wire.Instant(last), Kind: tidemill.Internal, Cause: "the stored history was damaged and is lost"}}
	}
	if n := len(r.History); n > 0 {
		r.Cause = r.History[n-1].Cause
	}
	r.Kind, r.First, r.Last, r.Due, r.Until, r.Epoch = tidemill.Kind(kind), wire.Instant(first), wire.Instant(last), wire.Instant(due), wire.Instant(until), uint32(epoch)
	r.Edited = wire.Instant(edited)
	if r.State = deadletter.Held; state == 1 {
		r.State = deadletter.Replaying
	}
	if damaged != 0 {
		r.Damaged = "the stored message is damaged"
	}
	mark := tidemill.Mark{Shard: uint32(shard), Hi: uint64(hi), Lo: uint64(lo)}
	if withBody {
		err := decodeMessage(message, &r.Message)
		if found := rules.SumOf(&r.Letter, message); err != nil || !stored.Valid || found != uint64(stored.Int64) {
			r.Damaged = fmt.Sprintf("the stored message is damaged: its checksum is %016x, %016x was written; what is left of it can be looked at, not replayed", found, uint64(stored.Int64))
			r.Cause = r.Damaged
		}
		mark.Epoch = r.Mark.Epoch
	}
	r.Mark = mark
	return r, nil
}

// lookupNames finds the stored dead letters: edited ones with their messages, the others
// without.
func lookupNames(tx *sqlitedb.Tx, letters []tidemill.DeadLetter) (map[deadletter.Name]*deadletter.Record, error) {
	values := make([][]any, len(letters))
	for i := range letters {
		n := nameOf(&letters[i])
		values[i] = []any{[]byte(n.Pipeline), []byte(n.ID), []byte(n.Tenant)}
	}
	found := make(map[deadletter.Name]*deadletter.Record, len(letters))
	var edited [][]any
	err := in(tx, "SELECT "+columns+" FROM deadletter d WHERE (pipeline, id, tenant) IN (VALUES ", "(?,?,?)", ")", nil, values, func(rows *sql.Rows) error {
		r, err := scan(rows, false)
		if err != nil {
			return err
		}
		if found[r.Name()] = r; !r.Edited.IsZero() {
			edited = append(edited, []any{r.Seq})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = in(tx, whole+"WHERE d.seq IN (", "?", ")", nil, edited, func(rows *sql.Rows) error {
		r, err := scan(rows, true)
		if err == nil {
			found[r.Name()] = r
		}
		return err
	})
	return found, err
}

// Has implements deadletter.Store.
func (s *Store) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if len(ids) != len(marks) {
		return nil, fmt.Errorf("look for dead letters of %q: %d ids and %d marks", pipeline, len(ids), len(marks))
	}
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	type at struct {
		id     string
		shard  uint32
		hi, lo uint64
	}
	dead := map[at]bool{}
	values := make([][]any, len(ids))
	for i, id := range ids {
		values[i] = []any{[]byte(id)}
	}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return in(tx, "SELECT id, shard, hi, lo FROM deadletter WHERE pipeline=? AND id IN (", "?", ")", []any{[]byte(pipeline)}, values, func(rows *sql.Rows) error {
			var id string
			var shard, hi, lo int64
			err := rows.Scan(&id, &shard, &hi, &lo)
			dead[at{id, uint32(shard), uint64(hi), uint64(lo)}] = true
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d dead letters of %q: %w", len(ids), pipeline, err)
	}
	has := make([]bool, len(ids))
	for i, m := range marks {
		has[i] = dead[at{ids[i], m.Shard, m.Hi, m.Lo}]
	}
	return has, nil
}

// where writes a filter as a condition.
func where(f deadletter.Filter) (condition string, args []any) {
	condition = "1"
	and := func(c string, a ...any) { condition, args = condition+" AND "+c, append(args, a...) }
	if f.Pipeline != "" {
		and("pipeline=?", []byte(f.Pipeline))
	}
	if f.Tenant != "" {
		and("tenant=?", []byte(f.Tenant))
	}
	mask := func(ks []tidemill.Kind) (m int64) {
		for _, k := range ks {
			m |= 1 << min(k, 62)
		}
		return m
	}
	if len(f.Kinds) > 0 {
		and("(1<<kind)&? != 0", mask(f.Kinds))
	}
	if len(f.NotKinds) > 0 {
		and("(1<<kind)&? = 0", mask(f.NotKinds))
	}
	if f.State != "" {
		and("state=?", f.State == deadletter.Replaying)
	}
	if !f.After.IsZero() {
		and("last >= ?", wire.MillisUp(f.After))
	}
	if !f.Before.IsZero() {
		and("last < ?", wire.MillisUp(f.Before))
	}
	if after, before := f.Between(); f.AfterSeq > 0 {
		and("seq > ? AND seq < ?", after, before)
	}
	if f.Replays > 0 {
		and("replays < ?", f.Replays)
	}
	among := func(column string, k int, value func(i int) any) {
		if k == 0 {
			return
		}
		n := 1
		for n < k { // statements of few lengths; the last value fills up the rest
			n *= 2
		}
		and(column + " IN (?" + strings.Repeat(",?", n-1) + ")")
		for i := range n {
			args = append(args, value(min(i, k-1)))
		}
	}
	among("id", len(f.IDs), func(i int) any { return []byte(f.IDs[i]) })
	among("seq", len(f.Seqs), func(i int) any { return f.Seqs[i] })
	return condition, args
}

// seen is a dead letter of a snapshot: the same as long as it has not died again.
type seen struct {
	seq, deaths int64
	pipeline    string
}

// snapshot finds the dead letters that f chooses and that are in one of the states.
func (s *Store) snapshot(ctx context.Context, f deadletter.Filter, states string) (found []seen, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	condition, args := where(f)
	limit, order := -1, ""
	if f.Back {
		order = "DESC"
	}
	if f.Max > 0 {
		limit = f.Max
	}
	names := map[string]string{} // each pipeline's name once
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return each(tx, "SELECT seq, deaths, pipeline FROM deadletter WHERE "+condition+states+" ORDER BY seq "+order+" LIMIT ?", append(args, limit), func(rows *sql.Rows) error {
			var l seen
			var p sql.RawBytes
			err := rows.Scan(&l.seq, &l.deaths, &p)
			n, ok := names[string(p)]
			if !ok {
				n = string(p)
				names[n] = n
			}
			l.pipeline = n
			found = append(found, l)
			return err
		})
	})
	return found, err
}

// List implements deadletter.Store.
func (s *Store) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		found, err := s.snapshot(ctx, f, "")
		if err != nil {
			yield(nil, fmt.Errorf("list dead letters: %w", err))
			return
		}
		for part := range slices.Chunk(found, listPage) {
			page, err := s.page(ctx, part)
			if err != nil {
				yield(nil, fmt.Errorf("list dead letters: %w", err))
				return
			}
			for _, r := range page {
				if !yield(&r.Letter, nil) {
					return
				}
			}
		}
	}
}

// page reads dead letters with their messages.
func (s *Store) page(ctx context.Context, part []seen) (page []*deadletter.Record, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	args := make([]any, listPage)
	for i := range args {
		args[i] = part[min(i, len(part)-1)].seq
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return each(tx, whole+"WHERE d.seq IN (?"+strings.Repeat(",?", listPage-1)+")", args, func(rows *sql.Rows) error {
			r, err := scan(rows, true)
			page = append(page, r)
			return err
		})
	})
	slices.SortFunc(page, func(a, b *deadletter.Record) int { // as they were chosen
		return cmp.Compare(indexOf(part, a.Seq), indexOf(part, b.Seq))
	})
	return page, err
}

func indexOf(part []seen, seq int64) int {
	return slices.IndexFunc(part, func(l seen) bool { return l.seq == seq })
}

// Count implements deadletter.Store.
func (s *Store) Count(ctx context.Context, f deadletter.Filter) (n int, err error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	condition, args := where(f)
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM deadletter WHERE "+condition, args...).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	if f.Max > 0 {
		n = min(n, f.Max)
	}
	return n, nil
}
