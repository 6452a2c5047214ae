//go:build !embedded

package system

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/source/redissource"
)

// groupAsleep is after which time without a reader a group is one that was forgotten.
const groupAsleep = time.Hour

// Stream counts what a pipeline's source of a Redis stream trims with what else is removed because it is
// old, and returns a check of the stream's other groups: what one of them has not finished stays, however old.
func (h *Host) Stream(pipeline, name string, s *redissource.Source) func(context.Context) []preflight.Finding {
	told := uint64(0)
	h.Retain("stream of "+pipeline, func(context.Context) (int64, bool, error) {
		now := s.Trimmed()
		n := now - told
		told = now
		return int64(n), false, nil
	})
	return func(ctx context.Context) []preflight.Finding {
		return otherGroups(ctx, name, s, h.Now)
	}
}

func otherGroups(ctx context.Context, name string, s *redissource.Source, now func() time.Time) (fs []preflight.Finding) {
	check := "stream " + name + ": other groups"
	all, err := s.Others(ctx)
	if err != nil {
		return []preflight.Finding{Finding(check, preflight.Warn, err.Error(), "")}
	}
	for _, o := range all {
		if o.Oldest.IsZero() || o.Idle >= 0 && o.Idle < groupAsleep {
			continue
		}
		held := "an unknown number of entries"
		if o.Held >= 0 {
			held = fmt.Sprintf("%d entries", o.Held)
		}
		reads := "has no reader"
		if o.Idle >= 0 {
			reads = fmt.Sprintf("was read with %v ago", o.Idle.Round(time.Minute))
		}
		fs = append(fs, Finding(check, preflight.Warn, fmt.Sprintf("group %s %s and holds %s, the oldest of %v ago", o.Group, reads, held, now().Sub(o.Oldest).Round(time.Minute)),
			"what one group has not finished stays in the stream: start its readers, or, if nobody needs it, XGROUP DESTROY "+name+" "+o.Group))
	}
	return fs
}
