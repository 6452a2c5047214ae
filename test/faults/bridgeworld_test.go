//go:build servers

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
	"github.com/tidemill/tidemill/test/promise"
)

// Where the bridges of these tests read and write.
const (
	bridgeStream = "entries"
	bridgeGroup  = "bridges"
	outTopic     = "faults/out"
	ackTopic     = "faults/acks"
	deadTopic    = "faults/dead"
)

// bridgeStop is the time that a stop of a bridge may take.
const bridgeStop = 10 * time.Second

// bridgeWorld is a test's own Redis and Mosquitto, bridges between them, producers and a
// subscriber.
type bridgeWorld struct {
	*world
	mosquitto *testenv.Server
	load      *bridgeLoad
	far       *farSide
}

// bridgeRounds runs a test in worlds of its own, and its servers with settings. Without
// settings, what Redis confirms survives kill -9, and the broker has its defaults, except for
// what it keeps: what it forgets comes again.
func bridgeRounds(t *testing.T, do func(w *bridgeWorld), settings ...string) {
	t.Helper()
	eachRound(t, func(t *testing.T, rnd *rand.Rand) { do(newBridgeWorld(t, rnd, settings...)) })
}

func newBridgeWorld(t *testing.T, rnd *rand.Rand, settings ...string) *bridgeWorld {
	t.Helper()
	if len(settings) == 0 {
		settings = []string{"REDIS_SETTINGS=--appendfsync always", "MOSQUITTO_SETTINGS=persistence false"}
	}
	w := &bridgeWorld{world: &world{T: t, rnd: rnd, began: time.Now(), hits: map[string]int{}}}
	var up sync.WaitGroup
	up.Go(func() { w.redis = testenv.Start(t, testenv.PrivateRedis, settings...) })
	up.Go(func() {
		w.mosquitto = testenv.Start(t, testenv.PrivateMosquitto, settings...)
	})
	up.Wait()
	if t.Failed() {
		t.FailNow()
	}
	w.env = map[string]string{
		"REDIS_ADDRESSES": w.redis.Addr, "REDIS_STREAM": bridgeStream, "REDIS_CONSUMER_GROUP": bridgeGroup, "REDIS_BLOCK_TIME": "500ms",
		"REDIS_CLAIM_MIN_IDLE": claim.String(), "REDIS_CLAIM_INTERVAL": "1s", "REDIS_CLAIM_CYCLE_DELAY": "100ms", "REDIS_RETRY_INTERVAL": "200ms",
		"REDIS_DRAIN_INTERVAL": "2s", "REDIS_CONSUMER_IDLE_TIMEOUT": "6s", "REDIS_CONSUMER_CLEANUP_INTERVAL": "2s",
		"MQTT_BROKERS": "tcp://" + w.mosquitto.Addr, "MQTT_QOS": fmt.Sprint(1 + (rnd.IntN(2)+len(t.Name()))%2), "MQTT_MAX_RECONNECT_DELAY": "500ms",
		"MQTT_PUBLISH_TOPIC": outTopic, "MQTT_SUBSCRIBE_TOPIC": ackTopic, "PIPELINE_DLQ_TOPIC": deadTopic,
		"PIPELINE_RETRY_MAX_ATTEMPTS": fmt.Sprint(promise.MostRefusals - 1), "PIPELINE_RETRY_INITIAL_BACKOFF": "200ms", "PIPELINE_RETRY_MAX_BACKOFF": "1s",
		"PIPELINE_PROCESSING_TIMEOUT": "2s", "CIRCUIT_BREAKER_TIMEOUT": "1s", "APP_SHUTDOWN_TIMEOUT": bridgeStop.String(),
		"HEALTH_ENABLED": "false", "METRICS_ENABLED": "false", "LOG_LEVEL": "info", // it reports that it is ready in its log
	}
	w.dial()
	t.Logf("ready after %v, QoS %s", time.Since(w.began).Round(time.Millisecond), w.env["MQTT_QOS"])
	return w
}

// instance makes a bridge on the servers, with its own consumer name.
func (w *bridgeWorld) instance(name string) *process.Instance {
	w.Helper()
	return w.make([]string{"bridge"}, "REDIS_CONSUMER_NAME="+name)
}

// run makes bridges and starts them one after the other, then the subscriber and producers.
func (w *bridgeWorld) run(f farOptions, names ...string) []*process.Instance {
	w.Helper()
	w.far = newFarSide(w, f)
	var made []*process.Instance
	for _, n := range names {
		in := w.instance(n)
		in.Start()
		made = append(made, in)
	}
	w.load = w.startBridgeLoad(0)
	return made
}

// waiting is how many entries are in the stream, and how many of them are handed out; of a
// named consumer, or of all for "".
func (w *bridgeWorld) waiting(name string) (entries, pending int64) {
	w.Helper()
	args := []string{"XPENDING", bridgeStream, bridgeGroup}
	if name == "" {
		list, err := w.do(args...).ToArray()
		if err == nil && len(list) > 0 {
			pending, _ = list[0].AsInt64()
		}
	} else {
		list, _ := w.do(append(args, "-", "+", "100000", name)...).ToArray() // no group: nothing
		pending = int64(len(list))
	}
	return w.int("XLEN", bridgeStream), pending
}

// busy waits until entries are handed out to that consumer, or to any for "".
func (w *bridgeWorld) busy(name string) {
	w.Helper()
	w.until(10*time.Second, "entries are handed out to "+name, func() bool { _, n := w.waiting(name); return n > 0 })
}

func (w *bridgeWorld) audit() (audit, error) { return auditOf[audit](w.world, "bridge") }

// quiet waits until nothing is in the stream, handed out, or in flight by the books.
func (w *bridgeWorld) quiet(within time.Duration) audit {
	w.Helper()
	began := time.Now()
	for deadline := began.Add(within); ; time.Sleep(50 * time.Millisecond) { // between two polls of other processes
		entries, pending := w.waiting("")
		var a audit
		var err error
		if entries+pending == 0 {
			if a, err = w.audit(); err == nil && a.InFlight == 0 {
				w.Logf("quiet after %v: %+v", time.Since(began).Round(time.Millisecond), a)
				return a
			}
		}
		if time.Now().After(deadline) {
			list, _ := w.do("XPENDING", bridgeStream, bridgeGroup, "-", "+", "5").ToAny()
			w.Fatalf("not quiet after %v: %d in the stream, %d pending, of them %v; audit %+v %v", within, entries, pending, list, a, err)
		}
	}
}
