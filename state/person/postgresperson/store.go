package postgresperson

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/person"
)

// New persons come before their distinct ids, which refer to them, each in the order of
// person ids. Where two transactions create the same, the second waits here for the end of
// the first, and holds only what it has created itself so far.
const (
	insertPersons = `INSERT INTO persons(id, project_id, identified, created_at, updated_at, properties, registers)
		SELECT k.id, k.project, k.identified, k.created, k.updated, k.properties::jsonb, k.registers
		FROM unnest($1::uuid[], $2::uuid[], $3::bool[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::bytea[])
			k(id, project, identified, created, updated, properties, registers)
		WHERE EXISTS (SELECT FROM projects t WHERE t.id = k.project)
		ORDER BY k.id ON CONFLICT DO NOTHING RETURNING id`

	insertLinks = `INSERT INTO person_distinct_ids(project_id, person_id, distinct_id, distinct_bytes)
		SELECT k.project, k.person, k.key, k.whole FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]) k(project, person, key, whole)
		WHERE EXISTS (SELECT FROM persons p WHERE p.id = k.person)
		ORDER BY k.person ON CONFLICT DO NOTHING RETURNING person_id`

	updateHeads = `UPDATE persons p SET identified = k.identified, created_at = k.created, updated_at = k.updated
		FROM unnest($1::uuid[], $2::bool[], $3::timestamptz[], $4::timestamptz[]) k(id, identified, created, updated) WHERE p.id = k.id`

	updatePersons = `UPDATE persons p SET identified = k.identified, created_at = k.created, updated_at = k.updated,
			properties = k.properties::jsonb, registers = k.registers
		FROM unnest($1::uuid[], $2::bool[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::bytea[])
			k(id, identified, created, updated, properties, registers) WHERE p.id = k.id`

	updateLinks = `UPDATE person_distinct_ids d SET person_id = k.person, version = k.version
		FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[]) k(project, key, person, version)
		WHERE d.project_id = k.project AND d.distinct_id = k.key`

	deletePersons = `DELETE FROM persons WHERE id = ANY($1)`

	insertOverrides = `WITH last AS (UPDATE @tidemill_person_override_seq SET seq = seq + cardinality($1::uuid[]) RETURNING seq)
		INSERT INTO @tidemill_person_overrides(seq, project_id, distinct_id, person_id, version)
		SELECT last.seq - cardinality($1::uuid[]) + k.i, k.project, k.distinct_id, k.person, k.version
		FROM last, unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bigint[]) WITH ORDINALITY k(project, distinct_id, person, version, i)
		RETURNING seq`
)

// columns are those of persons, one slice each.
type columns struct {
	ids, projects    [][16]byte // not uuid.UUID: the driver needs four times longer to send it
	identified       []bool
	created, updated []time.Time
	properties       []string
	registers        [][]byte
}

func (c *columns) head(r *row) {
	c.ids = append(c.ids, r.ID)
	c.projects = append(c.projects, r.Project)
	c.identified = append(c.identified, r.Identified)
	c.created = append(c.created, time.UnixMilli(r.CreatedMilli))
	c.updated = append(c.updated, time.UnixMilli(r.UpdatedMilli))
}

func (c *columns) whole(r *row) {
	r.encode()
	c.head(r)
	c.properties = append(c.properties, string(jsonb(r.Properties.AppendJSON(nil))))
	c.registers = append(c.registers, r.raw)
}

// create stores new persons with their distinct ids, and returns the really new ones,
// locked. Another transaction stored the others meanwhile: they have their links now,
// unless their project is missing.
func (b *batch) create(ctx context.Context, refs []person.Ref, build func(person.Ref) *row) (created []person.Ref, err error) {
	var c columns
	var keys []string
	var wholes [][]byte
	of := map[uuid.UUID]int{} // how many of its two rows are new
	for _, ref := range refs {
		r := build(ref)
		c.whole(r)
		key, whole := postgresdb.Key(ref.Distinct, maxKey)
		keys, wholes = append(keys, key), append(wholes, whole)
		of[r.ID] = 0
	}
	orphans := map[uuid.UUID]bool{}
	todo := &pgx.Batch{}
	todo.Queue(insertPersons, c.ids, c.projects, c.identified, c.created, c.updated, c.properties, c.registers).Query(func(rows pgx.Rows) error {
		return postgresdb.Each(rows, nil, func(r pgx.Rows) error {
			var id [16]byte
			err := r.Scan(&id)
			of[id]++
			orphans[id] = true
			return err
		})
	})
	todo.Queue(insertLinks, c.projects, c.ids, keys, wholes).Query(func(rows pgx.Rows) error {
		return postgresdb.Each(rows, nil, func(r pgx.Rows) error {
			var id [16]byte
			err := r.Scan(&id)
			of[id]++
			delete(orphans, id)
			return err
		})
	})
	if err := b.tx.SendBatch(ctx, todo).Close(); err != nil {
		return nil, fmt.Errorf("store %d new persons: %w", len(refs), err)
	}
	var rest []person.Ref
	for i, ref := range refs {
		if r := b.records[c.ids[i]]; r != nil { // made by the rules for this
			r.changed = false
		}
		if of[c.ids[i]] == 2 {
			created = append(created, ref)
			continue
		}
		delete(b.links, ref)
		delete(b.records, c.ids[i])
		rest = append(rest, ref)
	}
	b.changed = slices.DeleteFunc(b.changed, func(r *row) bool { return !r.changed })
	if len(rest) == 0 {
		return created, nil
	}
	if len(orphans) > 0 { // whose distinct id has another person
		ids := sortedIDs(orphans)
		if _, err := b.tx.Exec(ctx, deletePersons, raw(ids)); err != nil {
			return nil, fmt.Errorf("undo %d persons: %w", len(ids), err)
		}
	}
	if err := b.readLinks(ctx, rest); err != nil {
		return nil, err
	}
	return created, b.orphaned(ctx, b.unlinked(rest))
}

// orphaned finds out why refs have no person: their project must be gone.
func (b *batch) orphaned(ctx context.Context, refs []person.Ref) error {
	missing := map[uuid.UUID]bool{}
	for _, ref := range refs {
		missing[ref.Project] = true
	}
	if len(missing) == 0 {
		return nil
	}
	b.gone = sortedIDs(missing)
	var found int
	if err := b.tx.QueryRow(ctx, "SELECT count(*) FROM projects WHERE id = ANY($1)", raw(b.gone)).Scan(&found); err != nil {
		return fmt.Errorf("look for %d projects: %w", len(missing), err)
	}
	if found > 0 {
		return errMoved
	}
	return nil
}

// store writes what was set.
func (b *batch) store(ctx context.Context) error {
	todo := &pgx.Batch{}
	if err := b.storeRecords(todo); err != nil {
		return err
	}
	b.storeMoves(todo)
	if todo.Len() == 0 {
		return nil
	}
	if err := b.tx.SendBatch(ctx, todo).Close(); err != nil {
		return fmt.Errorf("write %d persons: %w", len(b.changed), err)
	}
	return nil
}

// storeRecords writes changed persons, and uses a shorter statement for those with
// unchanged properties.
func (b *batch) storeRecords(todo *pgx.Batch) error {
	var heads, wholes columns
	for _, r := range b.changed {
		switch {
		case r.removed:
		case !r.replaced:
			heads.head(r)
		default:
			wholes.whole(r)
		}
	}
	if c := &heads; len(c.ids) > 0 {
		todo.Queue(updateHeads, c.ids, c.identified, c.created, c.updated)
	}
	if c := &wholes; len(c.ids) > 0 {
		todo.Queue(updatePersons, c.ids, c.identified, c.created, c.updated, c.properties, c.registers)
	}
	return nil
}

// storeMoves writes the moved and removed rows of merges. Numbers of the outbox come last:
// their one row is locked until the commit.
func (b *batch) storeMoves(todo *pgx.Batch) {
	var projects, persons [][16]byte
	var keys []string
	var versions []int64
	seen := make(map[person.Ref]bool, len(b.moved))
	for _, ref := range b.moved {
		if seen[ref] {
			continue
		}
		seen[ref] = true
		l := b.links[ref]
		key, _ := postgresdb.Key(ref.Distinct, maxKey)
		projects, keys = append(projects, ref.Project), append(keys, key)
		persons, versions = append(persons, l.Person), append(versions, int64(l.Version))
	}
	if len(keys) > 0 {
		todo.Queue(updateLinks, projects, keys, persons, versions)
	}
	gone := raw(b.removed)
	for _, id := range b.fresh {
		if r, ok := b.records[id]; !ok || !r.changed {
			gone = append(gone, id) // its distinct id went to another person at once
		}
	}
	if len(gone) > 0 {
		todo.Queue(deletePersons, gone)
	}
	if len(b.overrides) == 0 {
		return
	}
	projects, persons, versions = nil, nil, nil
	var distinct [][]byte
	for _, l := range b.overrides {
		projects, distinct = append(projects, l.Project), append(distinct, []byte(l.Distinct))
		persons, versions = append(persons, l.Person), append(versions, int64(l.Version))
	}
	todo.Queue(b.s.db.Own(insertOverrides), projects, distinct, persons, versions).Query(func(rows pgx.Rows) error {
		return postgresdb.Each(rows, nil, func(r pgx.Rows) error {
			var seq int64
			err := r.Scan(&seq)
			if b.firstSeq == 0 || seq < b.firstSeq {
				b.firstSeq = seq
			}
			return err
		})
	})
}
