// Package sqlitedeadletter keeps dead letters in the embedded SQLite file: durable, with a
// checksum of every message, and with nothing to install.
package sqlitedeadletter

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Changing columns are kept apart from unchanging ones: marking a hundred thousand dead
// letters as replaying must not rewrite their payloads. Text is kept as blobs, byte for
// byte. Times are milliseconds, 0: none. State is 0 held, 1 replaying.
var schema = []string{`
CREATE TABLE deadletter(
	seq      INTEGER PRIMARY KEY,
	pipeline BLOB NOT NULL,
	tenant   BLOB NOT NULL,
	id       BLOB NOT NULL,
	shard    INTEGER NOT NULL,
	hi       INTEGER NOT NULL,
	lo       INTEGER NOT NULL,
	kind     INTEGER NOT NULL,
	first    INTEGER NOT NULL,
	last     INTEGER NOT NULL,
	deaths   INTEGER NOT NULL,
	history  BLOB NOT NULL,
	state    INTEGER NOT NULL DEFAULT 0,
	damaged  INTEGER NOT NULL DEFAULT 0,
	replays  INTEGER NOT NULL DEFAULT 0,
	asked    INTEGER NOT NULL DEFAULT 0,
	handed   INTEGER NOT NULL DEFAULT 0,
	burnt    INTEGER NOT NULL DEFAULT 0,
	epoch    INTEGER NOT NULL DEFAULT 0,
	due      INTEGER NOT NULL DEFAULT 0,
	until    INTEGER NOT NULL DEFAULT 0,
	edited   INTEGER NOT NULL DEFAULT 0,
	UNIQUE(pipeline, id, tenant)
);
CREATE INDEX deadletter_state ON deadletter(pipeline, state);
CREATE TABLE deadletter_body(
	seq      INTEGER PRIMARY KEY,
	message  BLOB NOT NULL,
	payload  BLOB,
	row      BLOB,
	original BLOB,
	sum      INTEGER NOT NULL
);
CREATE TRIGGER deadletter_gone AFTER DELETE ON deadletter BEGIN DELETE FROM deadletter_body WHERE seq = old.seq; END;
CREATE TABLE deadletter_books(
	pipeline BLOB PRIMARY KEY,
	put      INTEGER NOT NULL,
	replayed INTEGER NOT NULL,
	skipped  INTEGER NOT NULL,
	lost     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE deadletter_seq(one INTEGER PRIMARY KEY CHECK(one = 1), newest INTEGER NOT NULL);
INSERT INTO deadletter_seq VALUES(1, 0);
`}

// Store keeps dead letters in a SQLite file.
type Store struct {
	db *sqlitedb.DB
	o  deadletter.Options

	bell bell.Bell // rings when a dead letter may be handed out
}

var _ deadletter.Store = (*Store)(nil)

// New opens the dead letters of db and makes missing tables. A file has one store at a
// time: New assumes that the process that had dead letters out for replay is dead, and
// hands them out again at once.
func New(ctx context.Context, db *sqlitedb.DB, o deadletter.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "deadletter", schema); err != nil {
		return nil, fmt.Errorf("open the dead letters: %w", err)
	}
	if err := db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE deadletter SET until=1 WHERE state=1 AND until>1") // long over: an end in flight still counts
		return err
	}); err != nil {
		return nil, fmt.Errorf("open the dead letters: %w", err)
	}
	return &Store{db: db, o: o}, nil
}

// books is a change of the books of one pipeline.
type books struct{ put, replayed, skipped, lost int64 }

func (b books) add(tx *sqlitedb.Tx, pipeline string) error {
	if b == (books{}) {
		return nil
	}
	if _, err := tx.Exec(`INSERT INTO deadletter_books VALUES(?,?,?,?,?) ON CONFLICT(pipeline) DO UPDATE SET
		put=put+excluded.put, replayed=replayed+excluded.replayed, skipped=skipped+excluded.skipped, lost=lost+excluded.lost`,
		[]byte(pipeline), b.put, b.replayed, b.skipped, b.lost); err != nil {
		return fmt.Errorf("write the books of %q: %w", pipeline, err)
	}
	return nil
}

func readBooks(tx *sqlitedb.Tx, pipeline string) (b books, err error) {
	rows, err := tx.Query("SELECT put, replayed, skipped, lost FROM deadletter_books WHERE pipeline=?", []byte(pipeline))
	if err != nil {
		return b, err
	}
	defer func() { _ = rows.Close() }()
	if rows.Next() {
		err = rows.Scan(&b.put, &b.replayed, &b.skipped, &b.lost)
	}
	if err == nil {
		err = rows.Err()
	}
	return b, err
}

// Books implements tidemill.Bookkeeper, from one snapshot. Pending is counted in the store.
func (c *source) Books(ctx context.Context) (tidemill.Books, error) {
	var b books
	var pending int64
	err := c.s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		if b, err = readBooks(tx, c.pipeline); err != nil {
			return err
		}
		return tx.QueryRow("SELECT count(*) FROM deadletter WHERE pipeline=?", []byte(c.pipeline)).Scan(&pending)
	})
	if err != nil {
		return tidemill.Books{}, fmt.Errorf("read the books of dead letters of %q: %w", c.pipeline, err)
	}
	return tidemill.Books{Accepted: uint64(b.put), Settled: tidemill.Count{Delivered: uint64(b.replayed), Skipped: uint64(b.skipped)},
		Pending: uint64(pending), Lost: uint64(b.lost)}, nil
}
