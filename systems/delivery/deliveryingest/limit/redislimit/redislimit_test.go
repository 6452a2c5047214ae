package redislimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest/limit/redislimit"
)

var start = time.Date(2026, 11, 21, 19, 0, 0, 123e6, time.UTC)

func TestInstancesCountTogether(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		now, prefix := start, testenv.Name("limit")
		meter := func() *redislimit.Meter {
			m, err := redislimit.New(client, redislimit.Options{Prefix: prefix, Now: func() time.Time { return now }, Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		a, b := meter(), meter()
		day := endpoint.Limit{Count: 10, Per: 24 * time.Hour}
		want := func(m *redislimit.Meter, name string, n int, ok bool, left int) endpoint.Standing {
			t.Helper()
			s, err := m.Admit(t.Context(), name, n, day)
			if err != nil || s.Admitted != ok || s.Left != left || !s.Reset.Equal(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%d more: %+v, %v; want %t, %d left", n, s, err, ok, left)
			}
			return s
		}
		s := want(a, "site/shop", 7, true, 3)
		want(b, "site/shop", 4, false, 3)
		want(b, "site/other", 10, true, 0)
		if err := b.Return(t.Context(), "site/shop", 5, day, s); err != nil {
			t.Fatal(err)
		}
		want(b, "site/shop", 8, true, 0)
		want(a, "site/shop", 1, false, 0)
		now = start.Add(5 * time.Hour)
		if s, err := a.Admit(t.Context(), "site/shop", 10, day); err != nil || !s.Admitted {
			t.Errorf("the next day: %+v, %v", s, err)
		}
		var admitted atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if s, err := a.Admit(t.Context(), "address/x", 1, endpoint.Limit{Count: 20, Per: time.Minute}); err == nil && s.Admitted {
					admitted.Add(1)
				}
			})
		}
		if wg.Wait(); admitted.Load() != 20 {
			t.Errorf("%d of 50 are let in; want 20", admitted.Load())
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := redislimit.New(nil, redislimit.Options{}); err == nil {
		t.Error("no connection is taken")
	}
}
