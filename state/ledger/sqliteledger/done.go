package sqliteledger

import (
	"database/sql"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
)

// Done is the ledger's part in a transaction of another role: entries that are done as soon
// as they begin, for requests without an entry in the ledger.
type Done struct{ ledger *Ledger }

// Done returns it.
func (l *Ledger) Done() Done { return Done{l} }

// In says whether the ledger is in that file.
func (d Done) In(file *sqlitedb.DB) bool { return d.ledger.db == file }

// Known says for each entry whether its key is in the ledger, in any state.
func (d Done) Known(tx *sqlitedb.Tx, es []*ledger.Entry) ([]bool, error) {
	found := map[string]bool{}
	err := d.ledger.byKey(tx, "key", es, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		found[key] = true
		return err
	})
	known := make([]bool, len(es))
	for i, e := range es {
		known[i] = found[e.Key]
	}
	return known, err
}

// Keep keeps these entries as done. Each has another key, and none is in the ledger.
// Payloads are not kept.
func (d Done) Keep(tx *sqlitedb.Tx, es []*ledger.Entry) error {
	l := d.ledger
	if err := ledger.CheckBegin(es); err != nil || len(es) == 0 {
		return err
	}
	var newest uint64
	if err := tx.QueryRow(l.sql.token, len(es)).Scan(&newest); err != nil {
		return fmt.Errorf("take tokens: %w", err)
	}
	now := ledger.Instant(l.now()).UnixMilli()
	args := make([]any, 0, 13*len(es))
	for i, e := range es {
		args = append(args, []byte(e.Key), []byte(e.Tenant), []byte(e.Type), e.Print, now, uint8(ledger.Done), []byte(e.Holder),
			newest-uint64(len(es)-1-i), 1, now, now, now, e.Result)
	}
	if _, err := tx.Bulk(l.sql.done, "(?,?,?,?,?,?,?,?,?,?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("keep entries: %w", err)
	}
	return nil
}
