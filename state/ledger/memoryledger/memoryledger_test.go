package memoryledger_test

import (
	"testing"

	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/memoryledger"
)

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledgertest.Harness {
		c := ledgertest.NewClock()
		return ledgertest.Harness{Ledger: memoryledger.New(memoryledger.Options{Now: c.Now}), Clock: c}
	})
}
