// Package sqliteledger keeps a ledger in the embedded SQLite file: what must happen once
// happens once across restarts, with nothing to install.
package sqliteledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
)

// The key has an index of its own beside a table in order of creation: entries end soon
// after they began, so that End writes to the same few pages again, whatever their keys.
// Text is kept as blobs, byte for byte. Times are milliseconds; ended 0: not yet.
var schema = []string{`
CREATE TABLE ledger_entry(
	id      INTEGER PRIMARY KEY,
	key     BLOB NOT NULL UNIQUE,
	tenant  BLOB NOT NULL,
	type    BLOB NOT NULL,
	payload BLOB,
	created INTEGER NOT NULL,
	state   INTEGER NOT NULL,
	holder  BLOB NOT NULL,
	token   INTEGER NOT NULL,
	tries   INTEGER NOT NULL,
	started INTEGER NOT NULL,
	until   INTEGER NOT NULL,
	ended   INTEGER NOT NULL DEFAULT 0,
	result  BLOB,
	err     BLOB NOT NULL DEFAULT x''
);
CREATE INDEX ledger_creation ON ledger_entry(created, key);
CREATE TABLE ledger_token(one INTEGER PRIMARY KEY CHECK(one = 1), newest INTEGER NOT NULL);
INSERT INTO ledger_token VALUES(1, 0);
`}

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	Now func() time.Time // the clock of leases; nil means time.Now. It must not block.
}

// Ledger is a ledger in a SQLite file.
type Ledger struct {
	db  *sqlitedb.DB
	now func() time.Time
}

var _ ledger.Ledger = (*Ledger)(nil)

// New opens the ledger of db and makes its tables where they are missing. A file has one
// ledger; keys of different uses are kept apart by who makes them.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Ledger, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := db.Migrate(ctx, "ledger", schema); err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &Ledger{db: db, now: o.Now}, nil
}

// stored is a record with the number of its row; 0: not there yet.
type stored struct {
	ledger.Record
	id int64
}

// Begin implements ledger.Ledger: one lookup and one or two statements for many entries.
func (l *Ledger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckBegin(es)); err != nil || len(es) == 0 {
		return err
	}
	records := make([]*stored, len(es))
	opened := make([]bool, len(es))
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := lookup(tx, es)
		if err != nil {
			return err
		}
		now := ledger.Instant(l.now())
		var begun []*stored
		again := make(map[string]bool, len(es)) // opened in this call
		for i, e := range es {
			r := found[e.Key]
			if r == nil {
				r = new(stored)
				found[e.Key] = r
			}
			records[i] = r
			if !again[e.Key] && r.Begin(e, o, 0, now) {
				again[e.Key], opened[i] = true, true
				begun = append(begun, r)
			}
		}
		return begin(tx, begun)
	})
	if err != nil {
		return fmt.Errorf("begin %d ledger entries: %w", len(es), err)
	}
	for i, e := range es {
		records[i].Answer(e, opened[i])
	}
	return nil
}

// begin gives each record a token and writes it.
func begin(tx *sqlitedb.Tx, begun []*stored) error {
	if len(begun) == 0 {
		return nil
	}
	var newest uint64
	if err := tx.QueryRow("UPDATE ledger_token SET newest = newest + ? RETURNING newest", len(begun)).Scan(&newest); err != nil {
		return fmt.Errorf("take tokens: %w", err)
	}
	var fresh, again []any
	for i, r := range begun {
		r.Token = newest - uint64(len(begun)-1-i)
		if r.id == 0 {
			fresh = append(fresh, []byte(r.Key), []byte(r.Tenant), []byte(r.Type), r.Payload, r.Created.UnixMilli(),
				uint8(r.State), []byte(r.Holder), r.Token, r.Tries, r.Started.UnixMilli(), r.Until.UnixMilli())
		} else {
			again = append(again, r.id, uint8(r.State), []byte(r.Holder), r.Token, r.Tries, r.Started.UnixMilli(), r.Until.UnixMilli())
		}
	}
	if _, err := tx.Bulk("INSERT INTO ledger_entry(key,tenant,type,payload,created,state,holder,token,tries,started,until) VALUES ",
		"(?,?,?,?,?,?,?,?,?,?,?)", "", fresh); err != nil {
		return fmt.Errorf("add entries: %w", err)
	}
	if _, err := tx.Bulk("UPDATE ledger_entry SET state=v.column2, holder=v.column3, token=v.column4, tries=v.column5, started=v.column6, until=v.column7, ended=0 FROM (VALUES ",
		"(?,?,?,?,?,?,?)", ") AS v WHERE id=v.column1", again); err != nil {
		return fmt.Errorf("open entries again: %w", err)
	}
	return nil
}

// End implements ledger.Ledger: one lookup and one statement for many entries.
func (l *Ledger) End(ctx context.Context, es []*ledger.Entry) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckEnd(es)); err != nil || len(es) == 0 {
		return err
	}
	ended := make([]ledger.Entry, len(es))
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := lookupState(tx, es)
		if err != nil {
			return err
		}
		now := ledger.Instant(l.now())
		changed := make([]*stored, 0, len(es))
		last := make(map[*stored]bool, len(es))
		for i, e := range es {
			r := found[e.Key]
			if r == nil {
				r = new(stored)
			}
			ended[i] = *e
			if r.End(&ended[i], now) && !last[r] {
				last[r] = true
				changed = append(changed, r)
			}
		}
		args := make([]any, 0, 6*len(changed))
		for _, r := range changed {
			args = append(args, r.id, r.Token, uint8(r.State), r.Result, []byte(r.Err), r.Ended.UnixMilli())
		}
		_, err = tx.Bulk("UPDATE ledger_entry SET state=v.column3, result=v.column4, err=v.column5, ended=v.column6 FROM (VALUES ",
			"(?,?,?,?,?,?)", ") AS v WHERE id=v.column1 AND token=v.column2", args)
		return err
	})
	if err != nil {
		return fmt.Errorf("end %d ledger entries: %w", len(es), err)
	}
	for i, e := range es {
		e.Stale, e.Ended = ended[i].Stale, ended[i].Ended
	}
	return nil
}
