package windowssystem

import (
	"context"

	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// retainDays removes old days from the index, by age and size.
func (h *wiring) retainDays(index search.Store, c *windowsconfig.Search) {
	if c.Keep > 0 {
		h.Retain("days of the index by age", func(ctx context.Context) (int64, bool, error) {
			gone, err := index.Expire(ctx, h.Now())
			return int64(len(gone)), false, err
		})
	}
	if c.KeepMost > 0 {
		h.Retain("days of the index by size", func(ctx context.Context) (int64, bool, error) {
			gone, err := index.Bound(ctx, int64(c.KeepMost), h.Now().Add(-c.KeepLeast))
			if gone == "" {
				return 0, false, err
			}
			return 1, true, err
		})
	}
}
