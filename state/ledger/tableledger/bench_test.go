package tableledger_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
)

// BenchmarkSQLite begins and ends batches of 500 new entries.
func BenchmarkSQLite(b *testing.B) {
	db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), sqlitedb.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	l := openSQLite(b, db, "", time.Now)
	const batch = 500
	payload := make([]byte, 300)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		es := make([]*ledger.Entry, batch)
		for j := range es {
			es[j] = &ledger.Entry{Key: fmt.Sprintf("tenant/%08x-%d-%d", uint32(i*batch+j)*2654435761, i, j), Tenant: "tenant", Type: "order", Holder: fmt.Sprint("0/1/", i*batch+j), Payload: payload}
		}
		if err := l.Begin(b.Context(), es, ledger.Begin{}); err != nil {
			b.Fatal(err)
		}
		for _, e := range es {
			e.State, e.Result = ledger.Done, []byte("201 made")
		}
		if err := l.End(b.Context(), es); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkRedis measures what an entry costs in a Redis of its own.
func BenchmarkRedis(b *testing.B) {
	client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
	ledgertest.Bench(b, func(b *testing.B) (ledger.Ledger, func() float64) {
		return openRedis(b, client, testenv.Name("l"), time.Now), func() float64 { return redistest.CPU(b, client) }
	})
}

// BenchmarkPostgreSQL measures what an entry costs in PostgreSQL.
func BenchmarkPostgreSQL(b *testing.B) {
	db := connect(b, testenv.Postgres(b))
	ledgertest.Bench(b, func(b *testing.B) (ledger.Ledger, func() float64) {
		return openPostgres(b, db, testenv.Name("l"), time.Now), nil
	})
}
