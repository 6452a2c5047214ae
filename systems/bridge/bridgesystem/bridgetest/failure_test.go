//go:build unix

package bridgetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var ofFailures = []scenario{
	{"the waits between tries", []string{"PIPELINE_RETRY_MAX_ATTEMPTS", "PIPELINE_RETRY_INITIAL_BACKOFF", "PIPELINE_RETRY_MAX_BACKOFF", "PIPELINE_RETRY_MULTIPLIER"}, tries},
	{"the dead", []string{"PIPELINE_RETRY_ENABLED", "PIPELINE_DLQ_ENABLED", "PIPELINE_DLQ_TOPIC"}, dead},
	{"when the breaker opens", []string{"CIRCUIT_BREAKER_ENABLED", "CIRCUIT_BREAKER_ERROR_THRESHOLD", "CIRCUIT_BREAKER_REQUEST_VOLUME"}, opens},
	{"when the breaker closes", []string{"CIRCUIT_BREAKER_TIMEOUT", "CIRCUIT_BREAKER_SUCCESS_THRESHOLD"}, closes},
	{"calls at once", []string{"CIRCUIT_BREAKER_MAX_CONCURRENT"}, concurrent},
}

func tries(t *testing.T, g *given) {
	// gaps are the times between the messages of an entry that is refused whenever it comes.
	gaps := func(t *testing.T, settings env) (gaps []time.Duration, attempts float64) {
		settings["MQTT_SUBSCRIBE_TOPIC"] = "acks"
		settings["REDIS_CLAIM_MIN_IDLE"], settings["REDIS_CLAIM_INTERVAL"] = "6s", "500ms" // a letter that is not taken in time is written again
		r := g.start(t, settings)
		r.broker.set(func() { r.broker.far = no })
		r.add(1)
		eventually(t, "it is dead", func() bool { return len(r.broker.letters()) == 1 && r.length() == 0 })
		got := r.broker.messages()
		for i := range got[1:] {
			gaps = append(gaps, got[i+1].At.Sub(got[i].At))
		}
		return gaps, letter(t, r).Attempts
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		settings env
		least    []time.Duration
		most     time.Duration // of the last
	}{
		"growing": {env{"PIPELINE_RETRY_MAX_ATTEMPTS": "3", "PIPELINE_RETRY_INITIAL_BACKOFF": "100ms", "PIPELINE_RETRY_MULTIPLIER": "3", "PIPELINE_RETRY_MAX_BACKOFF": "1h"},
			[]time.Duration{100 * ms, 300 * ms, 900 * ms}, time.Hour},
		"bounded": {env{"PIPELINE_RETRY_MAX_ATTEMPTS": "4", "PIPELINE_RETRY_INITIAL_BACKOFF": "100ms", "PIPELINE_RETRY_MULTIPLIER": "100", "PIPELINE_RETRY_MAX_BACKOFF": "200ms"},
			[]time.Duration{100 * ms, 200 * ms, 200 * ms, 200 * ms}, 5 * time.Second},
		"none": {env{"PIPELINE_RETRY_MAX_ATTEMPTS": "0"}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, attempts := gaps(t, c.settings)
			if len(got) != len(c.least) || int(attempts) != len(c.least)+1 {
				t.Fatalf("it was published again after %v, and the letter says %v attempts; want %v", got, attempts, c.least)
			}
			for i := range got {
				if got[i] < c.least[i]-10*ms || i == len(got)-1 && got[i] > c.most {
					t.Errorf("it was published again after %v, want %v", got, c.least)
				}
			}
		})
	}
}

// aLetter is a message for the dead.
type aLetter struct {
	OriginalMessage string    `json:"original_message"`
	Error           string    `json:"error"`
	Timestamp       time.Time `json:"timestamp"`
	MessageID       string    `json:"message_id"`
	Attempts        float64   `json:"attempts"`
}

func letter(t *testing.T, r *rig) (l aLetter) {
	t.Helper()
	raw := r.broker.letters()[0].Payload
	var fields map[string]any
	if err := json.Unmarshal([]byte(raw), &l); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal([]byte(raw), &fields); err != nil || len(fields) != 5 {
		t.Errorf("the letter is %s", raw)
	}
	return l
}

func dead(t *testing.T, g *given) {
	t.Run("a letter", func(t *testing.T) {
		r := g.start(t, env{"PIPELINE_RETRY_ENABLED": "false", "PIPELINE_DLQ_TOPIC": "/graves/bridge", "MQTT_SUBSCRIBE_TOPIC": "acks", "MQTT_QOS": "2"})
		r.broker.set(func() { r.broker.far = no })
		const data = `{"z":12345678901234567890, "a":"\u00e9"}`
		id := r.entry("payload", data)
		eventually(t, "it is dead at the first refusal", func() bool { return len(r.broker.letters()) == 1 && r.length() == 0 })
		p, l := r.broker.letters()[0], letter(t, r)
		if p.Topic != "graves/bridge" || p.QoS != 2 || l.OriginalMessage != data || l.MessageID != id || l.Attempts != 1 || l.Error == "" || time.Since(l.Timestamp).Abs() > time.Minute {
			t.Errorf("the letter is %+v on %s", l, p.Topic)
		}
		if n := len(r.broker.messages()); n != 1 {
			t.Errorf("published %d times", n)
		}
		eventually(t, "that is counted", func() bool { return r.metric("messages_dead_total") == 1 })
	})
	for _, code := range []byte{0x80, 0x83, 0x87, 0x97} {
		t.Run(fmt.Sprintf("refused by the broker with 0x%02X", code), func(t *testing.T) {
			r := g.prepare(t, env{"PIPELINE_RETRY_MAX_ATTEMPTS": "2", "PIPELINE_RETRY_INITIAL_BACKOFF": "50ms", "PIPELINE_DLQ_TOPIC": "graves", "MQTT_SUBSCRIBE_TOPIC": "acks"})
			r.broker.set(func() {
				r.broker.code = func(p published) byte {
					if p.Topic == "graves" {
						return 0
					}
					return code
				}
			})
			r.run()
			r.add(1)
			eventually(t, "it is dead", func() bool { return len(r.broker.letters()) == 1 && r.length() == 0 })
			if l := letter(t, r); l.Attempts != 3 || len(r.broker.messages()) != 3 || !strings.Contains(l.Error, fmt.Sprintf("0x%02X", code)) {
				t.Errorf("published %d times, the letter is %+v; want 3 tries", len(r.broker.messages()), l)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		r := g.start(t, env{"PIPELINE_RETRY_ENABLED": "false", "PIPELINE_DLQ_ENABLED": "false", "MQTT_SUBSCRIBE_TOPIC": "acks", "REDIS_CLAIM_MIN_IDLE": "1s", "REDIS_CLAIM_INTERVAL": "100ms"})
		r.broker.set(func() { r.broker.far = no })
		r.add(1)
		eventually(t, "it is refused", func() bool { return r.metric("messages_nacked_total") == 1 })
		never(t, 2500*time.Millisecond, "it is published again, or leaves", func() bool { return len(r.broker.messages()) != 1 || r.length() != 1 || len(r.broker.letters()) > 0 })
	})
}

// refusing is a bridge whose broker refuses all its messages, but those that take says.
func refusing(t *testing.T, g *given, settings env, take func(published) bool) *rig {
	settings["RESOURCE_MAX_WORKERS"], settings["PIPELINE_BATCH_SIZE"] = "1", "1"
	if settings["PIPELINE_RETRY_MAX_ATTEMPTS"] == "" {
		settings["PIPELINE_RETRY_MAX_ATTEMPTS"] = "1000"
	}
	settings["PIPELINE_RETRY_INITIAL_BACKOFF"] = "10ms"
	settings["PIPELINE_RETRY_MULTIPLIER"] = "1"
	r := g.prepare(t, settings)
	r.broker.set(func() {
		r.broker.code = func(p published) byte {
			if take != nil && take(p) {
				return 0
			}
			return 0x87 // not authorized
		}
	})
	r.run()
	return r
}

func opens(t *testing.T, g *given) {
	opened := func(r *rig) func() bool { return func() bool { return r.breaker() == "open" } }
	t.Run("at the volume", func(t *testing.T) {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_REQUEST_VOLUME": "10", "CIRCUIT_BREAKER_TIMEOUT": "1h"}, nil)
		r.add(3)
		eventually(t, "it opens", opened(r))
		n := len(r.broker.messages())
		if n < 10 || n > 13 {
			t.Errorf("it opened after %d failures, want 10", n)
		}
		never(t, 300*time.Millisecond, "more is published", func() bool { return len(r.broker.messages()) > n })
	})
	t.Run("not below it", func(t *testing.T) {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_REQUEST_VOLUME": "1000000"}, nil)
		r.add(3)
		eventually(t, "many fail", func() bool { return len(r.broker.messages()) > 60 })
		if opened(r)() {
			t.Error("it is open")
		}
	})
	third := func(n *int) func(published) bool { return func(published) bool { *n++; return *n%3 != 0 } }
	t.Run("at the share", func(t *testing.T) {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_ERROR_THRESHOLD": "20", "CIRCUIT_BREAKER_TIMEOUT": "1h"}, third(new(int)))
		r.add(100)
		eventually(t, "it opens", opened(r))
	})
	t.Run("not below the share", func(t *testing.T) {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_ERROR_THRESHOLD": "60"}, third(new(int)))
		r.add(100)
		eventually(t, "all is published", func() bool { return r.length() == 0 })
		if len(r.log.lines("breaker", "state=open")) > 0 {
			t.Error("it opened")
		}
	})
	t.Run("off", func(t *testing.T) {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_ENABLED": "false", "CIRCUIT_BREAKER_REQUEST_VOLUME": "1"}, nil)
		r.add(3)
		eventually(t, "many fail", func() bool { return len(r.broker.messages()) > 60 })
		if len(r.log.lines("breaker", "state=open")) > 0 {
			t.Error("it opened")
		}
	})
}

func closes(t *testing.T, g *given) {
	r := refusing(t, g, env{"CIRCUIT_BREAKER_REQUEST_VOLUME": "5", "CIRCUIT_BREAKER_TIMEOUT": "1s", "CIRCUIT_BREAKER_SUCCESS_THRESHOLD": "4"}, nil)
	r.add(50)
	eventually(t, "it opens", func() bool { return r.breaker() == "open" })
	last := r.broker.messages()
	n := len(last)
	r.broker.set(func() { r.broker.code = nil })
	eventually(t, "it tries again", func() bool { return len(r.broker.messages()) > n })
	if after := r.broker.messages()[n].At.Sub(last[n-1].At); after < 900*time.Millisecond {
		t.Errorf("it tried again after %v, want a second", after)
	}
	eventually(t, "it closes, and all is published", func() bool { return r.breaker() == "closed" && r.length() == 0 })
	if n := len(r.broker.letters()); n != 0 {
		t.Errorf("%d letters", n)
	}

	// With one success it closes at once; with more than there are entries it stays half-open.
	for _, c := range []struct{ threshold, state string }{{"1", "closed"}, {"1000", "half-open"}} {
		r := refusing(t, g, env{"CIRCUIT_BREAKER_REQUEST_VOLUME": "5", "CIRCUIT_BREAKER_TIMEOUT": "300ms", "CIRCUIT_BREAKER_SUCCESS_THRESHOLD": c.threshold}, nil)
		r.add(3)
		eventually(t, "it opens", func() bool { return r.breaker() == "open" })
		r.broker.set(func() { r.broker.code = nil })
		eventually(t, "all is published", func() bool { return r.length() == 0 })
		eventually(t, "it is "+c.state, func() bool { return r.breaker() == c.state })
	}
}

func concurrent(t *testing.T, g *given) {
	for limit, most := range map[string]int{"1": 1, "3": 3} {
		r := g.prepare(t, env{"CIRCUIT_BREAKER_MAX_CONCURRENT": limit, "RESOURCE_MAX_WORKERS": "8", "PIPELINE_BATCH_SIZE": "1", "PIPELINE_PROCESSING_TIMEOUT": "1h"})
		r.broker.set(func() { r.broker.silent = true })
		r.add(50)
		r.run()
		eventually(t, "calls are made", func() bool { return r.broker.look(&r.broker.most) == most })
		never(t, 300*time.Millisecond, "more are made", func() bool { return r.broker.look(&r.broker.most) > most })
		r.broker.speak()
		eventually(t, "those who wait come through", func() bool { return r.length() == 0 && r.broker.distinct() == 50 })
		if n := len(r.broker.letters()); n != 0 {
			t.Errorf("waiting made %d letters", n)
		}
	}
}
