package postgresdb

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// migrations are the steps of the tables: file number i leads from version i-1 to i. A
// released file is never edited. Each holds on an empty database, and on one that has the
// tables of the facts (projects, persons, …) with rows already: those are adopted.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is an advisory lock of this database, held during a migration. Any number does
// that nothing else uses.
const migrationLock = 7_203_115_942_066_317_001

// migrationTime is how long adopting large tables may take.
const migrationTime = 30 * time.Minute

// Migrate brings the tables to the newest version, all steps in one transaction; several
// processes may call it at once. If they are current it only looks, once per DB. It refuses
// tables of a newer version of the program.
func (d *DB) Migrate(ctx context.Context) error {
	select {
	case _, old := <-d.migrated:
		if !old {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.migrate(ctx); err != nil {
		d.migrated <- struct{}{}
		return fmt.Errorf("migrate PostgreSQL: %w", err)
	}
	close(d.migrated)
	return nil
}

func (d *DB) migrate(ctx context.Context) error {
	files, err := migrations.ReadDir("migrations") // sorted by name
	if err != nil {
		return err
	}
	if version, err := d.version(ctx); err != nil || version == len(files) {
		return err
	}
	return d.within(ctx, migrationTime, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, d.options(pgx.TxOptions{}), func(tx pgx.Tx) error {
			for _, s := range []string{"SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0", "SET LOCAL enable_seqscan = on",
				"SET LOCAL enable_hashjoin = on", "SET LOCAL client_min_messages = warning",
				fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock),
				"CREATE TABLE IF NOT EXISTS tidemill_migrations(version integer PRIMARY KEY, file text NOT NULL, at timestamptz NOT NULL DEFAULT now())"} {
				if _, err := tx.Exec(ctx, s); err != nil {
					return err
				}
			}
			var version int
			if err := tx.QueryRow(ctx, "SELECT coalesce(max(version),0) FROM tidemill_migrations").Scan(&version); err != nil {
				return err
			}
			if version > len(files) {
				return fmt.Errorf("the tables are of version %d, this program knows %d: use the newer program", version, len(files))
			}
			for i, f := range files[version:] {
				script, err := migrations.ReadFile("migrations/" + f.Name())
				if err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, string(script), pgx.QueryExecModeSimpleProtocol); err != nil {
					return fmt.Errorf("%s: %w", f.Name(), err)
				}
				if _, err := tx.Exec(ctx, "INSERT INTO tidemill_migrations(version, file) VALUES ($1, $2)", version+i+1, f.Name()); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// version is the newest step that was done, 0 if none was.
func (d *DB) version(ctx context.Context) (version int, err error) {
	err = d.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		var there bool
		if err := c.QueryRow(ctx, "SELECT to_regclass('tidemill_migrations') IS NOT NULL").Scan(&there); err != nil || !there {
			return err
		}
		return c.QueryRow(ctx, "SELECT coalesce(max(version),0) FROM tidemill_migrations").Scan(&version)
	})
	return version, err
}
