package postgresdb

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// migrations are the steps of the tables: file number i leads from version i-1 to i. A
// released file is never edited. Each holds on an empty database, and on one that has the
// tables of the facts (projects, persons, …) with rows already: those are adopted.
//
// The first line of a file says which programs go on with the tables that it leaves:
// "-- oldest program: 3" are those that know 3 steps or more. So a step adds, and what is not used
// any more is taken away one version later. Names of our own tables are as Own takes them.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is an advisory lock of this database, held during a step. Any number does
// that nothing else uses.
const migrationLock = 7_203_115_942_066_317_001

// migrationTime is how long adopting large tables may take.
const migrationTime = 30 * time.Minute

// migrationTries is how often a step is begun that waits for a lock, each time for two seconds.
// Between, those that wait behind it go on.
const migrationTries = 30

// Migrate brings the tables to the newest version, each step in a transaction; several
// processes may call it at once. If they are current it only looks, once per DB. Tables of a newer
// version of the program are left as they are, if that version lets this one go on; else it refuses
// them.
func (d *DB) Migrate(ctx context.Context) error {
	select {
	case _, old := <-d.migrated:
		if !old {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.migrate(ctx, migrations); err != nil {
		d.migrated <- struct{}{}
		return fmt.Errorf("migrate PostgreSQL: %w", err)
	}
	close(d.migrated)
	return nil
}

// migrate does the steps of files that were not done.
func (d *DB) migrate(ctx context.Context, files fs.FS) error {
	all, err := fs.Glob(files, "migrations/*.sql") // sorted by name
	if err != nil {
		return err
	}
	version, oldest, err := d.version(ctx)
	for tries := 0; err == nil && version < len(all); {
		if err = d.step(ctx, files, all[version], version+1); Locked(err) && tries < migrationTries {
			tries, err = tries+1, nil
		}
		if err == nil {
			version, oldest, err = d.version(ctx)
		}
	}
	if err == nil && oldest > len(all) {
		return fmt.Errorf("the tables are of version %d, for programs that know %d; this one knows %d: use the newer program", version, oldest, len(all))
	}
	return err
}

// Locked reports whether a statement waited for a lock of another transaction too long.
func Locked(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "55P03"
}

// step does one step, unless another process has.
func (d *DB) step(ctx context.Context, files fs.FS, file string, to int) error {
	script, err := fs.ReadFile(files, file)
	if err != nil {
		return err
	}
	var oldest int
	if _, err := fmt.Sscanf(string(script), "-- oldest program: %d", &oldest); err != nil || oldest < 1 || oldest > to {
		return fmt.Errorf("%s does not say which is the oldest program that goes on", file)
	}
	return d.within(ctx, migrationTime, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, d.options(pgx.TxOptions{}), func(tx pgx.Tx) error {
			for _, s := range []string{"SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0", "SET LOCAL enable_seqscan = on",
				"SET LOCAL enable_hashjoin = on", "SET LOCAL client_min_messages = warning",
				fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock), "SET LOCAL lock_timeout = '2s'"} {
				if _, err := tx.Exec(ctx, s); err != nil {
					return err
				}
			}
			if err := d.MakeSchema(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, d.Own("CREATE TABLE IF NOT EXISTS @tidemill_migrations(version integer PRIMARY KEY, file text NOT NULL, oldest integer NOT NULL, at timestamptz NOT NULL DEFAULT now())")); err != nil {
				return err
			}
			var done bool
			if err := tx.QueryRow(ctx, d.Own("SELECT EXISTS (SELECT FROM @tidemill_migrations WHERE version >= $1)"), to).Scan(&done); err != nil || done {
				return err
			}
			if _, err := tx.Exec(ctx, d.Own(string(script)), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			_, err := tx.Exec(ctx, d.Own("INSERT INTO @tidemill_migrations(version, file, oldest) VALUES ($1, $2, $3)"), to, path.Base(file), oldest)
			return err
		})
	})
}

// version is the newest step that was done, and the oldest program that goes on; 0 if none was.
func (d *DB) version(ctx context.Context) (version, oldest int, err error) {
	err = d.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		var there bool
		if err := c.QueryRow(ctx, d.Own("SELECT to_regclass('@tidemill_migrations') IS NOT NULL")).Scan(&there); err != nil || !there {
			return err
		}
		return c.QueryRow(ctx, d.Own("SELECT coalesce(max(version),0), coalesce(max(oldest),0) FROM @tidemill_migrations")).Scan(&version, &oldest)
	})
	return version, oldest, err
}
