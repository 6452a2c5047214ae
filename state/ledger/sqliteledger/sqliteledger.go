// Package sqliteledger keeps a ledger in the embedded SQLite file: work that must happen
// once happens once across restarts, with nothing to install.
package sqliteledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// The key has its own index beside a table in order of creation: entries end soon after
// they began, so that End writes to the same few pages again, with any keys. Text is kept
// as blobs, byte for byte. Times are milliseconds; ended 0: not yet.
var schema = []string{`
CREATE TABLE ledger_entry(
	id      INTEGER PRIMARY KEY,
	key     BLOB NOT NULL UNIQUE,
	tenant  BLOB NOT NULL,
	type    BLOB NOT NULL,
	print   BLOB,
	created INTEGER NOT NULL,
	state   INTEGER NOT NULL,
	holder  BLOB NOT NULL,
	token   INTEGER NOT NULL,
	tries   INTEGER NOT NULL,
	started INTEGER NOT NULL,
	until   INTEGER NOT NULL,
	call    INTEGER NOT NULL DEFAULT 0,
	cut     INTEGER NOT NULL DEFAULT 0,
	ended   INTEGER NOT NULL DEFAULT 0,
	err     BLOB NOT NULL DEFAULT x'',
	payload BLOB,
	result  BLOB
);
CREATE INDEX ledger_creation ON ledger_entry(created, key);
CREATE TABLE ledger_token(one INTEGER PRIMARY KEY CHECK(one = 1), newest INTEGER NOT NULL);
INSERT INTO ledger_token VALUES(1, 0);
`}

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	Name string           // of the ledger in its file, a-z, 0-9 and _: each has its own keys and its own time to keep them; empty is a name too
	Now  func() time.Time // the clock of leases; nil means time.Now. It must not block.
}

// Ledger is a ledger in a SQLite file.
type Ledger struct {
	db  *sqlitedb.DB
	now func() time.Time
	sql statements
}

// Tx is the transaction in which Within ends entries together with its caller's writes.
type Tx = sqlitedb.Tx

var (
	_ ledger.Store           = (*Ledger)(nil)
	_ ledger.Transactor[*Tx] = (*Ledger)(nil)
)

// New opens the ledger of that name in db and makes missing tables.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Ledger, error) {
	if err := rules.CheckName(o.Name); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	component, prefix := "ledger", "ledger_"
	if o.Name != "" {
		component, prefix = "ledger "+o.Name, "ledger_"+o.Name+"_"
	}
	steps := make([]string, len(schema))
	for i, s := range schema {
		steps[i] = strings.ReplaceAll(s, "ledger_", prefix)
	}
	if err := db.Migrate(ctx, component, steps); err != nil {
		return nil, fmt.Errorf("open the ledger %q: %w", o.Name, err)
	}
	return &Ledger{db: db, now: o.Now, sql: of(prefix)}, nil
}

// statements are those of one ledger's tables.
type statements struct{ token, add, done, again, end, drop, lookup, page, expire string }

func of(prefix string) statements {
	entry := prefix + "entry"
	return statements{
		token:  "UPDATE " + prefix + "token SET newest = newest + ? RETURNING newest",
		add:    "INSERT INTO " + entry + "(key,tenant,type,payload,print,created,state,holder,token,tries,started,until,call,cut) VALUES ",
		done:   "INSERT INTO " + entry + "(key,tenant,type,print,created,state,holder,token,tries,started,until,ended,result) VALUES ",
		again:  "UPDATE " + entry + " SET state=v.column2, holder=v.column3, token=v.column4, tries=v.column5, started=v.column6, until=v.column7, call=v.column8, cut=v.column9, ended=0 FROM (VALUES ",
		end:    "UPDATE " + entry + " SET state=v.column3, result=v.column4, err=v.column5, ended=v.column6 FROM (VALUES ",
		drop:   "DELETE FROM " + entry + " WHERE id IN (",
		lookup: "SELECT %s FROM " + entry + " WHERE key IN (?",
		page:   "SELECT " + columns + " FROM " + entry + " WHERE ",
		expire: "DELETE FROM " + entry + " WHERE id IN (SELECT id FROM " + entry + ` WHERE created < ? AND
			(state IN (?, ?) AND ended < ? OR state = ? AND until < ?) ORDER BY created, key LIMIT ?)`,
	}
}

// stored is a record with the number of its row; 0: not stored yet.
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
	opened := make([]ledger.Opening, len(es))
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := l.lookup(tx, es)
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
			if again[e.Key] {
				continue
			}
			if opened[i] = r.Begin(e, o, 0, now); opened[i] == ledger.Shut {
				as := *r // it is now; a later one of the same key may open it
				records[i] = &as
				continue
			}
			again[e.Key] = true
			begun = append(begun, r)
		}
		return l.begin(tx, begun)
	})
	if err != nil {
		return fmt.Errorf("begin %d ledger entries: %w", len(es), err)
	}
	for i, e := range es {
		records[i].Answer(e, opened[i])
	}
	return nil
}

// begin gives each record without a token one, and writes them.
func (l *Ledger) begin(tx *sqlitedb.Tx, begun []*stored) error {
	if len(begun) == 0 {
		return nil
	}
	var newest uint64
	if err := tx.QueryRow(l.sql.token, len(begun)).Scan(&newest); err != nil {
		return fmt.Errorf("take tokens: %w", err)
	}
	var fresh, again []any
	for i, r := range begun {
		if r.Token == 0 {
			r.Token = newest - uint64(len(begun)-1-i)
		}
		if r.id == 0 {
			fresh = append(fresh, []byte(r.Key), []byte(r.Tenant), []byte(r.Type), r.Payload, r.Print, r.Created.UnixMilli(),
				uint8(r.State), []byte(r.Holder), r.Token, r.Tries, r.Started.UnixMilli(), r.Until.UnixMilli(), r.Call, r.Cut)
		} else {
			again = append(again, r.id, uint8(r.State), []byte(r.Holder), r.Token, r.Tries, r.Started.UnixMilli(), r.Until.UnixMilli(), r.Call, r.Cut)
		}
	}
	if _, err := tx.Bulk(l.sql.add, "(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", "", fresh); err != nil {
		return fmt.Errorf("add entries: %w", err)
	}
	if _, err := tx.Bulk(l.sql.again, "(?,?,?,?,?,?,?,?,?)", ") AS v WHERE id=v.column1", again); err != nil {
		return fmt.Errorf("open entries again: %w", err)
	}
	return nil
}
