package crmmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/metrics/metricstest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmmetrics"
	"github.com/tidemill/tidemill/systems/crm/crmtest"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliverymetrics"
)

// system is a CRM system in memory, and what it is made of.
func system(t *testing.T, o crm.Options, specs ...handler.Spec) (*crm.System, crm.Parts) {
	t.Helper()
	p := crmtest.Parts(t, specs...)
	return crmtest.New(t, p, o), p
}

func accept(t *testing.T, sys *crm.System, id, typ string) {
	t.Helper()
	raw := fmt.Sprintf(`{"id":%q,"type":%q,"tenantId":"club","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z"}`, id, typ)
	r, err := sys.Acceptor().Accept(t.Context(), [][]byte{[]byte(raw)}, nil)
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
}

func TestTheDocumentsMetricsToTheLetter(t *testing.T) {
	c := crmmetrics.New()
	for _, a := range []crm.Attempt{
		{Label: "member.*", Status: crm.Completed, Took: 30 * time.Millisecond},
		{Label: "member.*", Status: crm.Completed, Took: 10 * time.Second, New: true, Replay: "r"},
		{Label: "member.*", Status: crm.Failed, Took: 11 * time.Second, Kind: tidemill.Timeout, Err: errors.New("slow")},
		{Label: "member.*", Status: crm.Skipped, Reason: crm.NoHandler},
	} {
		c.Finished(a)
	}
	text := metricstest.Scrape(t, c)
	want := `crm_event_processing_duration_seconds_bucket{type="member.*",le="0.01"} 1
crm_event_processing_duration_seconds_bucket{type="member.*",le="0.05"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="0.1"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="0.5"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="1"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="2"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="5"} 2
crm_event_processing_duration_seconds_bucket{type="member.*",le="10"} 3
crm_event_processing_duration_seconds_bucket{type="member.*",le="+Inf"} 4
crm_event_processing_duration_seconds_sum{type="member.*"} 21.03
crm_event_processing_duration_seconds_count{type="member.*"} 4
crm_events_failed_total{type="member.*"} 1
crm_events_processed_total{status="completed",type="member.*"} 2
crm_events_processed_total{status="failed",type="member.*"} 1
crm_events_processed_total{status="skipped",type="member.*"} 1
`
	var got strings.Builder
	for line := range strings.Lines(metricstest.Series(text, "crm_")) {
		if !strings.Contains(line, `type="other"`) {
			got.WriteString(line)
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if got, want := metricstest.Series(text, "tidemill_crm_"), `tidemill_crm_profiles_created_total 1
tidemill_crm_replayed_total{status="completed"} 1
tidemill_crm_replayed_total{status="failed"} 0
tidemill_crm_replayed_total{status="skipped"} 0
tidemill_crm_skipped_total{reason="duplicate"} 0
tidemill_crm_skipped_total{reason="no_handler"} 1
tidemill_crm_skipped_total{reason="replay_stopped"} 0
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestARealRun goes the whole way: an event for each of what may become of one.
func TestARealRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crmmetrics.New()
		sys, parts := system(t, crm.Options{Create: true, DeadFor: time.Hour, Finished: c.Finished},
			handler.Spec{Name: "all", Types: []string{"member.created", "order.*"}, Handler: handler.Func(func(_ context.Context, call *handler.Call) error {
				switch call.Event.Type {
				case "order.refused":
					return tidemill.Fail(tidemill.Business, "as the test says")
				case "order.wrong":
					return tidemill.Fail(tidemill.Validation, "as the test says")
				case "order.slow":
					time.Sleep(1500 * time.Millisecond)
				case "order.flaky":
					if call.Attempt == 1 {
						return tidemill.Fail(tidemill.Transient, "as the test says")
					}
				}
				return nil
			})})
		c.Watch(sys)
		stop := crmtest.Run(t, sys)
		for i, typ := range []string{"member.created", "member.created", "order.refused", "order.wrong", "order.slow", "order.flaky", "something.else"} {
			accept(t, sys, fmt.Sprint("e-", i), typ)
			time.Sleep(3 * time.Second) // one after the other
		}
		if _, err := parts.Queues.Set(t.Context(), crm.Queue, func(s *queue.Settings) { s.Paused = true }); err != nil {
			t.Fatal(err)
		}
		accept(t, sys, "waits", "contactPreference.updated")
		time.Sleep(2 * time.Second)
		text := metricstest.Scrape(t, c)
		for _, line := range strings.Split(strings.TrimSpace(`
crm_events_processed_total{status="completed",type="member.created"} 2
crm_events_processed_total{status="completed",type="order.*"} 2
crm_events_processed_total{status="failed",type="order.*"} 3
crm_events_processed_total{status="skipped",type="other"} 1
crm_events_failed_total{type="member.created"} 0
crm_events_failed_total{type="order.*"} 3
crm_events_failed_total{type="other"} 0
crm_event_processing_duration_seconds_bucket{type="order.*",le="1"} 4
crm_event_processing_duration_seconds_bucket{type="order.*",le="2"} 5
crm_event_processing_duration_seconds_count{type="member.created"} 2
crm_event_queue_depth{queue="crm-events"} 1
crm_event_queue_depth{queue="crm-events-dlq"} 1
crm_dlq_depth 1
crm_identity_resolution_rate 83.33333333333333
tidemill_crm_profiles_created_total 1
tidemill_crm_skipped_total{reason="no_handler"} 1
tidemill_crm_waiting_jobs{priority="high"} 1
tidemill_crm_waiting_jobs{priority="normal"} 0
tidemill_crm_waiting_jobs{priority="replay"} 0
tidemill_crm_draining 0
tidemill_queue_jobs{queue="crm-events",state="waiting"} 1
tidemill_queue_jobs{queue="crm-events",state="completed"} 6
tidemill_queue_jobs{queue="crm-events",state="failed"} 1
tidemill_queue_oldest_seconds{queue="crm-events"} 2
tidemill_queue_paused{queue="crm-events"} 1`), "\n") {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("there is no %s", line)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
		if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("what Prometheus would read: %v, %v", problems, err)
		}
		if strings.Contains(text, "order.slow") || strings.Contains(text, "club") {
			t.Error("what a sender chose is a label")
		}
		time.Sleep(time.Hour + time.Minute) // letters are looked at once a minute
		if got := metricstest.Series(metricstest.Scrape(t, c), "crm_dlq_depth", "crm_identity", "tidemill_crm_dead"); got != "crm_dlq_depth 0\ntidemill_crm_dead_letters_expired_total 1\n" {
			t.Errorf("when the letter is too old:\n%s", got)
		}
		stop()
	})
}

func TestSendersMakeNoSeries(t *testing.T) {
	c := crmmetrics.New()
	sys, _ := system(t, crm.Options{}, handler.Spec{Name: "all", Types: []string{"order.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })})
	finish := func(typ string, i int) {
		c.Finished(crm.Attempt{Tenant: fmt.Sprint("t", i), ID: fmt.Sprint(i), Type: typ, Label: sys.Label(typ), Status: crm.Skipped, Reason: fmt.Sprint("whatever ", i), Replay: fmt.Sprint("r", i), Profile: uuid.New()})
	}
	finish("order.0", 0)
	finish("0", 0)
	before := strings.Count(metricstest.Scrape(t, c), "\n")
	for i := range 1000 {
		finish(fmt.Sprint("order.", i), i)
		finish(fmt.Sprint(i), i)
	}
	if after := strings.Count(metricstest.Scrape(t, c), "\n"); after != before {
		t.Errorf("%d lines, and after 2,000 types %d", before, after)
	}
}

func TestManyCountAtOnce(t *testing.T) {
	c := crmmetrics.New()
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for i := range 1000 {
				c.Finished(crm.Attempt{Label: fmt.Sprint(i % 10), Status: crm.Failed, Took: time.Millisecond})
			}
		})
		g.Go(func() { metricstest.Scrape(t, c) })
	}
	g.Wait()
	if text := metricstest.Scrape(t, c); !strings.Contains(text, "\ncrm_events_failed_total{type=\"7\"} 800\n") {
		t.Errorf("want 800 of each of ten types:\n%s", metricstest.Series(text, "crm_events_failed_total"))
	}
}

// asked is a store of queues that counts how often its state is asked for, and can be away.
type asked struct {
	queue.Store
	times atomic.Int64
	away  atomic.Bool
}

func (a *asked) Settings(ctx context.Context, name string) (queue.Settings, error) {
	a.times.Add(1)
	if a.away.Load() {
		<-ctx.Done() // as a server does that is cut off
		return queue.Settings{}, ctx.Err()
	}
	return a.Store.Settings(ctx, name)
}

func TestReadingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crmmetrics.New()
		_, parts := system(t, crm.Options{}, handler.Spec{Name: "all", Types: []string{"order.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })})
		queues := &asked{Store: parts.Queues}
		parts.Queues = queues
		sys, err := crm.New(parts, crm.Options{Finished: c.Finished})
		if err != nil {
			t.Fatal(err)
		}
		c.Watch(sys)
		for range 100 {
			metricstest.Scrape(t, c)
		}
		if n := queues.times.Load(); n != 1 {
			t.Errorf("asked %d times within a moment, want once", n)
		}
		time.Sleep(time.Minute)
		queues.away.Store(true)
		began := time.Now()
		var g sync.WaitGroup
		for range 10 {
			g.Go(func() {
				text := metricstest.Scrape(t, c)
				if strings.Contains(text, "crm_event_queue_depth") || strings.Contains(text, "tidemill_queue_paused") || !strings.Contains(text, "crm_events_processed_total") {
					t.Errorf("while the database is away: want what was counted, and nothing of the queue:\n%s", text)
				}
			})
		}
		g.Wait()
		if took := time.Since(began); took != 5*time.Second || queues.times.Load() != 2 {
			t.Errorf("ten scrapes of a database that is away took %v and asked %d times, want 5s and one question for all", took, queues.times.Load()-1)
		}
		queues.away.Store(false)
		if !strings.Contains(metricstest.Scrape(t, c), "crm_event_queue_depth") {
			t.Error("it is back, and not shown")
		}
	})
}

// One process may run both systems: the metrics of queues are those of both.
func TestBesideDelivery(t *testing.T) {
	c := crmmetrics.New()
	sys, parts := system(t, crm.Options{Finished: c.Finished}, handler.Spec{Name: "all", Types: []string{"order.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })})
	c.Watch(sys)
	d, err := delivery.New(delivery.Parts{Queues: parts.Queues, DeadLetters: parts.DeadLetters, Sent: tableledger.Memory(tableledger.Options{})}, delivery.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := metricstest.Scrape(t, deliverymetrics.New(d, parts.Queues), c)
	for _, line := range []string{`tidemill_queue_paused{queue="crm-events"} 0`, `tidemill_queue_paused{queue="ingest.high"} 0`, `crm_dlq_depth 0`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no %s:\n%s", line, text)
		}
	}
}
