//go:build unix

package bridgetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

// alone is a Redis of one test's own, and nothing set.
func alone(t *testing.T) *given {
	t.Helper()
	t.Parallel()
	return &given{redis: testenv.Start(t, testenv.PrivateRedis).URL, seen: map[string]bool{}}
}

// What stands in an entry comes out byte for byte where it is JSON, and as text where it
// only looks like it.
func TestPayloadsComeAsTheyAre(t *testing.T) {
	r := alone(t).start(t, nil)
	for payload, want := range map[string]string{
		`2025-01-01 10:00 up`: `"2025-01-01 10:00 up"`, `null pointer`: `"null pointer"`, `5 failed`: `"5 failed"`, `{oops`: `"{oops"`, `[warn] disk`: `"[warn] disk"`, `007`: `"007"`,
		`{"z":1, "a":123456789012345678901234567890,"z":2}`: `{"z":1, "a":123456789012345678901234567890,"z":2}`, `12345678901234567890.10`: `12345678901234567890.10`, `"\u00e9\/"`: `"\u00e9\/"`,
	} {
		id := r.entry("payload", payload)
		eventually(t, "it is published", func() bool {
			got := r.broker.messages()
			return len(got) > 0 && got[len(got)-1].ID() == id
		})
		got := r.broker.messages()
		if whole := `{"message":{"payload":` + want + `},"redis":{"payload":{"id":"` + id + `"}}}`; got[len(got)-1].Payload != whole {
			t.Errorf("%s came as %s", payload, got[len(got)-1].Payload)
		}
	}
}

// An ack counts for an entry that is pending, once; what was never handed out is not
// deleted by anybody's word.
func TestAcksOfWhatIsNotTheirs(t *testing.T) {
	r := alone(t).start(t, env{"MQTT_SUBSCRIBE_TOPIC": "acks"})
	ids := r.add(3)
	eventually(t, "all is published", func() bool { return r.broker.distinct() == 3 })
	for range 3 {
		r.broker.say(yes(ids[0]))
	}
	r.broker.say(`{"ids":["` + ids[1] + `","` + ids[1] + `"],"ack":true}`)
	r.broker.say(`no ack`)
	eventually(t, "each counts once", func() bool {
		return r.metric("messages_acked_total") == 2 && r.metric("unknown_acks_total") == 3 && r.metric("invalid_acks_total") == 1 && r.length() == 1
	})
	r.steer("pause")
	time.Sleep(1200 * time.Millisecond) // the read that waits at Redis has ended, and none follows
	fresh := r.entry("payload", "1")
	r.broker.say(yes(fresh))
	r.broker.say(yes("1-1"))
	r.broker.say(yes("nonsense"))
	r.broker.say(yes(ids[2])) // acks are taken while it is paused
	eventually(t, "they are unknown", func() bool { return r.metric("unknown_acks_total") == 6 && r.metric("messages_acked_total") == 3 })
	if r.length() != 1 {
		t.Error("an entry was deleted that nobody had got")
	}
	r.steer("resume")
	eventually(t, "it is published", func() bool { return r.broker.distinct() == 4 })
	r.broker.say(yes(fresh))
	eventually(t, "its ack counts now", func() bool { return r.length() == 0 && r.metric("messages_acked_total") == 4 })
}

// A receiver that gets everything and acknowledges nothing, or acknowledges in words that
// nobody understands, is shown wherever an operator looks.
func TestAcksThatDoNotComeAreShown(t *testing.T) {
	r := alone(t).start(t, env{"MQTT_SUBSCRIBE_TOPIC": "acks", "REDIS_CLAIM_MIN_IDLE": "1s", "REDIS_CLAIM_INTERVAL": "100ms"})
	ids := r.add(2)
	eventually(t, "it is in a metric", func() bool { return r.metric("unanswered_entries") == 2 })
	r.broker.say("thank you")
	r.broker.say(yes("1-1"))
	eventually(t, "they are counted", func() bool { return r.metric("invalid_acks_total") == 1 && r.metric("unknown_acks_total") == 1 })
	status, doctor := r.get("/api/v1/status").Body.String(), r.get("/api/v1/doctor").Body.String()
	for _, want := range []string{"entries published 3 times or more and without an ack: 2; " + ids[0], "1 acks since the start were not taken", "1 payloads on the topic of acks since the start are no acks"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status does not say %q: %s", want, status)
		}
	}
	if !strings.Contains(doctor, `"check":"acks","verdict":"warn","detail":"entries published 3 times or more and without an ack: 2`) {
		t.Errorf("the doctor says %s", doctor)
	}
	var is bridgeapi.Bridge
	if err := json.Unmarshal(r.get("/api/v1/bridge").Body.Bytes(), &is); err != nil || is.State != "running" || is.Stream != r.stream || is.Topic != r.stream || is.AckTopic != "acks" || is.DeadTopic != r.stream+"/dlq" ||
		is.Length != 2 || is.Pending != 2 || is.Delayed != 0 || is.Oldest == nil || len(is.Consumers) != 1 || is.Consumers[0].Pending != 2 ||
		is.Published < 6 || is.Acknowledged != 0 || is.Refused != 0 || is.Unanswered != 2 || !slices.Contains(ids, is.Example) {
		t.Errorf("%v: %+v", err, is)
	}
	r.broker.say(`{"id":"` + ids[0] + `","ack":false}`)
	eventually(t, "the refusal is in a metric", func() bool { return r.metric("messages_nacked_total") >= 1 })
	status, doctor = r.get("/api/v1/status").Body.String(), r.get("/api/v1/doctor").Body.String()
	if !strings.Contains(status, "times since the start the receiver refused an entry (ack: false)") || !strings.Contains(doctor, "since the start 0 taken, 1 refusals") {
		t.Errorf("the status says %s, the doctor %s", status, doctor)
	}
	r.broker.say(yes(ids[0]))
	r.broker.say(yes(ids[1]))
	eventually(t, "that is over", func() bool { return r.metric("unanswered_entries") == 0 && r.length() == 0 })
	if err := json.Unmarshal(r.get("/api/v1/bridge").Body.Bytes(), &is); err != nil || is.Length != 0 || is.Pending != 0 || is.Acknowledged != 2 || is.Refused < 1 {
		t.Errorf("%v, in the end: %+v", err, is)
	}
}

// A key that holds something else than a stream is an error of the start; and of readiness,
// where somebody puts it there later.
func TestAKeyThatIsNoStream(t *testing.T) {
	r := alone(t).prepare(t, env{"HEALTH_ENABLED": "true", "HEALTH_PORT": "1", "HEALTH_CHECK_INTERVAL": "100ms"})
	r.do("SET", r.stream, "text")
	if err := r.open(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("REDIS_STREAM): the key %q holds a string, not a stream", r.stream)) {
		t.Errorf("opened: %v", err)
	}
	r.do("DEL", r.stream)
	url := r.runOn("HEALTH_PORT")
	eventually(t, "it is ready", func() bool { status, _ := fetch(url + "/ready"); return status == 200 })
	r.do("SET", r.stream, "text")
	eventually(t, "it is not ready, and says why", func() bool {
		ready, _ := fetch(url + "/ready")
		health, why := fetch(url + "/health")
		return ready == 503 && health == 503 && strings.Contains(why, "holds a string, not a stream")
	})
	r.do("DEL", r.stream)
	id := r.entry("payload", "1")
	eventually(t, "it goes on", func() bool {
		ready, _ := fetch(url + "/ready")
		got := r.broker.messages()
		return ready == 200 && len(got) == 1 && got[0].ID() == id
	})
}

// What is refused ends, and stays ended, however often it is claimed and drained.
func TestTheDeadDoNotComeBack(t *testing.T) {
	r := alone(t).start(t, env{"MQTT_SUBSCRIBE_TOPIC": "acks", "PIPELINE_RETRY_MAX_ATTEMPTS": "1", "PIPELINE_RETRY_INITIAL_BACKOFF": "50ms", "REDIS_CLAIM_MIN_IDLE": "1s",
		"REDIS_CLAIM_INTERVAL": "100ms", "REDIS_DRAIN_INTERVAL": "100ms"})
	r.broker.set(func() { r.broker.far = no })
	r.add(5)
	eventually(t, "all are dead", func() bool { return len(r.broker.letters()) == 5 && r.length() == 0 })
	never(t, 3*time.Second, "one comes back", func() bool { return len(r.broker.messages()) != 10 || len(r.broker.letters()) != 5 })
}

// A bridge that waits for its broker is alive: what it has is its own, however long that
// takes.
func TestAClaimLeavesTheLivingAlone(t *testing.T) {
	g := alone(t)
	settings := env{"REDIS_CLAIM_MIN_IDLE": "2s", "REDIS_CLAIM_INTERVAL": "100ms", "PIPELINE_PROCESSING_TIMEOUT": "1h", "REDIS_STREAM": "shared", "REDIS_CONSUMER_GROUP": "shared"}
	slow := g.prepare(t, settings)
	slow.broker.set(func() { slow.broker.silent = true })
	slow.add(20)
	slow.run()
	eventually(t, "the slow one has them", func() bool { return slow.broker.distinct() == 20 })
	other := g.start(t, settings)
	never(t, 5*time.Second, "the other one takes them", func() bool { return other.broker.distinct() > 0 })
	slow.broker.speak()
	eventually(t, "the slow one finishes", func() bool { return slow.length() == 0 })
	if n := len(slow.broker.messages()); n != 20 || other.broker.distinct() != 0 {
		t.Errorf("published %d times by the slow one, and %d by the other one; want 20 and none", n, other.broker.distinct())
	}
}

// While the broker is away nothing is used up: with a single try, everything comes when it
// is back.
func TestAnOutageUsesUpNoTries(t *testing.T) {
	for _, retry := range []string{"true", "false"} {
		t.Run("retry "+retry, func(t *testing.T) {
			r := alone(t).prepare(t, env{"PIPELINE_RETRY_ENABLED": retry, "PIPELINE_RETRY_MAX_ATTEMPTS": "1", "PIPELINE_RETRY_INITIAL_BACKOFF": "20ms", "CIRCUIT_BREAKER_TIMEOUT": "200ms", "MQTT_CONNECT_TIMEOUT": "500ms"})
			link := r.proxied()
			r.run()
			r.add(10)
			eventually(t, "it runs", func() bool { return r.broker.distinct() == 10 && r.length() == 0 })
			link.Refuse()
			r.add(100)
			never(t, 4*time.Second, "an entry ends", func() bool { return r.length() != 100 })
			link.Heal()
			eventually(t, "all is published", func() bool { return r.broker.distinct() == 110 && r.length() == 0 })
			if n := len(r.broker.letters()); n != 0 {
				t.Errorf("the outage made %d letters", n)
			}
		})
	}
}

// A variable holds where the flag is not given, whatever the flag's default.
func TestAFlagThatIsNotGivenOverridesNothing(t *testing.T) {
	g := alone(t)
	r, in := g.binary(t, env{"REDIS_DRAIN_ENABLED": "false", "MQTT_QOS": "0", "MQTT_USE_USER_PREFIX": "false", "LOG_FORMAT": "text"}, "--cb-enabled=false", "--log-format", "json")
	r.orphan(3)
	last := r.add(1)[0]
	eventually(t, "it runs", func() bool { return r.broker.distinct() == 1 && r.broker.messages()[0].ID() == last })
	if got := r.broker.messages()[0].QoS; got != 0 {
		t.Errorf("published at QoS %d, though MQTT_QOS is 0", got)
	}
	if strings.Contains(in.Log(), "level=") {
		t.Errorf("the flag did not win over the variable:\n%s", in.Log())
	}
}

// With nothing to do it does nothing.
func TestAnIdleBridgeRests(t *testing.T) {
	g := alone(t)
	r, in := g.binary(t, env{"RESOURCE_MAX_WORKERS": "", "MQTT_SUBSCRIBE_TOPIC": "acks"})
	r.broker.set(func() { r.broker.far = yes })
	r.add(10)
	eventually(t, "it works", func() bool { return r.broker.distinct() == 10 && r.length() == 0 })
	time.Sleep(time.Second)
	const over = 6 * time.Second
	before, began := cpuOf(t, in.PID()), time.Now()
	time.Sleep(over) // what is measured is that nothing happens
	used, took := cpuOf(t, in.PID())-before, time.Since(began)
	share := 100 * used.Seconds() / took.Seconds()
	t.Logf("%v of a processor in %v: %.2f%%", used, took, share)
	if share > 1 {
		t.Errorf("an idle bridge uses %.2f%% of a processor, want less than 1%%", share)
	}
}

// The number of goroutines is that of its parts, whatever there is to do.
func TestGoroutinesAreBounded(t *testing.T) {
	g := alone(t)
	r, in := g.binary(t, env{"MQTT_SUBSCRIBE_TOPIC": "acks", "RESOURCE_MAX_WORKERS": "8", "PIPELINE_PROCESSING_TIMEOUT": "500ms", "CIRCUIT_BREAKER_ENABLED": "false",
		"PIPELINE_RETRY_INITIAL_BACKOFF": "100ms"})
	goroutines := func() float64 {
		_, page := fetch("http://" + in.Addr + "/metrics")
		return metricIn(page, "go_goroutines")
	}
	idle := goroutines()
	most := idle
	see := func() { most = max(most, goroutines()) }
	r.broker.set(func() { r.broker.silent = true })
	const many = 5000
	r.do("EVAL", `for n = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'payload', '{}') end`, "1", r.stream, fmt.Sprint(many))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		see()
	}
	r.broker.set(func() { r.broker.far = yes })
	r.broker.speak()
	eventually(t, "all is acknowledged", func() bool {
		see()
		for _, p := range r.broker.messages() { // what was published while it was silent was not answered
			if rand.IntN(20) == 0 {
				r.broker.say(yes(p.ID()))
			}
		}
		return r.length() == 0
	})
	t.Logf("%v goroutines idle, %v at most", idle, most)
	if idle <= 0 || most > idle+40 {
		t.Errorf("%v goroutines, %v when it was idle", most, idle)
	}
}
