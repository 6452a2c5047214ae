// Package sqlitewindow keeps windows in the embedded SQLite file: durable, with a checksum
// of every record, and with nothing to install.
package sqlitewindow

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
)

// Records lie in the order of their keys (see window.AppendKey), so that a page is a range
// and neighbours are written beside each other. Sweep deletes settled records, a part at a
// time: window_trash names their windows. Text is kept as blobs, byte for byte; times are
// milliseconds, 0: none. State is 0 active, 1 ready, 2 leased, 3 parked; line is above 0
// where it is 1 or 2.
var schema = []string{`
CREATE TABLE window_batch(
	revision INTEGER PRIMARY KEY,
	batch    BLOB NOT NULL,
	state    INTEGER NOT NULL,
	records  INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	puts     INTEGER NOT NULL,
	expect   INTEGER NOT NULL,
	lost     INTEGER NOT NULL DEFAULT 0,
	opened   INTEGER NOT NULL,
	closed   INTEGER NOT NULL DEFAULT 0,
	why      TEXT NOT NULL DEFAULT '',
	line     INTEGER NOT NULL DEFAULT 0,
	epoch    INTEGER NOT NULL DEFAULT 0,
	due      INTEGER NOT NULL DEFAULT 0,
	owner    BLOB,
	handed   INTEGER NOT NULL DEFAULT 0,
	tries    INTEGER NOT NULL DEFAULT 0,
	replays  INTEGER NOT NULL DEFAULT 0,
	failed   INTEGER NOT NULL DEFAULT 0,
	kind     INTEGER NOT NULL DEFAULT 0,
	cause    BLOB
);
CREATE UNIQUE INDEX window_active ON window_batch(batch) WHERE state=0;
CREATE INDEX window_opened ON window_batch(opened, revision) WHERE state=0;
CREATE INDEX window_full ON window_batch(revision) WHERE state=0 AND expect>0 AND records>=expect;
CREATE INDEX window_state ON window_batch(state, revision);
CREATE INDEX window_out ON window_batch(revision) WHERE line>0;
CREATE UNIQUE INDEX window_line ON window_batch(batch, line) WHERE line>0;
CREATE TABLE window_record(
	revision INTEGER NOT NULL,
	key      BLOB NOT NULL,
	put      INTEGER NOT NULL,
	body     BLOB NOT NULL,
	sum      INTEGER NOT NULL,
	PRIMARY KEY(revision, key)
) WITHOUT ROWID;
CREATE TABLE window_trash(revision INTEGER PRIMARY KEY);
CREATE TABLE window_books(
	one       INTEGER PRIMARY KEY CHECK(one = 1),
	revision  INTEGER NOT NULL DEFAULT 0,
	line      INTEGER NOT NULL DEFAULT 0,
	accepted  INTEGER NOT NULL DEFAULT 0,
	delivered INTEGER NOT NULL DEFAULT 0,
	skipped   INTEGER NOT NULL DEFAULT 0,
	dead      INTEGER NOT NULL DEFAULT 0,
	lost      INTEGER NOT NULL DEFAULT 0,
	windows0  INTEGER NOT NULL DEFAULT 0,
	records0  INTEGER NOT NULL DEFAULT 0,
	windows1  INTEGER NOT NULL DEFAULT 0,
	records1  INTEGER NOT NULL DEFAULT 0,
	windows2  INTEGER NOT NULL DEFAULT 0,
	records2  INTEGER NOT NULL DEFAULT 0,
	windows3  INTEGER NOT NULL DEFAULT 0,
	records3  INTEGER NOT NULL DEFAULT 0
);
INSERT INTO window_books(one) VALUES(1);
`}

// Store keeps windows in a SQLite file.
type Store struct {
	db *sqlitedb.DB
	o  window.Options

	bell bell.Bell // rings when a window may be handed out
}

var _ window.Store = (*Store)(nil)

// New opens the windows of db and makes missing tables. A file has one store at a time: New
// assumes that the process that had windows out is dead, and hands them out again at once.
func New(ctx context.Context, db *sqlitedb.DB, o window.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "window", schema); err != nil {
		return nil, fmt.Errorf("open the windows: %w", err)
	}
	if err := db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE window_batch SET due=1 WHERE state=2") // long over: an end in flight still counts
		return err
	}); err != nil {
		return nil, fmt.Errorf("open the windows: %w", err)
	}
	return &Store{db: db, o: o}, nil
}
