package postgresdb

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/preflight"
)

// grants has $OWNER, $ROLE and $SCHEMA where names go.
//
//go:embed grants.sql
var grants string

// Grants are the statements that an administrator runs once, so that one role owns the tables, which
// makes and changes them, and the program runs as another, which reads and writes their rows. schema
// is that of our own tables; empty: public, where all are.
func Grants(schema, owner, role string) (string, error) {
	for _, name := range []string{owner, role} {
		if !schemas.MatchString(name) || strings.HasPrefix(name, "pg_") {
			return "", fmt.Errorf("invalid role %q; want a-z, 0-9 and _, at most 63, a letter first, and not pg_", name)
		}
	}
	if owner == role {
		return "", fmt.Errorf("the owner of the tables and the role of the program are both %s; one role needs no grants", owner)
	}
	both := schema + ", public"
	if schema == "" {
		schema, both = "public", "public"
	}
	return strings.NewReplacer("$OWNER", `"`+owner+`"`, "$ROLE", `"`+role+`"`, "$SCHEMAS", both, "$SCHEMA", schema).Replace(grants), nil
}

// missing lists what the role of the session lacks, of what a program does: the use of schemas, and
// of the tables and sequences that are there, ours and the foreign ones.
const missing = `SELECT coalesce(string_agg(DISTINCT what, ', ' ORDER BY what), '') FROM (
	SELECT 'USAGE on schema ' || nspname AS what FROM pg_namespace n WHERE nspname = $1 AND NOT has_schema_privilege(n.oid, 'USAGE')
	UNION ALL
	SELECT p || ' on ' || c.oid::regclass FROM pg_class c, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p
		WHERE relkind = 'r' AND ` + ours + ` AND has_schema_privilege(relnamespace, 'USAGE') AND NOT has_table_privilege(c.oid, p)
	UNION ALL
	SELECT 'USAGE on ' || c.oid::regclass FROM pg_class c
		WHERE CASE WHEN relkind = 'S' AND ` + ours + ` AND has_schema_privilege(relnamespace, 'USAGE') THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
		AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'i') -- an identity needs no right
	) lacks`

// ours are the tables of a program: those of its own in their schema, and the foreign ones.
const ours = `(relnamespace::regnamespace::text = coalesce(nullif($1, ''), current_schema()) AND relname LIKE 'tidemill\_%'
	OR relnamespace::regnamespace::text = current_schema() AND relname IN ('projects', 'persons', 'person_distinct_ids', 'event_definitions', 'property_definitions', 'event_properties'))`

// judgeRights says what the role of the program lacks.
func (d *DB) judgeRights(ctx context.Context) preflight.Finding {
	f := preflight.Finding{Check: "postgres: rights", Verdict: preflight.OK}
	var role, lacks string
	err := d.Query(ctx, func(r pgx.Rows) error { return r.Scan(&role, &lacks) }, "SELECT current_user, ("+missing+")", d.schema)
	f.Detail = fmt.Sprintf("role %q reads and writes all tables that are there", role)
	switch advice := "run what `tidemill postgres grants` prints, as an administrator"; {
	case err != nil:
		f.Verdict, f.Detail, f.Advice = preflight.Fail, err.Error(), advice
	case lacks != "":
		f.Verdict, f.Detail, f.Advice = preflight.Fail, fmt.Sprintf("role %q lacks %s", role, lacks), advice
	}
	return f
}
