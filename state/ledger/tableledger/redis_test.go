package tableledger_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/redistable"
)

func TestConformanceOnRedis(t *testing.T) {
	testenv.Fewer(t, "40")
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
			c, name := ledgertest.NewClock(), testenv.Name("l")
			open := func(t *testing.T) ledger.Store { return openRedis(t, client, name, c.Now) }
			return ledgertest.Harness{Ledger: open(t), Clock: c, Reopen: open,
				Other: func(t *testing.T) ledger.Store { return openRedis(t, client, name+"_2", c.Now) }}
		})
	})
}

func openRedis(t testing.TB, client rueidis.Client, name string, now func() time.Time) *tableledger.Ledger[*redistable.Tx] {
	t.Helper()
	s, err := redistable.New(t.Context(), client, tableledger.Spec(name), redistable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tableledger.New(s, tableledger.Options{Now: now})
}
