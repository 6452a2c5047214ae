package postgresprofile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// Names are looked up one after the other: a join would be planned for the empty table, as
// reading all of it. OFFSET 0 keeps the order, which is the order of locks.
const (
	selectOwners = `SELECT asked.i, found.profile FROM unnest($1::text[], $2::smallint[], $3::text[]) WITH ORDINALITY asked(tenant, kind, value, i),
		LATERAL (SELECT profile FROM tidemill_profile_identity WHERE tenant = asked.tenant AND kind = asked.kind AND value = asked.value OFFSET 0) found`

	selectCounts = `SELECT asked.id, found.kind, found.n FROM unnest($1::uuid[]) asked(id),
		LATERAL (SELECT kind, count(*) n FROM tidemill_profile_identity WHERE profile = asked.id GROUP BY kind OFFSET 0) found`

	byOwner = ` FROM (SELECT * FROM unnest($1::text[], $2::uuid[]) k(tenant, id) ORDER BY tenant COLLATE "C", id OFFSET 0) asked,
		LATERAL (SELECT * FROM tidemill_profile WHERE tenant = asked.tenant AND id = asked.id `

	// holdProfiles keeps profiles from being deleted, and blocks nothing else.
	holdProfiles = "SELECT found.id" + byOwner + "FOR KEY SHARE) found"

	lockProfiles = "SELECT found.tenant, found.id, found.created, found.updated, found.registers" + byOwner + "FOR NO KEY UPDATE) found"

	insertProfiles = `INSERT INTO tidemill_profile(tenant, id, created, updated)
		SELECT k.tenant, k.id, $3, $3 FROM unnest($1::text[], $2::uuid[]) k(tenant, id)`

	insertIdentities = `INSERT INTO tidemill_profile_identity(tenant, kind, value, profile)
		SELECT k.tenant, k.kind, k.value, k.profile
		FROM unnest($1::text[], $2::smallint[], $3::text[], $4::uuid[]) k(tenant, kind, value, profile)
		ORDER BY k.tenant COLLATE "C", k.kind, k.value COLLATE "C"
		ON CONFLICT DO NOTHING`

	updateProfiles = `UPDATE tidemill_profile p SET updated = k.updated, attributes = k.attributes::json, registers = k.registers
		FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::text[], $5::bytea[]) k(tenant, id, updated, attributes, registers)
		WHERE p.tenant = k.tenant AND p.id = k.id`
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// load reads what a batch needs.
func load(ctx context.Context, q querier, b *rules.Batch) error {
	tenants, kinds, values := columns(b.Names)
	rows, err := q.Query(ctx, selectOwners, tenants, kinds, values)
	if err := postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		var i int64
		var id [16]byte
		err := rows.Scan(&i, &id)
		if err == nil {
			b.Has(b.Names[i-1], id)
		}
		return err
	}); err != nil {
		return fmt.Errorf("look up identities: %w", err)
	}
	crowd := b.Crowd()
	if len(crowd) == 0 {
		return nil
	}
	_, ids := owners(crowd)
	rows, err = q.Query(ctx, selectCounts, ids)
	if err := postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		var id [16]byte
		var k int16
		var n int
		err := rows.Scan(&id, &k, &n)
		if err == nil {
			b.Counts(id, profile.Kind(k), n)
		}
		return err
	}); err != nil {
		return fmt.Errorf("count identities: %w", err)
	}
	return nil
}

// columns are names in the form of statements.
func columns(names []rules.Name) (tenants []string, kinds []int16, values []string) {
	for _, n := range names {
		tenants, kinds, values = append(tenants, n.Tenant), append(kinds, int16(n.Kind)), append(values, n.Value)
	}
	return tenants, kinds, values
}

// owners are profiles in the form of statements; not uuid.UUID, which the driver needs four
// times longer to send.
func owners(os []rules.Owner) (tenants []string, ids [][16]byte) {
	for _, o := range os {
		tenants, ids = append(tenants, o.Tenant), append(ids, o.ID)
	}
	return tenants, ids
}

// store writes what a batch has decided in one round trip, or returns errRaced: then
// everything is to be undone.
func (s *Store) store(ctx context.Context, tx pgx.Tx, b *rules.Batch) error {
	todo := &pgx.Batch{}
	held, given := 0, int64(0)
	if len(b.Attached) > 0 {
		tenants, ids := owners(b.Attached)
		todo.Queue(holdProfiles, tenants, ids).Query(func(rows pgx.Rows) error {
			return postgresdb.Each(rows, nil, func(pgx.Rows) error { held++; return nil })
		})
	}
	if len(b.Created) > 0 {
		tenants, ids := owners(b.Created)
		todo.Queue(insertProfiles, tenants, ids, s.now())
	}
	names, profiles := make([]rules.Name, len(b.Given)), make([][16]byte, len(b.Given))
	for i, g := range b.Given {
		names[i], profiles[i] = g.Name, g.Profile
	}
	tenants, kinds, values := columns(names)
	todo.Queue(insertIdentities, tenants, kinds, values, profiles).Exec(func(tag pgconn.CommandTag) error {
		given = tag.RowsAffected()
		return nil
	})
	if err := tx.SendBatch(ctx, todo).Close(); err != nil {
		return fmt.Errorf("create %d profiles and attach %d identities: %w", len(b.Created), len(b.Given), err)
	}
	if held < len(b.Attached) || given < int64(len(b.Given)) {
		return errRaced
	}
	return nil
}

func (s *Store) now() time.Time { return time.UnixMilli(s.o.Now().UnixMilli()) }

// update locks, changes and writes the profiles of an edit.
func (s *Store) update(ctx context.Context, tx pgx.Tx, e *rules.Edit) error {
	tenants, ids := owners(e.Owners)
	rows, err := tx.Query(ctx, lockProfiles, tenants, ids)
	if err := postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		r, registers, err := scan(rows)
		if err != nil {
			return err
		}
		r.Registers, err = rules.Decode(r.ID, registers)
		e.Found(r, err)
		return nil
	}); err != nil {
		return fmt.Errorf("lock profiles: %w", err)
	}
	e.Apply(s.o.Now())
	n := len(e.Changed)
	if n == 0 {
		return nil
	}
	tenants, ids = make([]string, n), make([][16]byte, n)
	updated, attributes, registers := make([]time.Time, n), make([]string, n), make([][]byte, n)
	for i, r := range e.Changed {
		tenants[i], ids[i], updated[i] = r.Tenant, r.ID, time.UnixMilli(r.Updated)
		attributes[i], registers[i] = string(readable(r.Registers.AppendJSON(nil))), r.Registers.AppendBinary(nil)
	}
	if _, err := tx.Exec(ctx, updateProfiles, tenants, ids, updated, attributes, registers); err != nil {
		return fmt.Errorf("write profiles: %w", err)
	}
	return nil
}

// scan reads tenant, id, created, updated and registers, and more columns into more.
func scan(rows pgx.Rows, more ...any) (*rules.Record, []byte, error) {
	r := new(rules.Record)
	var registers []byte
	var created, updated time.Time
	if err := rows.Scan(slices.Concat([]any{&r.Tenant, (*[16]byte)(&r.ID), &created, &updated, &registers}, more)...); err != nil {
		return nil, nil, err
	}
	r.Created, r.Updated = created.UnixMilli(), updated.UnixMilli()
	return r, registers, nil
}
