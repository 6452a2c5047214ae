// Package sqlitedb is the one SQLite file of all embedded stores: one process, one writer that
// commits many callers' changes together, several readers that see consistent snapshots without
// delaying it.
//
// WAL with synchronous=FULL: a nil error from Write means that the change is on disk. The
// pragmas behind this are read back, the library's version is checked against known corruption
// bugs, and a lock file keeps a second process out.
package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/ownfile"
)

// ErrFull says that no room is left: on the disk, in the quota or within Options.MaxBytes.
var ErrFull = errors.New("no room left for the database: make room on the disk; nothing is lost meanwhile")

// ErrClosed says that the database was closed.
var ErrClosed = errors.New("the database is closed")

// pageSize of a new file, in bytes. Rows are about a kilobyte and written once: a larger page
// holds more of them each time it is written.
const pageSize = 8192

// Options tune a database; the zero value is ready to use.
type Options struct {
	Readers  int   // connections for Read; 0 means 4
	CacheMiB int   // page cache of the writer; 0 means 48. Readers have a twelfth each.
	WALMiB   int64 // size at which the log is checkpointed; 0 means 64
	MaxBytes int64 // largest size of the file; 0: the disk's

	// Fault is for tests. It is called before each statement of a transaction, and may say how
	// that fails (see Fault). Nil: none fails.
	Fault func(tx *Tx) Fault
}

// DB is an open database file.
type DB struct {
	path    string
	o       Options
	pool    *sql.DB // opens connections; all of them are below
	lock    *os.File
	readers chan *conn
	looking chan struct{} // cap: how many readers those have who only look
	patient time.Duration // how long one of them waits for the others

	urgent   chan *request // with a context of giveway.First
	requests chan *request // all others
	gate     giveway.Gate  // the writer's
	closing  chan struct{}
	close    sync.Once
	closed   error
	done     sync.WaitGroup
	stats    stats
	fold     chan struct{} // cap 1: the log has grown
	folded   chan struct{} // cap 1: the writer has to restart the log
	copying  atomic.Int32  // copies under way: each holds its snapshot of the log
}

// Open opens or creates the file at path for this process alone.
func Open(ctx context.Context, path string, o Options) (_ *DB, err error) {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.CacheMiB <= 0 {
		o.CacheMiB = 48
	}
	if o.WALMiB <= 0 {
		o.WALMiB = 64
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", path, err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	d := &DB{path: path, o: o, lock: lock, readers: make(chan *conn, o.Readers),
		looking: make(chan struct{}, lookers(o.Readers)), patient: lookPatience, urgent: make(chan *request, 1024), requests: make(chan *request, 1024),
		closing: make(chan struct{}), fold: make(chan struct{}, 1), folded: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			if d.pool != nil {
				_ = d.pool.Close()
			}
			_ = lock.Close()
		}
	}()
	// Made here, so that only its owner can read it; its log gets the same rights. SQLite
	// follows no link to a log.
	if f, err := ownfile.Open(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if d.pool, err = openPool(path); err != nil {
		return nil, err
	}
	d.pool.SetMaxIdleConns(o.Readers + 2)
	w, err := d.connect(ctx, o.CacheMiB)
	if err != nil {
		return nil, err
	}
	if err := d.check(w); err != nil {
		return nil, err
	}
	folder, err := d.connect(ctx, 2)
	if err != nil {
		return nil, err
	}
	for range o.Readers {
		r, err := d.connect(ctx, max(o.CacheMiB/12, 2))
		if err != nil {
			return nil, err
		}
		if _, err := r.exec("PRAGMA query_only=1"); err != nil {
			return nil, fmt.Errorf("open %s for reading: %w", path, err)
		}
		d.readers <- r
	}
	d.done.Go(func() { d.write(w) })
	d.done.Go(func() { d.checkpoint(folder) })
	return d, nil
}

func openPool(path string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector("file:" + uriPath(path) + "?_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return sql.OpenDB(connector), nil
}

// Path is the path of the file.
func (d *DB) Path() string { return d.path }

// Close waits for running writes, checkpoints the log and releases the file.
func (d *DB) Close() error {
	d.close.Do(func() {
		close(d.closing)
		d.done.Wait()
		for range d.o.Readers { // readers still return their connections
			r := <-d.readers
			d.closed = errors.Join(d.closed, r.close())
		}
		d.closed = errors.Join(d.closed, d.pool.Close(), d.lock.Close())
	})
	return d.closed
}

// connect opens one connection with its settings.
func (d *DB) connect(ctx context.Context, cacheMiB int) (*conn, error) {
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.path, said(err))
	}
	n := newConn(c)
	for _, p := range []string{
		fmt.Sprintf("page_size=%d", pageSize), // of a new file; before anything else
		"busy_timeout=10000", "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0", "foreign_keys=1",
		"temp_store=MEMORY", "trusted_schema=0", fmt.Sprintf("cache_size=-%d", cacheMiB<<10),
		fmt.Sprintf("journal_size_limit=%d", d.o.WALMiB<<22), // a log that grew during a copy gives its room back
	} {
		if _, err := n.exec("PRAGMA " + p); err != nil {
			return nil, fmt.Errorf("set pragma %s of %s: %w", p, d.path, err)
		}
	}
	return n, nil
}

// Check verifies the file, by a connection of its own: a kept one may remember parts of an
// index that was rebuilt since, and report damage. It returns "ok", or the first problem.
func (d *DB) Check(ctx context.Context) (result string, err error) {
	return d.checked(ctx, "quick_check(1)")
}

// CheckWhole is Check, and compares each index with its table too, which takes longer.
func (d *DB) CheckWhole(ctx context.Context) (result string, err error) {
	return d.checked(ctx, "integrity_check(1)")
}

func (d *DB) checked(ctx context.Context, by string) (result string, err error) {
	pool, err := openPool(d.path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	if _, err := pool.ExecContext(ctx, "PRAGMA busy_timeout=10000"); err != nil {
		return "", fmt.Errorf("check %s: %w", d.path, said(err))
	}
	if err := pool.QueryRowContext(ctx, "PRAGMA "+by).Scan(&result); err != nil {
		return "", fmt.Errorf("check %s: %w", d.path, said(err))
	}
	return result, nil
}

// check reads back the settings behind durability.
func (d *DB) check(c *conn) error {
	if d.o.MaxBytes > 0 {
		if _, err := c.exec(fmt.Sprintf("PRAGMA max_page_count=%d", max(d.o.MaxBytes/pageSize, 64))); err != nil {
			return fmt.Errorf("limit the size of %s: %w", d.path, err)
		}
	}
	var version, mode string
	var sync int
	tx := &Tx{c: c}
	if err := errors.Join(
		tx.QueryRow("SELECT sqlite_version()").Scan(&version),
		tx.QueryRow("PRAGMA journal_mode").Scan(&mode),
		tx.QueryRow("PRAGMA synchronous").Scan(&sync)); err != nil {
		return fmt.Errorf("read back the settings of %s: %w", d.path, err)
	}
	if !soundVersion(version) {
		return fmt.Errorf("SQLite %s can corrupt a database when its log restarts; 3.51.3, 3.53.0 or newer is needed", version)
	}
	if mode != "wal" || sync != 2 {
		return fmt.Errorf("%s: journal_mode=%s synchronous=%d; wal and 2 (FULL) were asked for: is the file on a network share?", d.path, mode, sync)
	}
	return nil
}

// soundVersion reports whether a version is free of the WAL-reset bug: 3.51 from 3.51.3 on, and
// 3.53 and newer (sqlite.org/changes.html).
func soundVersion(v string) bool {
	var a, b, c int
	if _, err := fmt.Sscanf(v, "%d.%d.%d", &a, &b, &c); err != nil {
		return false
	}
	return a > 3 || a == 3 && (b >= 53 || b == 51 && c >= 3)
}

// uriPath escapes characters with a meaning in a file: URI.
func uriPath(p string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(p))
}

// said gives an error of the driver its kind, and ErrFull if that is its cause.
func said(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			// Not a failed try: writers wait until there is room.
			return &tidemill.Error{Kind: tidemill.RateLimit, After: time.Second, Err: fmt.Errorf("%w: %w", ErrFull, err)}
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return &tidemill.Error{Kind: tidemill.Transient, Err: err}
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return &tidemill.Error{Kind: tidemill.Internal, Err: fmt.Errorf("the database file is damaged; restore it from a backup: %w", err)}
		}
	}
	return err
}
