//go:build unix

package bridgetest

import (
	"testing"
	"time"
)

var ofPipeline = []scenario{
	{"a buffer and what gives way", []string{"PIPELINE_BUFFER_SIZE", "PIPELINE_BACKPRESSURE_THRESHOLD", "PIPELINE_DROP_POLICY", "PIPELINE_BACKPRESSURE_POLL_INTERVAL"}, buffer},
	{"batches that wait", []string{"PIPELINE_BATCH_SIZE", "PIPELINE_BATCH_TIMEOUT"}, batch},
	{"acknowledgements to Redis that wait", []string{"PIPELINE_FLUSH_INTERVAL"}, flush},
	{"a broker that never acknowledges", []string{"PIPELINE_PROCESSING_TIMEOUT"}, processing},
	{"settings without effect", []string{"PIPELINE_ZERO_COPY", "PIPELINE_NUMA_AWARE", "PIPELINE_IDLE_POLL_SLEEP", "MQTT_ORDER_MATTERS"}, withoutEffect},
}

func buffer(t *testing.T, g *given) {
	for policy, drops := range map[string]bool{"oldest": true, "newest": true, "none": false} {
		t.Run(policy, func(t *testing.T) {
			r := g.prepare(t, env{"PIPELINE_BUFFER_SIZE": "30", "PIPELINE_BACKPRESSURE_THRESHOLD": "0.5", "PIPELINE_DROP_POLICY": policy, // 32
				"PIPELINE_BACKPRESSURE_POLL_INTERVAL": "50ms", "PIPELINE_BATCH_SIZE": "4", "RESOURCE_MAX_WORKERS": "1", "PIPELINE_PROCESSING_TIMEOUT": "1h",
				"REDIS_CLAIM_MIN_IDLE": "1s", "REDIS_CLAIM_INTERVAL": "100ms"})
			r.broker.set(func() { r.broker.silent = true })
			r.add(100)
			r.run()
			eventually(t, "the buffer is used", func() bool { return r.metric("buffer_utilization_percent") >= 40 })
			if drops {
				eventually(t, "entries are dropped", func() bool {
					return r.metric(`messages_dropped_total{place="buffer",policy="`+policy+`"}`) > 0 && r.metric("backpressure_drops_total") > 0
				})
			}
			const half = 100 * 16. / 32
			if drops { // beside what waits there is a batch that is worked on; and for a moment what was just dropped
				eventually(t, "half of the buffer is used", func() bool { return r.metric("buffer_utilization_percent") <= half+100*4./32 })
			} else {
				never(t, 300*time.Millisecond, "more than half of the buffer is used", func() bool { return r.metric("buffer_utilization_percent") > half })
			}
			if !drops && r.metric("messages_dropped_total") != 0 {
				t.Errorf("%v entries were dropped", r.metric("messages_dropped_total"))
			}
			if len(r.log.lines("backpressure begins")) == 0 && r.metric("buffer_utilization_percent") >= 50 {
				t.Error("it is not said that there is backpressure")
			}
			r.broker.speak()
			eventually(t, "every entry comes in the end", func() bool { return r.broker.distinct() == 100 && r.length() == 0 })
		})
	}
	t.Run("looked at seldom", func(t *testing.T) {
		r := g.prepare(t, env{"PIPELINE_BUFFER_SIZE": "32", "PIPELINE_DROP_POLICY": "none", "PIPELINE_BACKPRESSURE_POLL_INTERVAL": "1h", "PIPELINE_BATCH_SIZE": "4", "PIPELINE_PROCESSING_TIMEOUT": "1h"})
		r.broker.set(func() { r.broker.silent = true })
		r.run()
		r.add(100)
		eventually(t, "messages are out", func() bool { return len(r.broker.messages()) > 0 })
		never(t, 500*time.Millisecond, "the use of the buffer was looked at again", func() bool { return r.metric("buffer_utilization_percent") != 0 })
		r.broker.speak()
	})
}

func batch(t *testing.T, g *given) {
	// after is how long one message waited.
	after := func(settings env) time.Duration {
		settings["RESOURCE_MAX_WORKERS"] = "1"
		r := g.start(t, settings)
		r.add(1)
		eventually(t, "it runs", func() bool { return r.broker.distinct() == 1 && r.length() == 0 })
		at := time.Now()
		r.add(1)
		eventually(t, "it is published", func() bool { return r.broker.distinct() == 2 })
		return r.broker.messages()[1].At.Sub(at)
	}
	waits, none, full := after(env{"PIPELINE_BATCH_TIMEOUT": "4s"}), after(env{}), after(env{"PIPELINE_BATCH_TIMEOUT": "4s", "PIPELINE_BATCH_SIZE": "1"})
	if waits < 3900*time.Millisecond || none > 3*time.Second || full > 3*time.Second {
		t.Errorf("a message waited %v for a batch of 1000 and 4s, %v without, %v for a batch of one", waits, none, full)
	}
	r := g.start(t, env{"PIPELINE_BATCH_TIMEOUT": "1h", "PIPELINE_BATCH_SIZE": "10", "RESOURCE_MAX_WORKERS": "1"})
	r.add(9)
	never(t, 300*time.Millisecond, "nine are published, of ten", func() bool { return r.broker.distinct() > 0 })
	r.add(1)
	eventually(t, "the batch is full", func() bool { return r.broker.distinct() == 10 })
}

func flush(t *testing.T, g *given) {
	late := func(settings env) time.Duration {
		r := g.start(t, settings)
		r.add(1)
		eventually(t, "it is published", func() bool { return r.broker.distinct() == 1 })
		eventually(t, "it is deleted", func() bool { return r.length() == 0 })
		return time.Since(r.broker.messages()[0].At)
	}
	given, none := late(env{"PIPELINE_FLUSH_INTERVAL": "4s"}), late(env{})
	if given < 3900*time.Millisecond || none > 3*time.Second {
		t.Errorf("it was deleted %v after it was published with a flush interval of 4s, and %v without", given, none)
	}
}

func processing(t *testing.T, g *given) {
	begin := func(d string) *rig {
		r := g.prepare(t, env{"PIPELINE_PROCESSING_TIMEOUT": d, "PIPELINE_RETRY_MAX_ATTEMPTS": "0", "CIRCUIT_BREAKER_ENABLED": "false"})
		r.broker.set(func() { r.broker.silent = true })
		r.run()
		r.add(3)
		return r
	}
	short, long := begin("200ms"), begin("1h")
	failed := func(r *rig) bool { return r.metric("processing_errors_total") > 0 && r.metric("mqtt_errors_total") > 0 }
	eventually(t, "the broker's silence is an error", func() bool { return failed(short) })
	if failed(long) {
		t.Error("it is one before its time")
	}
	for _, r := range []*rig{short, long} {
		r.broker.speak()
		eventually(t, "all is published in the end", func() bool { return r.broker.distinct() == 3 && r.length() == 0 })
		if n := len(r.broker.letters()); n != 0 {
			t.Errorf("silence made %d letters", n)
		}
	}
}

func withoutEffect(t *testing.T, g *given) {
	r := g.start(t, env{"PIPELINE_ZERO_COPY": "false", "PIPELINE_NUMA_AWARE": "true", "PIPELINE_IDLE_POLL_SLEEP": "5ms", "MQTT_ORDER_MATTERS": "false"})
	for _, name := range []string{"PIPELINE_ZERO_COPY", "PIPELINE_NUMA_AWARE", "PIPELINE_IDLE_POLL_SLEEP", "MQTT_ORDER_MATTERS"} {
		if len(r.log.lines("a setting without effect", "setting="+name)) != 1 {
			t.Errorf("nothing is said of %s:\n%s", name, r.log)
		}
	}
	r.entry("payload", `{"b":1, "a":12345678901234567890}`)
	eventually(t, "it is published", func() bool { return r.broker.distinct() == 1 })
	silent := g.start(t, env{"PIPELINE_ZERO_COPY": "true", "PIPELINE_NUMA_AWARE": "false", "MQTT_ORDER_MATTERS": "true"})
	if said := silent.log.lines("without effect"); len(said) != 0 {
		t.Errorf("it complains without a reason: %q", said)
	}
}
