package sqliteprofile

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// lookupKeys is how many keys one statement looks up at most.
const lookupKeys = 256

const (
	selectOwners     = "SELECT value, profile FROM profile_identity WHERE tenant=? AND kind=? AND value IN (?"
	selectCounts     = "SELECT profile, kind, count(*) FROM profile_identity WHERE profile IN (?"
	selectRecords    = "SELECT id, created, updated, registers FROM profile WHERE tenant=? AND id IN (?"
	insertProfiles   = "INSERT INTO profile(tenant,id,created,updated) VALUES "
	insertIdentities = "INSERT INTO profile_identity(tenant,kind,value,profile) VALUES "
	updateProfiles   = "UPDATE profile SET updated=v.column3, attributes=v.column4, registers=v.column5 FROM (VALUES "
)

// among selects rows by n keys, with few statements of few lengths: the last key fills up
// the rest.
func among(tx *sqlitedb.Tx, head, tail string, first []any, n int, key func(i int) any, row func(*sql.Rows) error) error {
	for from := 0; from < n; from += lookupKeys {
		size := 1
		for size < min(n-from, lookupKeys) {
			size *= 4
		}
		args := append(make([]any, 0, len(first)+size), first...)
		for i := range size {
			args = append(args, key(min(from+i, n-1)))
		}
		if err := each(tx, head+strings.Repeat(",?", size-1)+")"+tail, args, row); err != nil {
			return err
		}
	}
	return nil
}

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

// runs calls do for each longest run of elements of all that belong together; all is
// sorted.
func runs[T any](all []T, together func(a, b T) bool, do func(part []T) error) error {
	for len(all) > 0 {
		n := 1
		for n < len(all) && together(all[0], all[n]) {
			n++
		}
		if err := do(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// load reads what a batch needs: one statement for each tenant and kind.
func load(tx *sqlitedb.Tx, b *rules.Batch) error {
	var value string
	var id sql.RawBytes
	together := func(a, b rules.Name) bool { return a.Tenant == b.Tenant && a.Kind == b.Kind }
	if err := runs(b.Names, together, func(names []rules.Name) error {
		n := names[0]
		return among(tx, selectOwners, "", []any{n.Tenant, n.Kind}, len(names), func(i int) any { return names[i].Value }, func(rows *sql.Rows) error {
			if err := rows.Scan(&value, &id); err != nil {
				return err
			}
			n.Value = value
			b.Has(n, uuid.UUID(id))
			return nil
		})
	}); err != nil {
		return fmt.Errorf("look up identities: %w", err)
	}
	crowd := b.Crowd()
	if err := among(tx, selectCounts, " GROUP BY profile, kind", nil, len(crowd), func(i int) any { return crowd[i].ID[:] }, func(rows *sql.Rows) error {
		var k profile.Kind
		var n int
		err := rows.Scan(&id, &k, &n)
		if err == nil {
			b.Counts(uuid.UUID(id), k, n)
		}
		return err
	}); err != nil {
		return fmt.Errorf("count identities: %w", err)
	}
	return nil
}

// store writes what a batch has decided.
func (s *Store) store(tx *sqlitedb.Tx, b *rules.Batch) error {
	now := s.o.Now().UnixMilli()
	args := make([]any, 0, 4*len(b.Given))
	for _, o := range b.Created {
		args = append(args, o.Tenant, o.ID[:], now, now)
	}
	if _, err := tx.Bulk(insertProfiles, "(?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("create %d profiles: %w", len(b.Created), err)
	}
	args = args[:0]
	for _, g := range b.Given {
		args = append(args, g.Tenant, uint8(g.Kind), g.Value, g.Profile[:])
	}
	if _, err := tx.Bulk(insertIdentities, "(?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("attach %d identities: %w", len(b.Given), err)
	}
	return nil
}

// update applies an edit on the writer.
func (s *Store) update(tx *sqlitedb.Tx, e *rules.Edit) error {
	together := func(a, b rules.Owner) bool { return a.Tenant == b.Tenant }
	if err := runs(e.Owners, together, func(owners []rules.Owner) error {
		tenant := owners[0].Tenant
		return among(tx, selectRecords, "", []any{tenant}, len(owners), func(i int) any { return owners[i].ID[:] }, func(rows *sql.Rows) error {
			r, registers, err := scan(rows, tenant)
			if err != nil {
				return err
			}
			r.Registers, err = rules.Decode(r.ID, registers)
			e.Found(r, err)
			return nil
		})
	}); err != nil {
		return fmt.Errorf("read profiles: %w", err)
	}
	e.Apply(s.o.Now())
	args := make([]any, 0, 5*len(e.Changed))
	for _, r := range e.Changed {
		args = append(args, r.Tenant, r.ID[:], r.Updated, string(r.Registers.AppendJSON(nil)), r.Registers.AppendBinary(nil))
	}
	if _, err := tx.Bulk(updateProfiles, "(?,?,?,?,?)", ") AS v WHERE tenant=v.column1 AND id=v.column2", args); err != nil {
		return fmt.Errorf("write profiles: %w", err)
	}
	return nil
}

// scan reads the columns of selectRecords.
func scan(rows *sql.Rows, tenant string) (r *rules.Record, registers []byte, err error) {
	r = &rules.Record{Owner: rules.Owner{Tenant: tenant}}
	var id sql.RawBytes
	if err := rows.Scan(&id, &r.Created, &r.Updated, &registers); err != nil {
		return nil, nil, err
	}
	r.ID = uuid.UUID(id)
	return r, registers, nil
}
