package sqliteperson

import (
	"bytes"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// batch is the state of one transaction: the rows that it has loaded, and over them the
// rows that the rules have set. It runs on the writer, so what it reads is current.
type batch struct {
	tx      *sqlitedb.Tx
	commit  uint64 // batches are numbered in the order of the writer
	links   map[person.Ref]rules.Link
	records map[uuid.UUID]*row
	refs    []person.Ref // that were loaded

	changed   []*row // in the order of their first change
	moved     []person.Ref
	removed   []uuid.UUID
	overrides []rules.Link
	damaged   []uuid.UUID // whose registers could not be read
}

// row is a person, loaded or new.
type row struct {
	rules.Record
	distinct *string // that the id is derived from; nil: not known to this batch
	raw      []byte  // registers as stored
	changed  bool
	replaced bool // registers are not raw any more
	removed  bool
}

var _ rules.Rows = (*batch)(nil)

func (b *batch) Link(ref person.Ref) (rules.Link, bool) {
	l, ok := b.links[ref]
	return l, ok
}

func (b *batch) Record(id uuid.UUID) (rules.Record, bool) {
	r, ok := b.records[id]
	if !ok || r.removed || r.ID == uuid.Nil {
		return rules.Record{}, false
	}
	return r.Record, true
}

func (b *batch) SetLink(l rules.Link) {
	b.links[l.Ref] = l
	if l.Version == 0 { // a new person: its row says so
		b.row(l.Person).distinct = &l.Distinct
		return
	}
	b.moved = append(b.moved, l.Ref)
}

// row is the row of a person, empty if it was not loaded.
func (b *batch) row(id uuid.UUID) *row {
	r, ok := b.records[id]
	if !ok {
		r = &row{}
		b.records[id] = r
	}
	return r
}

func (b *batch) SetRecord(rec rules.Record) {
	r := b.row(rec.ID)
	r.replaced = r.replaced || !r.Properties.Same(rec.Properties)
	r.Record = rec
	if !r.changed {
		r.changed = true
		b.changed = append(b.changed, r)
	}
}

func (b *batch) Remove(id uuid.UUID) {
	if r, ok := b.records[id]; ok {
		r.removed = true
	}
	b.removed = append(b.removed, id)
}

func (b *batch) Override(l rules.Link) { b.overrides = append(b.overrides, l) }

// Links reads the links of a person: those that this batch has made, and the stored ones.
// Stored links are current: all ids move away from a person at once, and then it is
// removed.
func (b *batch) Links(id uuid.UUID) (links []rules.Link, err error) {
	if r, ok := b.records[id]; ok && r.distinct != nil {
		links = append(links, rules.Link{Ref: person.Ref{Project: r.Project, Distinct: *r.distinct}, Person: id})
	}
	seen := make(map[person.Ref]bool, len(b.moved))
	for _, ref := range b.moved {
		if l := b.links[ref]; l.Person == id && !seen[ref] {
			seen[ref] = true
			links = append(links, l)
		}
	}
	rows, err := b.tx.Query("SELECT project, distinct_id, version FROM person_distinct_id WHERE person=?", id[:])
	if err != nil {
		return nil, fmt.Errorf("read the distinct ids of person %v: %w", id, err)
	}
	defer rows.Close()
	var project sql.RawBytes
	for rows.Next() {
		l := rules.Link{Person: id}
		var version int64
		if err := rows.Scan(&project, &l.Distinct, &version); err != nil {
			return nil, fmt.Errorf("read the distinct ids of person %v: %w", id, err)
		}
		copy(l.Project[:], project)
		l.Version = uint64(version)
		links = append(links, l)
	}
	return links, rows.Err()
}

// load reads the links of refs and their persons.
func (b *batch) load(stored *lookup, refs []person.Ref) error {
	b.refs = refs
	b.links = make(map[person.Ref]rules.Link, len(refs))
	b.records = make(map[uuid.UUID]*row, len(refs))
	var i int
	var id, raw sql.RawBytes
	var version, identified, created, updated sql.NullInt64
	err := stored.each(b.tx, refs, func(part []person.Ref, rows *sql.Rows) error {
		if err := rows.Scan(&i, &id, &version, &identified, &created, &updated, &raw); err != nil {
			return err
		}
		l := rules.Link{Ref: part[i], Version: uint64(version.Int64)}
		if version.Valid {
			l.Person = uuid.UUID(id)
		} else {
			l.Person = person.ID(l.Ref)
		}
		b.links[l.Ref] = l
		if _, ok := b.records[l.Person]; ok || !created.Valid {
			return nil
		}
		b.records[l.Person] = &row{raw: bytes.Clone(raw), Record: rules.Record{
			ID: l.Person, Project: l.Project, Identified: identified.Int64 != 0,
			CreatedMilli: created.Int64, UpdatedMilli: updated.Int64}}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the persons of %d distinct ids: %w", len(refs), err)
	}
	for _, ref := range refs {
		if r := b.behind(ref); r != nil && r.Properties == nil {
			if err := b.decode(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// behind is the person of a distinct id, nil if none is stored.
func (b *batch) behind(ref person.Ref) *row {
	l, ok := b.links[ref]
	if !ok {
		return nil
	}
	return b.records[l.Person]
}

// decode reads the registers of a row. If they are damaged, it uses the properties beside
// them, which lack their times: otherwise the person would stop every batch that it is part
// of.
func (b *batch) decode(r *row) (err error) {
	if r.Properties, err = rules.Decode(r.raw); err == nil {
		return nil
	}
	var object []byte
	if e := b.tx.QueryRow("SELECT properties FROM person WHERE id=?", r.ID[:]).Scan(&object); e != nil {
		return fmt.Errorf("read person %v: %w", r.ID, e)
	}
	var e error
	if r.Properties, e = rules.Untimed(r.ID, object); e != nil {
		return fmt.Errorf("read person %v: %w; its properties are damaged too, restore the file from a backup: %w", r.ID, err, e)
	}
	r.changed, r.replaced = true, true // repair it
	b.changed = append(b.changed, r)
	b.damaged = append(b.damaged, r.ID)
	return nil
}

// store writes what was set.
func (b *batch) store() error {
	var args []any
	for _, ref := range b.moved {
		l := b.links[ref]
		args = append(args, l.Project[:], key(l.Distinct), l.Person[:], int64(l.Version))
	}
	if _, err := b.tx.Bulk("INSERT INTO person_moved(project,distinct_id,person,version) VALUES ", "(?,?,?,?)",
		" ON CONFLICT(project,distinct_id) DO UPDATE SET person=excluded.person, version=excluded.version", args); err != nil {
		return fmt.Errorf("write %d distinct ids: %w", len(b.moved), err)
	}
	args = args[:0]
	for _, id := range b.removed {
		args = append(args, id[:])
	}
	if _, err := b.tx.Bulk("DELETE FROM person WHERE id IN (", "?", ")", args); err != nil {
		return fmt.Errorf("remove %d merged persons: %w", len(b.removed), err)
	}
	if err := b.storeRecords(); err != nil {
		return err
	}
	args = args[:0]
	for _, l := range b.overrides {
		args = append(args, l.Project[:], key(l.Distinct), l.Person[:], int64(l.Version))
	}
	if _, err := b.tx.Bulk("INSERT INTO person_override(project,distinct_id,person,version) VALUES ", "(?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("write %d overrides: %w", len(b.overrides), err)
	}
	return nil
}

// storeRecords writes changed persons, and uses a shorter statement for those with
// unchanged properties, or new and without any.
func (b *batch) storeRecords() error {
	var heads, wholes []any
	var raw, json []byte
	for _, r := range b.changed {
		if r.removed {
			continue
		}
		var distinct any // known where it matters: for a new row
		if r.distinct != nil {
			distinct = key(*r.distinct)
		}
		if !r.replaced {
			heads = append(heads, r.ID[:], r.Project[:], distinct, r.Identified, r.CreatedMilli, r.UpdatedMilli)
			continue
		}
		raw = r.Properties.AppendBinary(raw[:0])
		r.raw = bytes.Clone(raw) // no larger than it must be: it is kept
		json = r.Properties.AppendJSON(json[:0])
		wholes = append(wholes, r.ID[:], r.Project[:], distinct, r.Identified, r.CreatedMilli, r.UpdatedMilli, string(json), r.raw)
	}
	if _, err := b.tx.Bulk("INSERT INTO person(id,project,distinct_id,identified,created,updated) VALUES ", "(?,?,?,?,?,?)",
		" ON CONFLICT(id) DO UPDATE SET identified=excluded.identified, created=excluded.created, updated=excluded.updated", heads); err != nil {
		return fmt.Errorf("write persons: %w", err)
	}
	if _, err := b.tx.Bulk("INSERT INTO person(id,project,distinct_id,identified,created,updated,properties,registers) VALUES ", "(?,?,?,?,?,?,?,?)",
		" ON CONFLICT(id) DO UPDATE SET identified=excluded.identified, created=excluded.created, updated=excluded.updated,"+
			" properties=excluded.properties, registers=excluded.registers", wholes); err != nil {
		return fmt.Errorf("write persons: %w", err)
	}
	return nil
}
