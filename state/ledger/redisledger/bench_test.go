package redisledger_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
)

// A private server, whose processor time is what an entry costs also on a busy machine.
func Benchmark(b *testing.B) {
	client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
	ledgertest.Bench(b, func(b *testing.B) (ledger.Ledger, func() float64) {
		return open(b, client, redisledger.Options{Name: testenv.Name("l")}), func() float64 { return redistest.CPU(b, client) }
	})
}

// BenchmarkBare is what a key and an event cost without a ledger: one script with a key
// that expires and an entry of a stream.
func BenchmarkBare(b *testing.B) {
	client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
	script := rueidis.NewLuaScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', 86400) then return redis.call('XADD', KEYS[2], '*', 'data', ARGV[2]) end
return redis.call('GET', KEYS[1])`)
	var i atomic.Int64
	body, before := strings.Repeat("x", 500), redistest.CPU(b, client)
	b.SetParallelism(25) // 50 callers on two processors
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := script.Exec(b.Context(), client, []string{"{q}key" + strconv.FormatInt(i.Add(1), 10), "{q}stream"}, []string{"print", body}).Error(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric((redistest.CPU(b, client)-before)/float64(b.N), "server-µs/entry")
}
