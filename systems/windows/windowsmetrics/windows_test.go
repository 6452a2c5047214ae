package windowsmetrics_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/metrics/metricstest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/windowsmetrics"
)

// lookedAt is a store of windows that counts how often it is asked how it stands, and can be
// away; single windows nobody may look at for that.
type lookedAt struct {
	window.Store
	times, scans atomic.Int64
	away         atomic.Bool
}

func (l *lookedAt) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	l.scans.Add(1)
	return l.Store.List(ctx, f)
}

func (l *lookedAt) Stats(ctx context.Context) (window.Stats, error) {
	l.times.Add(1)
	if l.away.Load() {
		<-ctx.Done() // as a server does that is cut off
		return window.Stats{}, ctx.Err()
	}
	return l.Store.Stats(ctx)
}

// topics take what they are given, but for records that a test does not want there.
type topics struct{ refused string }

func (s *topics) Write(_ context.Context, batch []*tidemill.Message) error {
	for _, m := range batch {
		if string(m.Key) == s.refused {
			return tidemill.Fail(tidemill.Partner, "as the test says")
		}
	}
	return nil
}

// windowsIn runs a test with a windows system in memory that runs in fake time.
func windowsIn(t *testing.T, test func(c *windowsmetrics.Collector, store *lookedAt), steps ...process.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory, err := tablewindow.Memory(window.Options{})
		if err != nil {
			t.Fatal(err)
		}
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		chain, err := process.New(steps, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := &lookedAt{Store: memory}
		sys, err := windows.New(windows.Parts{Windows: store, DeadLetters: letters, Chain: chain, Out: windows.Each(&topics{refused: "13"})}, windows.Options{Tries: 1, AtOnce: 1, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- sys.Run(ctx) }()
		synctest.Wait()
		test(windowsmetrics.New(sys), store)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func put(t *testing.T, store window.Store, batch string, ids ...int) {
	t.Helper()
	var records []window.Record
	for _, id := range ids {
		records = append(records, window.Record{Batch: batch, Kind: "event", ID: fmt.Sprint(id), Body: fmt.Appendf(nil, `{"globalEventId":%d,"numMentions":%d}`, id, id%2)})
	}
	if err := store.Put(t.Context(), records, nil); err != nil {
		t.Fatal(err)
	}
}

func TestHowWindowsStand(t *testing.T) {
	even := process.Each("even", func(_ context.Context, _ string, it *process.Item) error {
		switch n, _ := it.Record.Int(0); {
		case n == 7:
			return tidemill.Fail(tidemill.Validation, "as the test says")
		case n == 9:
			it.Refuse(tidemill.Fail(tidemill.Validation, "as the test says"))
		case n%2 == 0:
			it.Skip("even")
		}
		time.Sleep(250 * time.Millisecond)
		return nil
	})
	windowsIn(t, func(c *windowsmetrics.Collector, store *lookedAt) {
		zero := metricstest.Series(metricstest.Scrape(t, c), "tidemill_windows")
		for _, state := range window.States() {
			for _, line := range []string{`tidemill_windows{state="%s"} 0`, `tidemill_windows_records{state="%s"} 0`, `tidemill_windows_oldest_seconds{state="%s"} 0`} {
				if line = fmt.Sprintf(line, state) + "\n"; !strings.Contains(zero, line) {
					t.Errorf("before anything happens there is no %s%s", line, zero)
				}
			}
		}
		put(t, store, "good", 1, 2, 3, 7, 9)
		put(t, store, "bad", 13, 15)
		time.Sleep(30 * time.Second)
		put(t, store, "young", 1)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		want := `tidemill_windows{state="active"} 1
tidemill_windows{state="leased"} 0
tidemill_windows{state="parked"} 1
tidemill_windows{state="ready"} 0
tidemill_windows_closed_total 2
tidemill_windows_lost_records_total 0
tidemill_windows_oldest_seconds{state="active"} 50
tidemill_windows_oldest_seconds{state="leased"} 0
tidemill_windows_oldest_seconds{state="parked"} 80
tidemill_windows_oldest_seconds{state="ready"} 0
tidemill_windows_processor_dead_total{processor="even"} 1
tidemill_windows_processor_dead_total{processor="read"} 0
tidemill_windows_processor_failed_total{processor="even"} 1
tidemill_windows_processor_failed_total{processor="read"} 0
tidemill_windows_processor_records_total{processor="even"} 7
tidemill_windows_processor_records_total{processor="read"} 7
tidemill_windows_processor_seconds_total{processor="even"} 1.5
tidemill_windows_processor_seconds_total{processor="read"} 0
tidemill_windows_processor_skipped_total{processor="even"} 1
tidemill_windows_processor_skipped_total{processor="read"} 0
tidemill_windows_records{state="active"} 1
tidemill_windows_records{state="leased"} 0
tidemill_windows_records{state="parked"} 2
tidemill_windows_records{state="ready"} 0
`
		if got := metricstest.Series(metricstest.Scrape(t, c), "tidemill_windows"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}, process.Step{Processor: even})
}

func TestReadingWindowsIsBounded(t *testing.T) {
	windowsIn(t, func(c *windowsmetrics.Collector, store *lookedAt) {
		for range 100 {
			metricstest.Scrape(t, c)
		}
		if n, scans := store.times.Load(), store.scans.Load(); n != 1 || scans > 0 {
			t.Errorf("asked %d times within a moment, want once; listed %d times, want never", n, scans)
		}
		time.Sleep(time.Minute)
		store.away.Store(true)
		began := time.Now()
		text := metricstest.Scrape(t, c)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("a scrape took %v while the store is away, want 5s", took)
		}
		if strings.Contains(text, "tidemill_windows_records") || !strings.Contains(text, `tidemill_windows_processor_records_total{processor="read"} 0`) {
			t.Errorf("while the store is away: want what was counted here, and nothing of windows:\n%s", text)
		}
		store.away.Store(false)
		if !strings.Contains(metricstest.Scrape(t, c), "tidemill_windows_records") {
			t.Error("it is back, and not shown")
		}
	})
}

func TestNamesOfWindowMetrics(t *testing.T) {
	windowsIn(t, func(c *windowsmetrics.Collector, _ *lookedAt) {
		r := prometheus.NewPedanticRegistry()
		if err := r.Register(c); err != nil {
			t.Fatal(err)
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}
