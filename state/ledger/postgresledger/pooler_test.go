package postgresledger_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
)

func TestConformanceBehindAPooler(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "20")
	pooled, _ := testenv.PgBouncer(t)
	db := connect(t, pooled+"&synchronous_commit=off")
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness { return harness(t, db) })
}
