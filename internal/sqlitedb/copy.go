package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/tidemill/tidemill/internal/ownfile"
)

// copyPages is how many pages are copied in one step: 2 MiB. A copy that is given up ends with its step.
const copyPages = 256

// Copy writes the database as it is at one instant into a new file at to, while others read and
// write: all that was committed before Copy was called is in it, and of each transaction all or
// nothing. progress is told how many bytes of how many are copied; nil: nobody is. The log is not
// checkpointed meanwhile, so that it grows by what is written. The copy is not yet on disk when Copy
// returns. After an error nothing is at to.
func (d *DB) Copy(ctx context.Context, to string, progress func(done, of int64)) (err error) {
	f, err := ownfile.Open(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy the database: %w", said(err)), os.Remove(to))
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	if err := cancelled(ctx, d.closing); err != nil {
		return err
	}
	d.copying.Add(1)
	defer func() {
		d.copying.Add(-1)
		d.signalFold()
	}()
	c, err := d.connect(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := c.exec("BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() { // the pool uses the connection again
		if _, e := c.exec("ROLLBACK"); e != nil && err == nil {
			err = e
		}
	}()
	if err := (&Tx{c: c}).QueryRow("SELECT count(*) FROM sqlite_schema").Scan(new(int)); err != nil { // the snapshot is taken
		return err
	}
	return c.sql.Raw(func(dc any) error { return d.copyTo(ctx, dc, to, progress) })
}

// copyTo copies the snapshot of a connection.
func (d *DB) copyTo(ctx context.Context, dc any, to string, progress func(done, of int64)) error {
	from, ok := dc.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	})
	if !ok {
		return errors.New("the driver cannot copy a database")
	}
	b, err := from.NewBackup("file:" + uriPath(to) + "?_pragma=synchronous(0)&_pragma=journal_mode(OFF)")
	if err != nil {
		return err
	}
	for more := true; more; {
		if err = cancelled(ctx, d.closing); err != nil {
			break
		}
		if more, err = b.Step(copyPages); err != nil {
			break
		}
		if all := int64(b.PageCount()); progress != nil {
			progress((all-int64(b.Remaining()))*pageSize, all*pageSize)
		}
	}
	return errors.Join(err, b.Finish())
}

// cancelled says why a long work is to end; nil: it goes on.
func cancelled(ctx context.Context, closing <-chan struct{}) error {
	select {
	case <-closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// Size is how many bytes the database has: what a Copy of it will have, but for what is written meanwhile.
func (d *DB) Size(ctx context.Context) (bytes int64, err error) {
	err = d.Read(ctx, func(tx *Tx) error {
		return tx.QueryRow("SELECT page_count*page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes)
	})
	return bytes, err
}

// Versions are the versions of the components' tables, as Migrate has left them.
func (d *DB) Versions(ctx context.Context) (map[string]int, error) {
	all := map[string]int{}
	err := d.Read(ctx, func(tx *Tx) error {
		rows, err := tx.Query("SELECT component, version FROM tidemill_schema")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var component string
			var version int
			if err := rows.Scan(&component, &version); err != nil {
				return err
			}
			all[component] = version
		}
		return rows.Err()
	})
	return all, err
}

// Lock keeps every other process, and Open, out of the file at path until it is closed: a
// *LockedError where one has it. The file need not be there, its folder is made.
func Lock(path string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", path, err)
	}
	return lockFile(path + ".lock")
}
