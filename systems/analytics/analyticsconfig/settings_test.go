package analyticsconfig

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
)

func TestFlushesFollowTheWarehouse(t *testing.T) {
	for _, c := range []struct {
		flags  map[string]string
		events int
		age    time.Duration
	}{
		{nil, 2000, 200 * time.Millisecond},
		{map[string]string{"clickhouse.url": "http://ch:8123"}, 4000, 500 * time.Millisecond},
		{map[string]string{"clickhouse.url": "http://ch:8123", "analytics.flush_events": "7", "analytics.flush_interval": "3s"}, 7, 3 * time.Second},
	} {
		l, err := config.Schema{Group}.Load(config.Layers{Flags: c.flags})
		if err != nil {
			t.Fatal(err)
		}
		if n, d := Of(l).Flush(); n != c.events || d != c.age {
			t.Errorf("%v: Flush() = %d, %v; want %d, %v", c.flags, n, d, c.events, c.age)
		}
	}
}

func TestHowLongEventsAreKept(t *testing.T) {
	for _, c := range []struct {
		flags map[string]string
		ok    bool
	}{
		{map[string]string{"analytics.keep": "90d", "analytics.keep_most": "5GB"}, true},
		{map[string]string{"analytics.keep": "90d", "clickhouse.url": "http://ch:8123"}, true},
		{map[string]string{"analytics.keep_most": "5GB", "analytics.keep_least": "60d", "clickhouse.url": "http://ch:8123"}, true},
		{map[string]string{"analytics.keep_most": "5GB", "analytics.keep_least": "60d", "analytics.keep": "30d"}, false},
		{map[string]string{"analytics.keep_least": "-1h"}, false},
		{map[string]string{"analytics.keep": "1h"}, false},
		{map[string]string{"analytics.keep": "-1d"}, false},
		{map[string]string{"analytics.keep_most": "1KB"}, false},
	} {
		if _, err := (config.Schema{Group}).Load(config.Layers{Flags: c.flags}); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
}

func TestHowOldEventsAreThatMakeRoom(t *testing.T) {
	for _, c := range []struct {
		flags map[string]string
		want  time.Duration
	}{
		{nil, 0},
		{map[string]string{"analytics.keep_least": "36h"}, 36 * time.Hour},
		{map[string]string{"clickhouse.url": "http://ch:8123"}, 30 * 24 * time.Hour},
		{map[string]string{"clickhouse.url": "http://ch:8123", "analytics.keep_least": "1h"}, time.Hour},
	} {
		l, err := config.Schema{Group}.Load(config.Layers{Flags: c.flags})
		if err != nil {
			t.Fatal(err)
		}
		if got := Of(l).Least(); got != c.want {
			t.Errorf("%v: %v, want %v", c.flags, got, c.want)
		}
	}
}
