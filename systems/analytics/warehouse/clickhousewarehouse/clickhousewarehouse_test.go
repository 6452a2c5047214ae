package clickhousewarehouse

import (
	"testing"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/warehousetest"
)

func open(t testing.TB, rawURL string, o clickhousehttp.Options) *clickhousehttp.Conn {
	t.Helper()
	conn, err := clickhousehttp.Open(t.Context(), rawURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// fresh is a connection to a database that does not exist yet.
func fresh(t testing.TB) *clickhousehttp.Conn {
	t.Helper()
	rawURL, database := testenv.ClickHouse(t)
	return open(t, rawURL, clickhousehttp.Options{Database: database})
}

// store keeps its rows for ever: cases have events and warnings of any time.
func store(t testing.TB, conn *clickhousehttp.Conn, o Options) *Store {
	t.Helper()
	o.Keep = -1
	s, err := newStore(t.Context(), conn, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"with what was stored a moment ago known", Options{}},
		{"with nothing known, the server gathering rows", Options{Recent: -1, Async: true, NoSync: true, NoDictionary: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			warehousetest.Run(t, func(t *testing.T) warehousetest.Harness {
				conn := fresh(t)
				again := func() warehouse.Store { return store(t, conn, c.o) }
				return warehousetest.Harness{Store: again(), Reopen: again, Blind: true}
			})
		})
	}
}
