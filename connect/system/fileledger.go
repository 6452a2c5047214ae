package system

import (
	"context"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// SQLiteLedger is the ledger of a name in the embedded database.
func (h *Host) SQLiteLedger(ctx context.Context, db *sqlitedb.DB, name string) (*tableledger.Ledger[*sqlitedb.Tx], error) {
	t, err := sqlitetable.New(ctx, db, tableledger.Spec(name))
	if err != nil {
		return nil, err
	}
	return tableledger.New(t, tableledger.Options{Now: h.Now}), nil
}
