package sqlitewarehouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// errOwner is the error of an insert whose Store is not the file's newest.
var errOwner = errors.New("another Store was opened on this database; share one")

// Insert implements warehouse.Warehouse. Known events are found by reading, on the caller's
// goroutine; the writer only appends.
func (s *Store) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(took) != len(rows) {
		return fmt.Errorf("insert %d events: there is room for %d answers; took must be as long as rows", len(rows), len(took))
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.ids.Relieve(ctx); err != nil {
		return fmt.Errorf("insert %d events: make room for their ids: %w", len(rows), err)
	}
	if err := s.index.Relieve(ctx); err != nil {
		return fmt.Errorf("insert %d events: make room in the index: %w", len(rows), err)
	}
	b := batch{ids: make([]idset.ID, len(rows))}
	says, at := make([]int, len(rows)), make([]int64, len(rows))
	for i, e := range rows {
		b.ids[i] = s.idOf(e.Project, e.ID)
	}
	claim, err := s.ids.Claim(ctx, b.ids, says, at)
	if err != nil {
		return fmt.Errorf("insert %d events: look for those that are there: %w", len(rows), err)
	}
	var positions []int64 // of what the claim holds, once it is written
	defer func() { s.ids.Resolve(claim, positions) }()
	origins, err := s.origins(ctx, says, at)
	if err != nil {
		return fmt.Errorf("insert %d events: read those that are there: %w", len(rows), err)
	}
	if b.prepare(rows, took, says, at, origins); len(b.entries) == 0 {
		return nil
	}
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return s.write(tx, &b, claim.Group()) }); err != nil {
		return fmt.Errorf("insert %d events: %w", len(b.entries), err)
	}
	positions = b.positions(claim.Held)
	s.index.Stored(b.entries[0].Pos-1, b.rows())
	s.came.Ring()
	return nil
}

// batch is what an insert writes.
type batch struct {
	ids     []idset.ID // of all rows of the insert
	of      []int      // which of them are written, in order
	args    []any      // rowArgs of each that is written
	entries []idset.Entry
	counts  []count
}

type count struct {
	project       uuid.UUID
	events, bytes int64
}

const rowArgs = 12

// contexts are memory for the contexts of a batch, before they are one text: of *[]byte.
var contexts = sync.Pool{New: func() any { return new([]byte) }}

// prepare decides what becomes of each row, and lays out what is written.
func (b *batch) prepare(rows []*event.Event, took []warehouse.Outcome, says []int, at []int64, origins map[int64]uint64) {
	memory := contexts.Get().(*[]byte)
	context := (*memory)[:0]
	ends := make([]int, 0, len(rows)) // of each row's part of context
	b.of = make([]int, 0, len(rows))
	for i, e := range rows {
		switch say := says[i]; {
		case say == idset.Known:
			took[i] = again(e, origins, at[i])
			continue
		case say >= 0 && rows[say].Origin == e.Origin:
			took[i] = warehouse.Again
			continue
		case say >= 0:
			took[i] = warehouse.Duplicate
			continue
		}
		took[i] = warehouse.Stored
		b.of = append(b.of, i)
		context = appendContext(context, e)
		ends = append(ends, len(context))
	}
	b.args, b.entries = make([]any, 0, rowArgs*len(b.of)), make([]idset.Entry, 0, len(b.of))
	all, start := string(context), 0
	*memory = context
	contexts.Put(memory)
	for k, i := range b.of {
		e := rows[i]
		var c any
		if ends[k] > start {
			c = all[start:ends[k]]
		}
		b.count(e.Project, rowBytes+len(e.Name)+len(e.DistinctID)+ends[k]-start+len(e.Properties)+len(e.UserProperties))
		start = ends[k]
		b.args = append(b.args, e.Project[:], e.ID[:], e.Person[:], e.Name, e.Type, e.DistinctID,
			e.Timestamp.UnixMilli(), e.IngestedAt.UnixMilli(), int64(e.Origin), c, object(e.Properties), object(e.UserProperties))
		b.entries = append(b.entries, idset.Entry{ID: b.ids[i]})
	}
}

// again is what becomes of an event that is stored in a row. The row may be gone: it was too old.
func again(e *event.Event, origins map[int64]uint64, row int64) warehouse.Outcome {
	if origin, ok := origins[row]; ok && origin == e.Origin {
		return warehouse.Again
	}
	return warehouse.Duplicate
}

func (b *batch) count(project uuid.UUID, bytes int) {
	for i := range b.counts {
		if c := &b.counts[i]; c.project == project {
			c.events++
			c.bytes += int64(bytes)
			return
		}
	}
	b.counts = append(b.counts, count{project, 1, int64(bytes)})
}

// positions are the rows that held ones were written to; 0: it was not.
func (b *batch) positions(held []int) []int64 {
	at := make([]int64, len(held))
	k := 0
	for n, i := range held { // both ascend
		if k < len(b.of) && b.of[k] == i {
			at[n] = b.entries[k].Pos
			k++
		}
	}
	return at
}

// object is a JSON object as an argument: nothing is NULL.
func object(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// write runs on the writer.
func (s *Store) write(tx *sqlitedb.Tx, b *batch, of idset.Group) error {
	var base int64
	var owner []byte
	if err := tx.QueryRow("SELECT owner, (SELECT coalesce(max(id), 0) FROM warehouse_event) FROM warehouse_index").Scan(&owner, &base); err != nil {
		return fmt.Errorf("read the newest id: %w", err)
	}
	if !bytes.Equal(owner, s.owner) {
		return &tidemill.Error{Kind: tidemill.Internal, Err: errOwner}
	}
	n, err := tx.Bulk("INSERT INTO warehouse_event(project,event_id,person,name,type,distinct_id,timestamp,ingested_at,origin,context,properties,user_properties) VALUES ",
		"(?,?,?,?,?,?,?,?,?,?,?,?)", "", b.args)
	if err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	if n != int64(len(b.entries)) {
		return tidemill.Fail(tidemill.Internal, "append rows: %d of %d were written", n, len(b.entries))
	}
	for i := range b.entries { // ids are given one by one
		b.entries[i].Pos = base + int64(i) + 1
	}
	for _, c := range b.counts {
		if _, err := tx.Exec("INSERT INTO warehouse_count(project,events,bytes) VALUES(?,?,?) ON CONFLICT DO UPDATE SET events=events+excluded.events, bytes=bytes+excluded.bytes", c.project[:], c.events, c.bytes); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return of.Log(tx, b.entries)
}

// origins reads the origins of the rows of known events.
func (s *Store) origins(ctx context.Context, says []int, at []int64) (map[int64]uint64, error) {
	var known []int64
	for i, say := range says {
		if say == idset.Known {
			known = append(known, at[i])
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	slices.Sort(known) // neighbours share pages
	known = slices.Compact(known)
	origins := make(map[int64]uint64, len(known))
	return origins, s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT e.id, e.origin FROM json_each(?) j JOIN warehouse_event e ON e.id = j.value", jsonInts(known))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, origin int64
			if err := rows.Scan(&id, &origin); err != nil {
				return err
			}
			origins[id] = uint64(origin)
		}
		return rows.Err()
	})
}

// jsonInts is a list of numbers of any length as one argument: one text to prepare.
func jsonInts[T int64 | uint64](list []T) string {
	b := make([]byte, 0, 16*len(list)+2)
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return string(append(b, ']'))
}
