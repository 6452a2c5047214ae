package memoryprogress_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/memoryprogress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/progresstest"
)

func TestConformance(t *testing.T) {
	progresstest.Run(t, func(_ *testing.T, now func() time.Time) progresstest.Harness {
		s := memoryprogress.New(now)
		return progresstest.Harness{Store: s, Reopen: func() progress.Store { return s }}
	})
}
