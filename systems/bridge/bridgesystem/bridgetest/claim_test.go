//go:build unix

package bridgetest

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var ofClaims = []scenario{
	{"entries of a consumer that is gone", []string{"REDIS_CLAIM_MIN_IDLE", "REDIS_CLAIM_INTERVAL"}, claims},
	{"entries that an operator takes over", nil, takenOver},
	{"a claim in batches", []string{"REDIS_AGGRESSIVE_CLAIM", "REDIS_CLAIM_BATCH_SIZE", "REDIS_CLAIM_CYCLE_DELAY"}, batches},
	{"entries that are nobody's", []string{"REDIS_DRAIN_ENABLED", "REDIS_DRAIN_INTERVAL", "REDIS_DRAIN_BATCH_SIZE"}, drains},
	{"consumers that are gone", []string{"REDIS_CONSUMER_CLEANUP_ENABLED", "REDIS_CONSUMER_IDLE_TIMEOUT", "REDIS_CONSUMER_CLEANUP_INTERVAL"}, cleanUp},
}

func claims(t *testing.T, g *given) {
	r := g.prepare(t, env{"REDIS_CLAIM_MIN_IDLE": "2s", "REDIS_CLAIM_INTERVAL": "100ms"})
	left := time.Now()
	r.abandon(5, 0)
	r.run()
	eventually(t, "they are taken over", func() bool { return r.broker.distinct() == 5 })
	if after := r.broker.messages()[0].At.Sub(left); after < 2*time.Second {
		t.Errorf("they were taken over after %v, before they were idle for 2s", after)
	}
	eventually(t, "that is counted", func() bool { return r.metric("messages_claimed_total") == 5 })

	seldom := g.prepare(t, env{"REDIS_CLAIM_MIN_IDLE": "1s", "REDIS_CLAIM_INTERVAL": "1h"})
	seldom.run() // which looks once
	seldom.add(1)
	eventually(t, "it runs", func() bool { return seldom.broker.distinct() == 1 })
	seldom.steer("pause")
	seldom.abandon(2, time.Hour)
	seldom.steer("resume")
	never(t, 2*time.Second, "it looks again before the interval is over", func() bool { return seldom.broker.distinct() > 1 })
}

// takenOver: an operator need not wait for a lease, and nothing of a process that runs is taken.
func takenOver(t *testing.T, g *given) {
	r := g.prepare(t, env{"REDIS_CLAIM_MIN_IDLE": "1h", "REDIS_CLAIM_INTERVAL": "1h", "REDIS_CONSUMER_NAME": "here"})
	r.abandon(3, 0)
	r.run()
	never(t, time.Second, "it takes over before their lease ends", func() bool { return r.broker.distinct() > 0 })
	const path = "/api/v1/bridge/consumers/gone"
	if w := r.get(path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"handed":1`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := r.ask(http.MethodPost, path+"/take-over"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"taken":3`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	eventually(t, "they are published", func() bool { return r.broker.distinct() == 3 })
	for own, want := range map[string]int{"here": http.StatusConflict, "gone": http.StatusNotFound} {
		if w := r.ask(http.MethodPost, "/api/v1/bridge/consumers/"+own+"/take-over"); w.Code != want {
			t.Errorf("%s is answered %d, want %d: %s", own, w.Code, want, w.Body)
		}
	}
}

func batches(t *testing.T, g *given) {
	const wait = "1500ms"
	const three = 3 * time.Second // nearly three waits: the first batch may be published late
	for name, c := range map[string]struct {
		settings env
		waits    bool
	}{
		"at once":    {env{"REDIS_AGGRESSIVE_CLAIM": "true", "REDIS_CLAIM_BATCH_SIZE": "5", "REDIS_CLAIM_CYCLE_DELAY": "0s", "REDIS_CLAIM_INTERVAL": "1h"}, false},
		"pauses":     {env{"REDIS_AGGRESSIVE_CLAIM": "true", "REDIS_CLAIM_BATCH_SIZE": "5", "REDIS_CLAIM_CYCLE_DELAY": wait, "REDIS_CLAIM_INTERVAL": "1h"}, true},
		"one batch":  {env{"REDIS_AGGRESSIVE_CLAIM": "false", "REDIS_CLAIM_BATCH_SIZE": "5", "REDIS_CLAIM_CYCLE_DELAY": "0s", "REDIS_CLAIM_INTERVAL": wait}, true},
		"all in one": {env{"REDIS_AGGRESSIVE_CLAIM": "false", "REDIS_CLAIM_BATCH_SIZE": "20", "REDIS_CLAIM_CYCLE_DELAY": "1h", "REDIS_CLAIM_INTERVAL": "1h"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.settings["REDIS_CLAIM_MIN_IDLE"] = "1m"
			r := g.prepare(t, c.settings)
			r.abandon(20, time.Hour)
			r.run()
			eventually(t, "they are taken over", func() bool { return r.broker.distinct() == 20 })
			got := r.broker.messages()
			if took := got[len(got)-1].At.Sub(got[0].At); took > three != c.waits {
				t.Errorf("four batches took %v", took)
			}
		})
	}
}

func drains(t *testing.T, g *given) {
	t.Run("in batches", func(t *testing.T) {
		r := g.prepare(t, env{"REDIS_DRAIN_ENABLED": "true", "REDIS_DRAIN_BATCH_SIZE": "10"})
		r.orphan(25)
		r.run()
		eventually(t, "they are published", func() bool { return r.broker.distinct() == 25 })
		eventually(t, "that is counted, and the stream is empty", func() bool { return r.metric("messages_drained_total") == 25 && r.length() == 0 })
		for _, line := range r.log.lines("what=drained") {
			m := regexp.MustCompile(` count=(\d+)`).FindStringSubmatch(line)
			if n, _ := strconv.Atoi(m[1]); n > 10 {
				t.Errorf("%d were drained together, want 10 at most", n)
			}
		}
	})
	t.Run("not at all", func(t *testing.T) {
		r := g.prepare(t, env{"REDIS_DRAIN_ENABLED": "false", "REDIS_DRAIN_INTERVAL": "100ms"})
		r.orphan(5)
		r.run()
		never(t, time.Second, "they are published", func() bool { return r.broker.distinct() > 0 })
	})
	again := func(t *testing.T, interval string) *rig {
		r := g.start(t, env{"REDIS_DRAIN_INTERVAL": interval})
		r.add(1)
		eventually(t, "it runs", func() bool { return r.broker.distinct() == 1 && r.length() == 0 })
		r.steer("pause")
		r.orphan(5)
		r.steer("resume")
		return r
	}
	t.Run("again after the interval", func(t *testing.T) {
		r := again(t, "200ms")
		eventually(t, "they are published", func() bool { return r.broker.distinct() == 6 })
	})
	t.Run("not before", func(t *testing.T) {
		r := again(t, "1h")
		never(t, time.Second, "they are published", func() bool { return r.broker.distinct() > 1 })
	})
}

func cleanUp(t *testing.T, g *given) {
	there := func(r *rig) bool {
		rows, err := r.do("XINFO", "CONSUMERS", r.stream, r.group).ToArray()
		if err != nil {
			r.Fatal(err)
		}
		for i := range rows {
			c, _ := rows[i].AsMap()
			name := c["name"]
			if s, _ := name.ToString(); s == "ghost" {
				return true
			}
		}
		return false
	}
	for name, settings := range map[string]env{
		"removed": {"REDIS_CONSUMER_CLEANUP_ENABLED": "true", "REDIS_CONSUMER_IDLE_TIMEOUT": "500ms", "REDIS_CONSUMER_CLEANUP_INTERVAL": "100ms"},
		"off":     {"REDIS_CONSUMER_CLEANUP_ENABLED": "false", "REDIS_CONSUMER_IDLE_TIMEOUT": "100ms", "REDIS_CONSUMER_CLEANUP_INTERVAL": "100ms"},
		"young":   {"REDIS_CONSUMER_CLEANUP_ENABLED": "true", "REDIS_CONSUMER_IDLE_TIMEOUT": "1h", "REDIS_CONSUMER_CLEANUP_INTERVAL": "100ms"},
		"seldom":  {"REDIS_CONSUMER_CLEANUP_ENABLED": "true", "REDIS_CONSUMER_IDLE_TIMEOUT": "100ms", "REDIS_CONSUMER_CLEANUP_INTERVAL": "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			r := g.prepare(t, settings)
			r.makeGroup()
			r.do("XGROUP", "CREATECONSUMER", r.stream, r.group, "ghost")
			r.run()
			r.add(1)
			if name == "removed" {
				eventually(t, "the consumer is removed", func() bool { return !there(r) })
				eventually(t, "that is counted", func() bool { return r.metric("consumers_removed_total") == 1 })
			} else {
				never(t, time.Second, "the consumer is removed", func() bool { return !there(r) })
			}
			if strings.Contains(r.log.String(), "removed") != (name == "removed") {
				t.Errorf("the log says otherwise:\n%s", r.log)
			}
		})
	}
}
