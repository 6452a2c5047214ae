package postgresperson

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// maxKey is how many characters the column distinct_id holds.
const maxKey = 400

// The columns of a person as row reads them. Properties are read where a person has no
// registers: it was stored before this product came.
const personColumns = `p.id, p.project_id, p.identified, coalesce(p.created_at, p.updated_at, now()), coalesce(p.updated_at, p.created_at, now()),
	p.registers, CASE WHEN p.registers IS NULL THEN coalesce(p.properties, '{}')::text END`

const (
	selectPersonIDs = `SELECT k.i, d.person_id FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY k(project, key, i)
		JOIN person_distinct_ids d ON d.project_id = k.project AND d.distinct_id = k.key`

	selectLinks = `SELECT k.i, d.person_id, d.version FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY k(project, key, i)
		JOIN person_distinct_ids d ON d.project_id = k.project AND d.distinct_id = k.key`

	selectUnlocked = `SELECT k.i, ` + personColumns + ` FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY k(project, key, i)
		JOIN person_distinct_ids d ON d.project_id = k.project AND d.distinct_id = k.key JOIN persons p ON p.id = d.person_id`

	shownColumns = personColumns + `,
		(SELECT array_agg(o.distinct_id ORDER BY o.id) FROM person_distinct_ids o WHERE o.person_id = p.id),
		(SELECT array_agg(o.distinct_bytes ORDER BY o.id) FROM person_distinct_ids o WHERE o.person_id = p.id)`
	selectShown   = `SELECT ` + shownColumns + ` FROM person_distinct_ids d JOIN persons p ON p.id = d.person_id WHERE d.project_id = $1 AND d.distinct_id = $2`
	selectShownID = `SELECT ` + shownColumns + ` FROM persons p WHERE p.project_id = $1 AND p.id = $2`

	selectLinksOf = `SELECT d.person_id, d.project_id, d.distinct_id, d.distinct_bytes, d.version FROM person_distinct_ids d WHERE d.person_id = ANY($1)`
)

// Every transaction locks rows in the order of their ids. An update needs a weaker lock
// than a merge, which may delete: references to the person do not wait for it.
const (
	selectForUpdate = `SELECT ` + personColumns + ` FROM persons p WHERE p.id = ANY($1) ORDER BY p.id FOR NO KEY UPDATE`
	selectForMerge  = `SELECT ` + personColumns + ` FROM persons p WHERE p.id = ANY($1) ORDER BY p.id FOR UPDATE`
)

// row is a person, loaded or new.
type row struct {
	rules.Record
	raw        []byte // registers as stored; nil: the person has properties alone
	properties []byte // where there are no registers
	decoded    bool
	changed    bool
	replaced   bool // registers are not raw any more
	removed    bool
}

// scanRow reads personColumns, and the statement's further columns.
func scanRow(r pgx.Row, more ...any) (*row, error) {
	var p row
	var created, updated time.Time
	err := r.Scan(append([]any{(*[16]byte)(&p.ID), (*[16]byte)(&p.Project), &p.Identified, &created, &updated, &p.raw, &p.properties}, more...)...)
	p.CreatedMilli, p.UpdatedMilli = storable(created.UnixMilli()), storable(updated.UnixMilli())
	return &p, err
}

// decode reads the registers, or the properties of a person that has no registers yet.
func (r *row) decode() (err error) {
	if r.raw == nil {
		r.Properties, err = rules.Untimed(r.ID, r.properties)
	} else {
		r.Properties, err = rules.Decode(r.raw)
	}
	if err != nil {
		return fmt.Errorf("read person %v: %w", r.ID, err)
	}
	r.decoded = true
	return nil
}

// querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// salvage reads the properties of a person whose registers are damaged. They lack their
// times, but otherwise the person would stop every batch that it is part of.
func (r *row) salvage(ctx context.Context, q querier) error {
	var object []byte
	if err := q.QueryRow(ctx, "SELECT properties::text FROM persons WHERE id = $1", r.ID).Scan(&object); err != nil {
		return fmt.Errorf("read person %v: %w", r.ID, err)
	}
	var err error
	if r.Properties, err = rules.Untimed(r.ID, object); err != nil {
		return fmt.Errorf("read person %v, whose registers are damaged too: %w", r.ID, err)
	}
	r.decoded = true
	return nil
}

// encode makes raw what is stored of the registers.
func (r *row) encode() { r.raw = r.Properties.AppendBinary(make([]byte, 0, len(r.raw)+64)) }

// known is the cache's form of it.
func (r *row) known() known.Person {
	return known.Person{ID: r.ID, CreatedMilli: r.CreatedMilli, UpdatedMilli: r.UpdatedMilli, Identified: r.Identified, Registers: r.raw}
}

func sortedIDs(set map[uuid.UUID]bool) []uuid.UUID {
	return slices.SortedFunc(maps.Keys(set), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}

// keysOf are the columns of distinct ids by which they are looked up.
func keysOf(refs []person.Ref) (projects [][16]byte, keys []string) {
	projects, keys = make([][16]byte, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		projects[i] = r.Project
		keys[i], _ = postgresdb.Key(r.Distinct, maxKey)
	}
	return projects, keys
}

// raw are ids in the form that the driver sends fastest.
func raw(ids []uuid.UUID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

func byRef(a, b person.Ref) int {
	return cmp.Or(bytes.Compare(a.Project[:], b.Project[:]), cmp.Compare(a.Distinct, b.Distinct))
}

// seen returns the person that each distinct id of deltas was last seen with: from the
// cache, else by a read without a lock. The read may find that some deltas say nothing new:
// seen removes those.
func (s *Store) seen(ctx context.Context, deltas *[]rules.Delta) (map[person.Ref]uuid.UUID, error) {
	guess := make(map[person.Ref]uuid.UUID, len(*deltas))
	var unseen []person.Ref
	for i := range *deltas {
		ref := (*deltas)[i].Ref
		if id, ok := s.cache.ID(ref); ok {
			guess[ref] = id
		} else {
			unseen = append(unseen, ref)
		}
	}
	if len(unseen) == 0 {
		return guess, nil
	}
	rows, err := s.look(ctx, unseen)
	if err != nil {
		return nil, err
	}
	s.learn(unseen, func(ref person.Ref) *row { return rows[ref] })
	*deltas = slices.DeleteFunc(*deltas, func(d rules.Delta) bool {
		r := rows[d.Ref]
		if r == nil {
			return false
		}
		guess[d.Ref] = r.ID
		return r.raw != nil && r.known().Covers(&d)
	})
	return guess, nil
}

// look reads persons without locking them.
func (s *Store) look(ctx context.Context, refs []person.Ref) (map[person.Ref]*row, error) {
	projects, keys := keysOf(refs)
	rows := make(map[person.Ref]*row, len(refs))
	err := s.db.Query(ctx, func(r pgx.Rows) error {
		var i int64
		p, err := scanRow(after{r, &i})
		if err == nil {
			rows[refs[i-1]] = p
		}
		return err
	}, selectUnlocked, projects, keys)
	if err != nil {
		return nil, fmt.Errorf("read the persons of %d distinct ids: %w", len(refs), err)
	}
	for _, r := range rows {
		if r.raw == nil && r.decode() == nil {
			r.encode()
		}
	}
	return rows, nil
}

// after scans rows with a number before the columns of a person.
type after struct {
	pgx.Row
	number *int64
}

func (a after) Scan(into ...any) error { return a.Row.Scan(append([]any{a.number}, into...)...) }
