//go:build embedded

package system

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
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

// Access are users, tokens and sessions in the embedded database; nil: nothing keeps them.
func (h *Host) Access(ctx context.Context) (AccessStore, error) {
	if h.file == nil {
		return nil, nil
	}
	t, err := sqlitetable.New(ctx, h.file.DB, tableaccess.Spec())
	if err != nil {
		return nil, err
	}
	return tableaccess.New(t), nil
}

// Trail is the audit trail in the embedded database; nil: nothing keeps it.
func (h *Host) Trail(ctx context.Context) (trail.Trail, error) {
	if h.file == nil {
		return nil, nil
	}
	t, err := sqlitetable.New(ctx, h.file.DB, tabletrail.Spec())
	if err != nil {
		return nil, err
	}
	return tabletrail.New(t), nil
}

// Bulk are operations on many things in the embedded database; nil: nothing keeps them.
func (h *Host) Bulk(ctx context.Context) (bulk.Store, error) {
	if h.file == nil {
		return nil, nil
	}
	t, err := sqlitetable.New(ctx, h.file.DB, tablebulk.Spec())
	if err != nil {
		return nil, err
	}
	return tablebulk.New(t), nil
}

// Instances has this instance in the embedded database; nil: nothing keeps it.
func (h *Host) Instances(ctx context.Context) (instance.Store, error) {
	if h.file == nil {
		return nil, nil
	}
	t, err := sqlitetable.New(ctx, h.file.DB, tableinstance.Spec())
	if err != nil {
		return nil, err
	}
	return tableinstance.New(t, h.Now), nil
}
