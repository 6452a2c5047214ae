package system

import (
	"context"

	"github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/description/tabledescription"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/view"
)

// AccessStore keeps who may come in.
type AccessStore interface {
	access.Store
	access.Sweeper

	Views() view.Store // that they save in the console
}

// Access are users, tokens and sessions, which as many instances share as can; nil: nothing keeps them.
func (h *Host) Access(ctx context.Context) (AccessStore, error) {
	t, err := sharedTable(ctx, h, tableaccess.Spec())
	if t == nil || err != nil {
		return nil, err
	}
	return tableaccess.New(t), nil
}

// Trail is the audit trail, which as many instances share as can; nil: nothing keeps it.
func (h *Host) Trail(ctx context.Context) (trail.Trail, error) {
	t, err := sharedTable(ctx, h, tabletrail.Spec())
	if t == nil || err != nil {
		return nil, err
	}
	return tabletrail.New(t), nil
}

// Bulk are operations on many things, which as many instances share as can; nil: nothing keeps them.
func (h *Host) Bulk(ctx context.Context) (bulk.Store, error) {
	t, err := sharedTable(ctx, h, tablebulk.Spec())
	if t == nil || err != nil {
		return nil, err
	}
	return tablebulk.New(t), nil
}

// Instances are the instances that share stores with this one; nil: nothing keeps them.
func (h *Host) Instances(ctx context.Context) (instance.Store, error) {
	t, err := sharedTable(ctx, h, tableinstance.Spec())
	if t == nil || err != nil {
		return nil, err
	}
	return tableinstance.New(t, h.Now), nil
}

// Descriptions are what instances that share stores have of the configuration beside their files; nil:
// nothing keeps them.
func (h *Host) Descriptions(ctx context.Context) (description.Store, error) {
	t, err := sharedTable(ctx, h, tabledescription.Spec())
	if t == nil || err != nil {
		return nil, err
	}
	told, err := sharedNotices(h, tabledescription.Spec().Name)
	if err != nil {
		return nil, err
	}
	return tabledescription.New(t, told), nil
}

// plain is a table whose transactions change nothing beside it, so that its database does not matter.
type plain[T, Raw any] struct{ table.Store[T, Raw] }

func (p plain[T, Raw]) Update(ctx context.Context, do func(table.Tx[T], any) error) error {
	return p.Store.Update(ctx, func(tx table.Tx[T], raw Raw) error { return do(tx, raw) })
}

// plainly makes a table plain, if there is one.
func plainly[T, Raw any](t table.Store[T, Raw], err error) (table.Store[T, any], error) {
	if err != nil {
		return nil, err
	}
	return plain[T, Raw]{t}, nil
}
