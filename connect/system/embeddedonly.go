//go:build embedded

package system

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// Servers are the servers whose clients are built in.
func Servers() []string { return []string{} }

// LeftOut is the error of what needs a server whose client is not built in.
func LeftOut(product string) error {
	return fmt.Errorf("this tidemill has no client of %s, for it was built with -tags embedded: use the usual binary, or take the server's address out of the configuration", product)
}

// Ledger is a ledger in the embedded database; nil: nothing keeps one.
func (h *Host) Ledger(ctx context.Context, name string) (ledger.Store, error) {
	if h.file == nil {
		return nil, nil
	}
	return h.SQLiteLedger(ctx, h.file.DB, name)
}

// sharedTable is a table in the embedded database; nil: there is none.
func sharedTable[T any](ctx context.Context, h *Host, spec table.Spec[T]) (table.Store[T, any], error) {
	if h.file == nil {
		return nil, nil
	}
	return plainly(sqlitetable.New(ctx, h.file.DB, spec))
}

// sharedNotices tell those who share a table that something in it has changed: those in this process.
func sharedNotices(*Host, string) (notice.Notices, error) { return &notice.Signal{}, nil }
