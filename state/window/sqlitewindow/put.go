package sqlitewindow

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// group is the records of one batch id in a Put, only the last of each name.
type group struct {
	batch  string
	expect int64
	rows   []row
	at     map[string]int // where in rows a key is
}

type row struct {
	key    []byte
	body   []byte
	sum    uint64
	record int // index of the first record of this name
	known  bool
}

// groups divides records by their batch ids, in the order in which those come.
func groups(records []window.Record) []*group {
	var all []*group
	byBatch := map[string]*group{}
	var g *group
	var keys []byte // of all records
	for i := range records {
		r := &records[i]
		if g == nil || g.batch != r.Batch {
			if g = byBatch[r.Batch]; g == nil {
				g = &group{batch: r.Batch, at: map[string]int{}}
				byBatch[r.Batch] = g
				all = append(all, g)
			}
		}
		if r.Expect > 0 {
			g.expect = int64(r.Expect)
		}
		from := len(keys)
		keys = entry.AppendKey(keys, r)
		key := keys[from:len(keys):len(keys)]
		at, twice := g.at[string(key)]
		if !twice {
			at = len(g.rows)
			g.at[string(key)] = at
			g.rows = append(g.rows, row{key: key, record: i})
		}
		g.rows[at].body, g.rows[at].sum = r.Body, entry.Sum(key, r.Body)
	}
	return all
}

// Put implements window.Intake: a few statements for each batch id.
func (s *Store) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	if err := cmp.Or(ctx.Err(), entry.CheckPut(records, kept)); err != nil || len(records) == 0 {
		return err
	}
	gs := groups(records) // while no other writer waits
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		var c change
		for _, g := range gs {
			if err := s.put(tx, g, &c); err != nil {
				return fmt.Errorf("batch %q: %w", g.batch, err)
			}
		}
		return c.write(tx)
	})
	if err != nil {
		return fmt.Errorf("put %d records: %w", len(records), err)
	}
	if kept == nil {
		return nil
	}
	for i := range kept {
		kept[i] = window.Overwrote
	}
	for _, g := range gs {
		for i := range g.rows {
			if r := &g.rows[i]; !r.known {
				kept[r.record] = window.New
			}
		}
	}
	return nil
}

// open reads the active window of a batch id, or makes it.
func (s *Store) open(tx *sqlitedb.Tx, batch string, c *change) (e *entry.Entry, puts int64, err error) {
	e, err = scan(tx.QueryRow("SELECT "+columns+", w.puts FROM window_batch w WHERE w.batch=? AND w.state=0", []byte(batch)), &puts)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return e, puts, err
	}
	var last uint64
	if err := tx.QueryRow("SELECT revision FROM window_books").Scan(&last); err != nil {
		return nil, 0, err
	}
	now := s.o.Now()
	e = entry.Start(batch, entry.NextRevision(last, now), now)
	if _, err := tx.Exec("UPDATE window_books SET revision=?", e.Revision); err != nil {
		return nil, 0, err
	}
	_, err = tx.Exec("INSERT INTO window_batch(revision,batch,state,records,bytes,puts,expect,opened) VALUES(?,?,0,0,0,0,0,?)", e.Revision, []byte(batch), e.Opened.UnixMilli())
	c.windows[0]++
	return e, 0, err
}

// put keeps the records of one batch id. It marks rows that were known.
func (s *Store) put(tx *sqlitedb.Tx, g *group, c *change) error {
	e, puts, err := s.open(tx, g.batch, c)
	if err != nil {
		return fmt.Errorf("open its window: %w", err)
	}
	puts++
	args := make([]any, 0, 5*len(g.rows))
	fresh, bytes := int64(len(g.rows)), int64(0)
	for i := range g.rows {
		r := &g.rows[i]
		r.known = false // do may have stopped midway before
		bytes += int64(len(r.body))
		body := r.body
		if body == nil {
			body = []byte{}
		}
		args = append(args, e.Revision, r.key, puts, body, r.sum)
	}
	n, err := tx.Bulk("INSERT INTO window_record(revision,key,put,body,sum) VALUES ", "(?,?,?,?,?)", " ON CONFLICT DO NOTHING", args)
	if err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	if n < fresh {
		known, before, err := s.overwrite(tx, g, e.Revision, puts)
		if err != nil {
			return err
		}
		fresh, bytes = fresh-known, bytes-before
	}
	expect := e.Expect
	if g.expect > 0 {
		expect = g.expect
	}
	c.accepted += fresh
	c.records[0] += fresh
	if _, err := tx.Exec("UPDATE window_batch SET records=records+?, bytes=bytes+?, puts=?, expect=? WHERE revision=?", fresh, bytes, puts, expect, e.Revision); err != nil {
		return fmt.Errorf("count records: %w", err)
	}
	return nil
}

// overwrite finds which rows existed before, and writes those with other bytes.
func (s *Store) overwrite(tx *sqlitedb.Tx, g *group, revision uint64, put int64) (known, before int64, err error) {
	var changed []any
	for chunk := range slices.Chunk(g.rows, lookupRows) {
		n := 1
		for n < len(chunk) {
			n *= 4 // few texts to prepare; the last value fills up the rest
		}
		args := []any{revision, put}
		for i := range n {
			args = append(args, chunk[min(i, len(chunk)-1)].key)
		}
		query := knownSQL + strings.Repeat(",?", n-1) + ")"
		if err := each(tx, query, args, func(rows *sql.Rows) error {
			var key sql.RawBytes
			var length, sum int64
			if err := rows.Scan(&key, &length, &sum); err != nil {
				return err
			}
			r := &g.rows[g.at[string(key)]]
			r.known = true
			known, before = known+1, before+length
			if uint64(sum) != r.sum || int(length) != len(r.body) {
				changed = append(changed, revision, r.key, r.body, r.sum)
			}
			return nil
		}); err != nil {
			return 0, 0, fmt.Errorf("look for records: %w", err)
		}
	}
	for i := 2; i < len(changed); i += 4 {
		if changed[i].([]byte) == nil {
			changed[i] = []byte{}
		}
	}
	if _, err := tx.Bulk("UPDATE window_record SET body=v.column3, sum=v.column4 FROM (VALUES ", "(?,?,?,?)", ") AS v WHERE revision=v.column1 AND key=v.column2", changed); err != nil {
		return 0, 0, fmt.Errorf("overwrite records: %w", err)
	}
	return known, before, nil
}

const knownSQL = "SELECT key, length(body), sum FROM window_record WHERE revision=? AND put<>? AND key IN (?"

// lookupRows is how many keys one statement looks for.
const lookupRows = 256
