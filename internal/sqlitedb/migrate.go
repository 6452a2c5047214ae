package sqlitedb

import (
	"context"
	"fmt"
)

// Migrate brings a component's tables to the newest version: step i leads from version i to
// i+1, and earlier steps are skipped. A released step is never edited. Migrate refuses a file
// of a newer version of the program.
func (d *DB) Migrate(ctx context.Context, component string, steps []string) error {
	return d.Write(ctx, func(tx *Tx) error {
		if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS tidemill_schema(component TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"); err != nil {
			return fmt.Errorf("make the table of versions: %w", err)
		}
		if _, err := tx.Exec("INSERT INTO tidemill_schema VALUES(?,0) ON CONFLICT DO NOTHING", component); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRow("SELECT version FROM tidemill_schema WHERE component=?", component).Scan(&version); err != nil {
			return fmt.Errorf("read the version of %s: %w", component, err)
		}
		if version > len(steps) {
			return fmt.Errorf("%s: its tables for %q are of version %d, this program knows %d: use the newer program", d.path, component, version, len(steps))
		}
		for i, s := range steps[version:] {
			if err := tx.script(s); err != nil {
				return fmt.Errorf("bring %s to version %d: %w", component, version+i+1, err)
			}
		}
		_, err := tx.Exec("UPDATE tidemill_schema SET version=? WHERE component=?", len(steps), component)
		return err
	})
}

// script runs several statements, which are not kept prepared.
func (tx *Tx) script(s string) error {
	_, err := tx.c.sql.ExecContext(context.Background(), s)
	return said(err)
}
