//go:build !embedded

package system

import (
	"context"

	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// Instances are the instances that share stores with this one; nil: nothing keeps them.
func (h *Host) Instances(ctx context.Context) (instance.Store, error) {
	switch at := h.shared(); {
	case at.postgres != nil:
		t, err := postgrestable.New(ctx, at.postgres, tableinstance.Spec())
		if err != nil {
			return nil, err
		}
		return tableinstance.New(t, h.Now), nil
	case at.redis != nil:
		t, err := redistable.New(ctx, at.redis, tableinstance.Spec(), redistable.Options{})
		if err != nil {
			return nil, err
		}
		return tableinstance.New(t, h.Now), nil
	case at.file != nil:
		t, err := sqlitetable.New(ctx, at.file, tableinstance.Spec())
		if err != nil {
			return nil, err
		}
		return tableinstance.New(t, h.Now), nil
	}
	return nil, nil
}
