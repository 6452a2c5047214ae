// Package postgresledger keeps a ledger in PostgreSQL: for several processes at once, and
// for handlers that write to that database, whose effects are then committed together with
// the entry's end (Within).
//
// One statement adds new entries, another ends them, each for a whole batch. Rows are locked
// only in the order of their keys, so no two batches wait for each other. The server's clock
// decides leases.
package postgresledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	Name string           // of the ledger in its database, a-z, 0-9 and _: each has its own keys and its own time to keep them; empty is a name too
	Now  func() time.Time // nil means the server's clock, one for all processes
}

// Ledger is a ledger in PostgreSQL.
type Ledger struct {
	db     *postgresdb.DB
	o      Options
	places places
}

var (
	_ ledger.Store              = (*Ledger)(nil)
	_ ledger.Transactor[pgx.Tx] = (*Ledger)(nil)
)

// New brings the tables of db to the newest version and opens the ledger of that name.
func New(ctx context.Context, db *postgresdb.DB, o Options) (*Ledger, error) {
	if err := rules.CheckName(o.Name); err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the ledger %q: %w", o.Name, err)
	}
	return &Ledger{db: db, o: o}, nil
}

// batch is how many rows one statement writes at most.
const batch = 1000

// now is the time by Options.Now; nil: the server's.
func (l *Ledger) now() *time.Time {
	if l.o.Now == nil {
		return nil
	}
	t := ledger.Instant(l.o.Now())
	return &t
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

const columns = "key, tenant, type, print, payload, created, state, holder, token, tries, started, until, call, cut, ended, result, err"

// scan reads columns, and more of them into more.
func scan(rows pgx.Rows, more ...any) (*ledger.Record, error) {
	r := new(ledger.Record)
	var key, tenant, typ, holder, cause []byte
	var state int16
	var token, call int64
	var ended *time.Time
	if err := rows.Scan(append([]any{&key, &tenant, &typ, &r.Print, &r.Payload, &r.Created, &state, &holder, &token, &r.Tries, &r.Started, &r.Until,
		&call, &r.Cut, &ended, &r.Result, &cause}, more...)...); err != nil {
		return nil, err
	}
	r.Key, r.Tenant, r.Type, r.Holder, r.Err = string(key), string(tenant), string(typ), string(holder), string(cause)
	r.State, r.Token, r.Call = ledger.State(state), uint64(token), uint64(call)
	r.Created, r.Started, r.Until = r.Created.UTC(), r.Started.UTC(), r.Until.UTC()
	if ended != nil {
		r.Ended = ended.UTC()
	}
	return r, nil
}

// records reads what rows yield, by key.
func records(rows pgx.Rows, err error) (map[string]*ledger.Record, error) {
	found := map[string]*ledger.Record{}
	return found, postgresdb.Each(rows, err, func(rows pgx.Rows) error {
		r, err := scan(rows)
		if err == nil {
			found[r.Key] = r
		}
		return err
	})
}

// keysOf are the keys of entries in the form of statements.
func keysOf(es []*ledger.Entry) [][]byte {
	keys := make([][]byte, len(es))
	for i, e := range es {
		keys[i] = []byte(e.Key)
	}
	return keys
}
