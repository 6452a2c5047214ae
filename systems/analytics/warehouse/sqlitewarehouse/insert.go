package sqlitewarehouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// errOwner is the error of an insert whose Store is not the file's newest.
var errOwner = errors.New("another Store was opened on this database; share one")

// key identifies an event, which is stored once.
type key struct{ project, id uuid.UUID }

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
	f := &flight{hashes: make([]uint64, len(rows)), done: make(chan struct{})}
	for i, e := range rows {
		f.hashes[i] = s.index.hash(e.Project, e.ID)
	}
	for wait := s.index.begin(f); wait != nil; wait = s.index.begin(f) {
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var c chunk
	var b batch
	written := false
	defer func() { s.index.end(f, c, written, &b) }()

	known, err := s.known(ctx, f)
	if err != nil {
		return fmt.Errorf("insert %d events: look for those that are there: %w", len(rows), err)
	}
	if b = prepare(f, rows, took, known); b.rows == 0 {
		return nil
	}
	c = s.index.take(b.rows)
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return s.write(tx, &b, c) }); err != nil {
		return fmt.Errorf("insert %d events: %w", b.rows, err)
	}
	written = true
	s.came.Ring()
	return nil
}

// batch is what an insert writes.
type batch struct {
	rows   int
	args   []any // rowArgs of each row
	counts []count
	young  []entry // for memory; their ids are offsets until the rows are written
	direct []entry // for the table, because memory has their hash already
	newest int64
}

type count struct {
	project uuid.UUID
	events  int64
}

const rowArgs = 12

// prepare decides what becomes of each row and makes the batch to be written.
func prepare(f *flight, rows []*event.Event, took []warehouse.Outcome, known map[key]uint64) batch {
	crowded := map[uint64]bool{} // hashes that memory cannot hold
	for _, k := range f.known {
		crowded[k.hash] = true
	}
	var b batch
	var context []byte
	ends := make([]int, 0, len(rows)) // of each row's part of context
	kept := make([]*event.Event, 0, len(rows))
	for i, e := range rows {
		k := key{e.Project, e.ID}
		if origin, ok := known[k]; ok {
			took[i] = warehouse.Duplicate
			if origin == e.Origin {
				took[i] = warehouse.Again
			}
			continue
		}
		took[i] = warehouse.Stored
		h := f.hashes[i]
		if crowded[h] {
			b.direct = append(b.direct, entry{h, int64(len(kept))})
		} else {
			b.young = append(b.young, entry{h, int64(len(kept))})
		}
		if f.twins {
			known[k] = e.Origin
			crowded[h] = true
		}
		kept = append(kept, e)
		context = appendContext(context, e)
		ends = append(ends, len(context))
		b.count(e.Project)
	}
	b.rows = len(kept)
	b.args = make([]any, 0, rowArgs*len(kept))
	all, start := string(context), 0
	for i, e := range kept {
		var c any
		if ends[i] > start {
			c = all[start:ends[i]]
		}
		start = ends[i]
		b.args = append(b.args, e.Project[:], e.ID[:], e.Person[:], e.Name, e.Type, e.DistinctID,
			e.Timestamp.UnixMilli(), e.IngestedAt.UnixMilli(), int64(e.Origin), c, object(e.Properties), object(e.UserProperties))
	}
	return b
}

func (b *batch) count(project uuid.UUID) {
	for i := range b.counts {
		if b.counts[i].project == project {
			b.counts[i].events++
			return
		}
	}
	b.counts = append(b.counts, count{project, 1})
}

// object is a JSON object as an argument: nothing is NULL.
func object(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// write runs on the writer.
func (s *Store) write(tx *sqlitedb.Tx, b *batch, c chunk) error {
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
	if n != int64(b.rows) {
		return tidemill.Fail(tidemill.Internal, "append rows: %d of %d were written", n, b.rows)
	}
	// Only this call has the batch until Write has returned; ids are given one by one.
	b.newest = base + n
	for i := range b.young {
		b.young[i].id += base + 1
	}
	for i := range b.direct {
		b.direct[i].id += base + 1
	}
	for _, c := range b.counts {
		if _, err := tx.Exec("INSERT INTO warehouse_count(project,events) VALUES(?,?) ON CONFLICT DO UPDATE SET events=events+excluded.events", c.project[:], c.events); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	if err := putKeys(tx, b.direct); err != nil {
		return err
	}
	if err := putKeys(tx, c.entries); err != nil {
		return err
	}
	return putUpto(tx, c.upto)
}

// putKeys writes entries to the index; existing ones stay.
func putKeys(tx *sqlitedb.Tx, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(entries))
	for _, e := range entries {
		args = append(args, int64(e.hash), e.id)
	}
	if _, err := tx.Bulk("INSERT INTO warehouse_key(hash,id) VALUES ", "(?,?)", " ON CONFLICT DO NOTHING", args); err != nil {
		return fmt.Errorf("merge %d event ids into the index: %w", len(entries), err)
	}
	return nil
}

// putUpto notes that all events up to that id are in the index.
func putUpto(tx *sqlitedb.Tx, id int64) error {
	if id == 0 {
		return nil
	}
	if _, err := tx.Exec("UPDATE warehouse_index SET upto=?", id); err != nil {
		return fmt.Errorf("note how far the index is: %w", err)
	}
	return nil
}

// known finds which of the rows' events are stored, each with its origin.
func (s *Store) known(ctx context.Context, f *flight) (map[key]uint64, error) {
	known := map[key]uint64{}
	after, fill := s.index.fill(len(f.hashes))
	if len(f.known) == 0 && len(f.look) == 0 && fill == 0 {
		return known, nil
	}
	slices.Sort(f.look) // neighbours share pages
	var read []entry
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		if fill > 0 {
			if read, err = entriesAfter(tx, after, fill); err != nil {
				return err
			}
		}
		ids := make([]int64, 0, len(f.known))
		for _, k := range f.known {
			ids = append(ids, k.id)
		}
		if len(f.look) > 0 {
			if ids, err = selectInts(tx, ids, "SELECT k.id FROM json_each(?) j JOIN warehouse_key k ON k.hash = j.value", f.look); err != nil {
				return err
			}
		}
		return origins(tx, ids, known)
	})
	if fill > 0 {
		s.index.fillEnd(read, fill, err)
	}
	return known, err
}

// entriesAfter reads entries of the index in their order.
func entriesAfter(tx *sqlitedb.Tx, after entry, n int) ([]entry, error) {
	rows, err := tx.Query("SELECT hash, id FROM warehouse_key WHERE (hash, id) > (?, ?) ORDER BY hash, id LIMIT ?", int64(after.hash), after.id, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.hash, &e.id); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// origins reads the events and origins of these rows.
func origins(tx *sqlitedb.Tx, ids []int64, into map[key]uint64) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	rows, err := tx.Query("SELECT e.project, e.event_id, e.origin FROM json_each(?) j JOIN warehouse_event e ON e.id = j.value", jsonInts(slices.Compact(ids)))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var project, id []byte
		var origin int64
		if err := rows.Scan(&project, &id, &origin); err != nil {
			return err
		}
		into[key{uuidOf(project), uuidOf(id)}] = uint64(origin)
	}
	return rows.Err()
}

// selectInts appends the results of a query with one list of numbers.
func selectInts(tx *sqlitedb.Tx, into []int64, query string, list []uint64) ([]int64, error) {
	rows, err := tx.Query(query, jsonInts(list))
	if err != nil {
		return into, err
	}
	defer rows.Close()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return into, err
		}
		into = append(into, v)
	}
	return into, rows.Err()
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
