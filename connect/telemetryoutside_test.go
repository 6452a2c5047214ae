package connect

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/telemetry/telemetrytest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// The subscriber's acks come back by MQTT: each is a span of the tree of its message.
func TestAnAckIsInTheTraceOfItsMessage(t *testing.T) {
	c := telemetrytest.New(t)
	ctx, in, client := bridged(t, c, "out", "bridge.mqtt.publish_topic", "out", "bridge.mqtt.subscribe_topic", "acks")
	follow(t, in, "/api/v1/bridge/entries", `{"a":1}`, nil)
	into := make([]mqttconn.Delivery, 1)
	if _, err := client.Receive(ctx, into); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(into[0].Payload), `"redis":{"payload":{"id":"`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the subscriber got %s", into[0].Payload)
	}
	if err := client.Publish(ctx, []mqttconn.Message{{Topic: "acks", QoS: 1, Payload: []byte(`{"id":"` + id + `","ack":true}`)}}); err != nil {
		t.Fatal(err)
	}
	got := c.UntilNamed(t, sendersTrace, "POST /api/v1/bridge/entries", "process bridge", "ack bridge")
	isTree(t, got, "POST /api/v1/bridge/entries (server) under "+sendersSpan+"\n  process bridge (consumer)\n    ack bridge (consumer)\n")
	for _, s := range c.Spans() {
		if s.Name == "ack bridge" && (s.With["tidemill.end"] != "delivered" || s.With["messaging.message.id"] != id) {
			t.Errorf("the ack of %s has %v", id, s.With)
		}
	}
}

// With queues on Redis the jobs carry the trace from one process to another.
func TestATraceGoesFromTheSenderToThePartnerThroughRedis(t *testing.T) {
	testenv.Need(t)
	c, p := telemetrytest.New(t), newPartner(t)
	in := delivering(t, p, sentTo(c, "TIDEMILL_REDIS_URL", "redis://"+testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always").Addr))
	const id = "0190f3c2-0000-7000-8000-00000000000a"
	traced(t, in, id, "01")
	got := c.UntilNamed(t, sendersTrace, "POST /v1/events", "process ingest.standard", "process s2s.p", "POST")
	isTree(t, got, "POST /v1/events (server) under "+sendersSpan+"\n  process ingest.standard (consumer)\n    process s2s.p (consumer)\n      POST (client)\n")
	if said, state := p.trace(); !strings.HasPrefix(said, "00-"+sendersTrace+"-") || !strings.HasSuffix(said, "-01") || state != "vendor=1" {
		t.Errorf("the partner was told %q, %q", said, state)
	}
	if uses := strings.Join(in.Uses, "\n"); !strings.Contains(uses, "edis") {
		t.Errorf("the queues are not on Redis: %s", uses)
	}
}

// telemetryOf is what a producer with bullmq-otel gives its jobs.
func telemetryOf(trace string) map[string]any {
	return map[string]any{"telemetry": map[string]any{"metadata": `{"traceparent":"` + trace + `","tracestate":"vendor=1"}`}}
}

func TestATraceGoesFromBullMQToThePartner(t *testing.T) {
	raw, prefix, peer := bullMQ(t, "events")
	c, p := telemetrytest.New(t), newPartner(t)
	delivering(t, p, sentTo(c, "TIDEMILL_DELIVERY_BULLMQ_URL", raw, "TIDEMILL_DELIVERY_BULLMQ_PREFIX", prefix))
	const other = "1af7651916cd43dd8448eb211c80319d"
	for i, trace := range []string{tracedKey, strings.Replace(tracedKey, sendersTrace, other, 1)} { // in one batch, perhaps
		peer.Do("queue", "add", "event", pageView("0190f3c2-0000-7000-8000-0000000000c"+string(rune('1'+i))), telemetryOf(trace))
	}
	for _, trace := range []string{sendersTrace, other} {
		got := c.UntilNamed(t, trace, "process delivery-bullmq", "process ingest.standard", "process s2s.p", "POST")
		isTree(t, got, "process delivery-bullmq (consumer) under "+sendersSpan+"\n  process ingest.standard (consumer)\n    process s2s.p (consumer)\n      POST (client)\n")
	}
	if _, state := p.trace(); state != "vendor=1" {
		t.Errorf("the partner was told the state %q", state)
	}
}

func TestATraceGoesFromBullMQToTheHandlersOfTheCRM(t *testing.T) {
	c := telemetrytest.New(t)
	_, peer := withBullMQ(t, sentTo(c))
	peer.Do("queue", "add", "event", json.RawMessage(anEvent("club", "e1", "order.paid", `{"total":12.50}`)), telemetryOf(tracedKey))
	got := c.UntilNamed(t, sendersTrace, "process crm-bullmq", "process crm-events", "POST")
	isTree(t, got, "process crm-bullmq (consumer) under "+sendersSpan+"\n  process crm-events (consumer)\n    POST (client)\n")
}

// Each CloudEvent of a batch says what it is of; one that says nothing is the request's.
func TestATraceGoesOnThatACloudEventNames(t *testing.T) {
	c := telemetrytest.New(t)
	set := settings(t, "analytics.flush_interval", "1ms", "telemetry.endpoint", c.URL)
	set.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("key-of-more-than-sixteen")}}
	in := open(t, set, Options{Systems: []string{"analytics"}})
	defer in.Close()
	stop := running(t, in, nil)
	defer stop()
	const own, deviceSpan = "2af7651916cd43dd8448eb211c80319e", "c7ad6b7169203332"
	event := func(id, more string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"/shop","type":"order.placed","subject":"u"` + more + `}`
	}
	body := "[" + event("1", `,"traceparent":"00-`+own+"-"+deviceSpan+`-01","tracestate":"vendor=1"`) + "," + event("2", "") + "," + event("3", `,"traceparent":"00-`+sendersTrace+"-"+deviceSpan+`-01"`) + "]"
	follow(t, in, "/v1/cloudevents", body, http.Header{"Content-Type": {"application/cloudevents-batch+json"}, "X-Api-Key": {"key-of-more-than-sixteen"}})
	isTree(t, c.UntilNamed(t, own, "process analytics"), "process analytics (consumer) under "+deviceSpan+"\n")
	c.Until(t, "the other two", func() bool { return strings.Count(c.Tree(sendersTrace), "\n") >= 3 })
	isTree(t, c.Tree(sendersTrace), "POST /v1/cloudevents (server) under "+sendersSpan+"\n  process analytics (consumer)\n  process analytics (consumer)\n")
}
