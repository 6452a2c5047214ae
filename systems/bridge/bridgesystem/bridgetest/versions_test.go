//go:build unix

package bridgetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

// A broker that speaks MQTT 3.1.1 alone is spoken to in that.
func TestABrokerOfOldSpeaks311(t *testing.T) {
	g := alone(t)
	for _, qos := range []string{"0", "1", "2"} {
		r := g.prepare(t, env{"MQTT_QOS": qos, "MQTT_SUBSCRIBE_TOPIC": "acks", "PIPELINE_RETRY_ENABLED": "false", "MQTT_CLEAN_SESSION": "false"})
		r.broker.set(func() { r.broker.old, r.broker.far = true, yes })
		r.run()
		r.add(200)
		eventually(t, "all is acknowledged", func() bool { return r.broker.distinct() == 200 && r.length() == 0 })
		r.broker.set(func() { r.broker.far = no })
		r.add(3)
		eventually(t, "what is refused is dead", func() bool { return len(r.broker.letters()) == 3 && r.length() == 0 })
		r.broker.set(func() {
			if h := r.broker.hellos[len(r.broker.hellos)-1]; h.ProtocolVersion != 4 || h.Connect.Clean {
				t.Errorf("it said hello with %+v", h)
			}
		})
	}
}

// A real broker that is killed and started again under load: the receiver has every entry,
// and the stream ends empty.
func TestABrokerThatIsKilledLosesNothing(t *testing.T) {
	g := alone(t)
	s := testenv.Start(t, testenv.PrivateMosquitto)
	for _, qos := range []string{"1", "2"} {
		t.Run("QoS "+qos, func(t *testing.T) {
			topic := "killed-" + qos
			far := listenTo(t, s.URL, topic)
			r := g.prepare(t, env{"MQTT_BROKERS": s.URL, "MQTT_QOS": qos, "MQTT_PUBLISH_TOPIC": topic, "MQTT_SUBSCRIBE_TOPIC": topic + "/acks", "PIPELINE_BATCH_SIZE": "20",
				"REDIS_CLAIM_MIN_IDLE": "2s", "REDIS_CLAIM_INTERVAL": "200ms", "CIRCUIT_BREAKER_TIMEOUT": "300ms", "PIPELINE_RETRY_MAX_ATTEMPTS": "0"})
			dead := listenTo(t, s.URL, r.env["PIPELINE_DLQ_TOPIC"])
			r.run()
			const many = 2000
			acked, ids := 0, map[string]bool{}
			answer := func() {
				all := far.all()
				var acks []string
				for _, p := range all[acked:] {
					ids[p.ID()] = true
					acks = append(acks, yes(p.ID()))
				}
				if acked = len(all); len(acks) > 0 {
					far.publish(topic+"/acks", acks...)
				}
			}
			for kill := range 2 {
				r.do("EVAL", `for n = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'payload', n) end`, "1", r.stream, fmt.Sprint(many/2))
				eventually(t, "some have come", func() bool { answer(); return len(ids) > kill*many/2+100 })
				s.Kill()
				never(t, 300*time.Millisecond, "", func() bool { return false })
				s.Restart()
			}
			eventually(t, "the receiver has all, and the stream is empty", func() bool { answer(); return len(ids) == many && r.length() == 0 })
			if n := len(dead.all()); n != 0 {
				t.Errorf("%d letters", n)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
