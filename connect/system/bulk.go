//go:build !embedded

package system

import (
	"context"

	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// Bulk are operations on many things, which as many instances share as can; nil: nothing keeps them.
func (h *Host) Bulk(ctx context.Context) (bulk.Store, error) {
	switch at := h.shared(); {
	case at.postgres != nil:
		t, err := postgrestable.New(ctx, at.postgres, tablebulk.Spec())
		if err != nil {
			return nil, err
		}
		return tablebulk.New(t), nil
	case at.redis != nil:
		t, err := redistable.New(ctx, at.redis, tablebulk.Spec(), redistable.Options{})
		if err != nil {
			return nil, err
		}
		return tablebulk.New(t), nil
	case at.file != nil:
		t, err := sqlitetable.New(ctx, at.file, tablebulk.Spec())
		if err != nil {
			return nil, err
		}
		return tablebulk.New(t), nil
	}
	return nil, nil
}
