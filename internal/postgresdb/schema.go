package postgresdb

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The parameter schema of a URL says where the tables are that this product makes for itself, those
// that begin with tidemill_. Tables of other programs' forms (persons, projects, …) are where
// search_path says.

// schemas are the names that need no care in any text.
var schemas = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// takeSchema takes the parameter out of the settings of sessions, and returns what names begin with.
func takeSchema(c *pgx.ConnConfig) (name, prefix string, err error) {
	name, given := c.RuntimeParams["schema"]
	delete(c.RuntimeParams, "schema")
	if !given {
		return "", "", nil
	}
	if !schemas.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return "", "", fmt.Errorf("invalid schema %q in its URL; want a-z, 0-9 and _, at most 63, a letter first, and not pg_", name)
	}
	return name, `"` + name + `".`, nil
}

// Schema is the parameter schema of the URL; empty: there is none.
func (d *DB) Schema() string { return d.schema }

// Own is a statement with the names of our own tables, sequences and views, which are written
// @tidemill_… in it, in their schema.
func (d *DB) Own(statement string) string {
	return strings.ReplaceAll(statement, "@tidemill_", d.prefix+"tidemill_")
}

// MakeSchema makes the schema of our own tables, if it is not there. Nobody else has a right to it
// then.
func (d *DB) MakeSchema(ctx context.Context, tx pgx.Tx) error {
	if d.schema == "" {
		return nil
	}
	there := false // asked first: IF NOT EXISTS needs the right to make one
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", d.schema).Scan(&there); err != nil || there {
		return err
	}
	_, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+d.schema+`"`)
	return err
}

// Alone calls do with a connection of its own, whose statements may take any time: for those that are
// no part of a transaction, such as CREATE INDEX CONCURRENTLY. They are sent as they are.
func (d *DB) Alone(ctx context.Context, do func(*pgx.Conn) error) error {
	c := d.pool.Config().ConnConfig
	if d.local == "" { // behind a pooler a session has only the server's own settings
		c.RuntimeParams["statement_timeout"], c.RuntimeParams["lock_timeout"] = "0", "0"
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return said(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return said(do(conn))
}
