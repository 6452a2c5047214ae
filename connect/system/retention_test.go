package system

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/preflight"
)

func TestStoresForgetOneAfterTheOtherAndRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		h := &Host{Now: time.Now, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&logged, nil))}
		var order []string
		broken := errors.New("the disk is gone")
		h.Retain("broken", func(context.Context) (int64, bool, error) { return 0, true, broken })
		left := 3
		h.Retain("events", func(context.Context) (int64, bool, error) {
			order = append(order, "events")
			time.Sleep(time.Second)
			left--
			return 500, left > 0, nil
		})
		h.Retain("warnings", func(context.Context) (int64, bool, error) {
			order = append(order, "warnings")
			return 0, false, nil
		})
		loops := h.Retention()
		if len(loops) != 1 {
			t.Fatalf("%d loops, want one for all", len(loops))
		}
		begun := time.Now()
		if err := loops[0].Do(t.Context()); !errors.Is(err, broken) {
			t.Errorf("the loop says %v, want what failed", err)
		}
		if took := time.Since(begun); took != 9*time.Second { // three slices, and two rests of three seconds
			t.Errorf("it took %v, want 9s", took)
		}
		if got := strings.Join(order, " "); got != "events events events warnings" {
			t.Errorf("in the order %s", got)
		}
		if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "store=events count=1500 took=3s") {
			t.Errorf("the log says %q", got)
		}
		fs := h.Retained()
		if len(fs) != 3 || fs[0].Verdict != preflight.Warn || fs[1].Verdict != preflight.OK || !strings.HasPrefix(fs[1].Detail, "1500 removed since the start, the last at ") || fs[2].Detail != "nothing was old since the start" {
			t.Errorf("found: %+v", fs)
		}
		families, err := h.Metrics.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "tidemill_retention_removed_total" {
			t.Fatal(families, err)
		}
		for i, want := range []float64{0, 1500, 0} { // by store
			if m := families[0].Metric[i]; m.GetCounter().GetValue() != want {
				t.Errorf("counted: %v, want %v", m, want)
			}
		}
		broken, left = nil, 1_000_000
		h.retained = h.retained[1:]
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		begun = time.Now()
		if err := loops[0].Do(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 10*time.Second {
			t.Errorf("when it is told to stop: %v after %v", err, time.Since(begun))
		}
	})
}
