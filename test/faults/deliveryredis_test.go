//go:build servers

package faults

import (
	"testing"
	"time"
)

// TestRedisOfDeliveryKilled kills it three times under load, with confirmed data on disk.
func TestRedisOfDeliveryKilled(t *testing.T) {
	t.Parallel()
	redisBreaks(t, 3, func(w *deliveryWorld) {
		w.kill(w.redis)
		w.pass(w.between(0, time.Second))
		w.redis.Restart()
	})
}

// TestRedisOfDeliveryFrozen freezes it for longer than leases last.
func TestRedisOfDeliveryFrozen(t *testing.T) {
	t.Parallel()
	redisBreaks(t, 2, func(w *deliveryWorld) {
		w.redis.Freeze()
		w.pass(deliveryLease + time.Second)
		w.redis.Thaw()
	})
}

// redisBreaks breaks Redis several times. Events in flight may then be sent again.
func redisBreaks(t *testing.T, times int, fault func(w *deliveryWorld)) {
	deliveryRounds(t, onRedis, func(w *deliveryWorld) {
		w.threePartners()
		w.run(2)
		l := w.startDeliveryLoad(deliveryLoadOptions{Rate: 150})
		for range times {
			w.pass(w.between(time.Second, 2*time.Second))
			w.busyPartners()
			before := l.confirmed.Load()
			fault(w)
			w.hit("away")
			w.until(20*time.Second, "events are confirmed again", func() bool { return l.confirmed.Load() > before+50 })
		}
		w.pass(time.Second)
		w.finish(afterLease, w.crashes())
		w.struck("faults while requests were under way", times, w.hits["busy"])
	})
}

// threePartners are one that fails, one that does not de-duplicate, and a healthy one.
func (w *deliveryWorld) threePartners() {
	w.partner("erring", erring, map[string]any{"idempotent": true, "maxRetries": 3, "timeout": "1s", "breaker": map[string]any{"open": "1s"}})
	w.partner("slow", after(20*time.Millisecond, well), map[string]any{"maxRetries": 3})
	w.partner("well", well, map[string]any{"idempotent": true})
}

// busyPartners waits until a request is running.
func (w *deliveryWorld) busyPartners() {
	w.Helper()
	w.until(10*time.Second, "requests are under way", func() bool { return w.underWay() > 0 })
	w.hit("busy")
}

// TestRedisOfDeliveryIsCutOffOrSlow makes it slow, then unreachable.
func TestRedisOfDeliveryIsCutOffOrSlow(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) {
		link := w.link(w.redis)
		w.threePartners()
		w.run(2)
		l := w.startDeliveryLoad(deliveryLoadOptions{Rate: 100})
		for _, fault := range []func(){
			func() { link.Slow(275*time.Millisecond, 225*time.Millisecond) },
			func() { link.Narrow(50) },
			func() { link.Slice(1) },
			link.BlackHole, link.Refuse,
		} {
			w.pass(500 * time.Millisecond)
			w.busyPartners()
			before := l.confirmed.Load()
			fault()
			w.pass(2 * time.Second)
			if n := l.confirmed.Load() - before; n < 180 {
				w.hit("behind")
			}
			link.Heal()
			w.hit("away")
			w.until(20*time.Second, "events are confirmed again", func() bool { return l.confirmed.Load() > before+50 })
		}
		w.finish(afterLease, w.crashes())
		w.struck("the ingest API fell behind", 2, w.hits["behind"])
	})
}

// TestAnswersOfRedisToDeliveryAreLost lets calls through and loses some of the answers,
// after a few bytes that change all the time.
func TestAnswersOfRedisToDeliveryAreLost(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) {
		c := newCutter(w, w.redis.Addr)
		w.through(w.redis, c.addr)
		w.threePartners()
		w.run(1)
		w.startDeliveryLoad(deliveryLoadOptions{Rate: 100})
		for range 30 { // seconds at most: a busy machine sends less
			c.lose(40, w.rnd.IntN(30)*w.rnd.IntN(2), "EVALSHA", "EVAL", "FCALL")
			if w.pass(time.Second); c.fired.Load() >= 40 {
				break
			}
		}
		c.lose(1, 0)
		lost := int(c.fired.Load())
		w.hits["away"] = lost
		w.finish(afterLease, w.crashes())
		w.struck("answers lost", 20, lost)
	})
}
