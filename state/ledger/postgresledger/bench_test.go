package postgresledger_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
)

func Benchmark(b *testing.B) {
	db := connect(b, testenv.Postgres(b))
	ledgertest.Bench(b, func(b *testing.B) (ledger.Ledger, func() float64) {
		return open(b, db, postgresledger.Options{Name: testenv.Name("l")}), nil
	})
}
