package crm_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// BenchmarkEmbedded is one event from queue to its end, of 10,000 that wait: with a handler
// that does nothing, without limits, every write durable, on one file. The more are held at
// once, the more share their writes.
func BenchmarkEmbedded(b *testing.B) {
	for _, ahead := range []int{20, 40, 100} {
		b.Run(fmt.Sprint("ahead=", ahead), func(b *testing.B) { embedded(b, ahead) })
	}
}

func embedded(b *testing.B, ahead int) {
	const n = 10_000
	ctx := context.Background()
	db, err := sqlitedb.Open(ctx, filepath.Join(b.TempDir(), "crm.db"), sqlitedb.Options{})
	fatal(b, err)
	defer func() { fatal(b, db.Close()) }()
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	fatal(b, err)
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	fatal(b, err)
	letters, err := tabledeadletter.New(ctx, dead, tabledeadletter.Options{})
	fatal(b, err)
	table, err := sqlitetable.New(ctx, db, tableprofile.Spec())
	fatal(b, err)
	profiles, err := tableprofile.New(table, profile.Options{})
	fatal(b, err)
	var done atomic.Int64
	all := make(chan struct{})
	sys, err := crm.New(crm.Parts{Queues: queues, DeadLetters: letters, Log: ledgerIn(b, db, "crm"), Replays: ledgerIn(b, db, "crm_replay"), Profiles: profiles,
		Handlers: []handler.Spec{{Name: "nothing", Types: []string{"*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })}}},
		crm.Options{Create: true, Ahead: ahead, PerSecond: -1, PerTenant: -1, Finished: func(crm.Attempt) {
			if done.Add(1)%n == 0 {
				all <- struct{}{}
			}
		}})
	fatal(b, err)
	pause := func(yes bool) {
		_, err := queues.Set(ctx, crm.Queue, func(s *queue.Settings) { s.Paused = yes })
		fatal(b, err)
	}
	pause(true)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()
	round := 0
	for b.Loop() {
		b.StopTimer()
		for i := range n / 500 {
			var raws [][]byte
			for j := range 500 {
				raws = append(raws, fmt.Appendf(nil, `{"id":"%d-%d-%d","type":"member.updated","tenantId":"t%d","identity":{"externalId":"m-%d"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"name":"Ann","points":%d}}`,
					round, i, j, j%10, j, j))
			}
			if _, err := sys.Acceptor().Accept(ctx, raws, nil); err != nil {
				b.Fatal(err)
			}
		}
		round++
		b.StartTimer()
		pause(false)
		<-all
		b.StopTimer()
		pause(true)
		b.StartTimer()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	stop()
	fatal(b, <-ended)
}
