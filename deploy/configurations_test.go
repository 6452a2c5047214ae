package deploy_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

const key = "a-long-random-key-of-a-sender"

// first is the first event of a system, and the line of the metrics that says that it is through.
type first struct{ path, body, through string }

var firsts = map[string]first{
	"analytics": {"/v1/batch", `{"events":[{"event":"bought","distinct_id":"user-1"}]}`, settled("analytics")},
	"delivery":  {"/v1/events", `{"eventType":"custom_event","siteId":"shop","timestamp":"` + time.Now().UTC().Format(time.RFC3339) + `"}`, `tidemill_partner_success_ratio{partner="partner"} 1`},
	"crm":       {"/v1/crm/events", `{"id":"1","type":"member.created","tenantId":"club-7","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"firstName":"Ann"}}`, settled("crm-events")},
	"windows":   {"/v1/windows/events", `{"globalEventId":1}`, settled("windows-delivery")},
	"bridge":    {"/api/v1/bridge/entries", `{"message":"hello"}`, "syslog_consumer_messages_published_total 1"},
}

func settled(pipeline string) string {
	return fmt.Sprintf(`tidemill_messages_settled_total{fate="delivered",pipeline=%q} 1`, pipeline)
}

// TestEveryConfigurationTakesAnEventThrough starts each system as each way of deployment starts it,
// on the servers of its profile, its values or its environment, and sends it one event.
func TestEveryConfigurationTakesAnEventThrough(t *testing.T) {
	o := newOurs(t)
	kafka := map[string]string{"TIDEMILL_KAFKA_BROKERS": "kafka:9092", "TIDEMILL_STRICT": "false"}
	of := func(system string) map[string]string {
		return map[string]string{"TIDEMILL_CONFIG_FILE": "../config/" + system + ".yaml"}
	}
	embedded := []string{"--set", "mode=embedded"}
	for _, c := range []struct {
		system, name string
		servers      bool // are needed
		deployed     func(*testing.T) deployed
	}{
		{"analytics", "systemd, one file", false, func(t *testing.T) deployed { return serviced(t, "analytics") }},
		{"delivery", "systemd, one file", false, func(t *testing.T) deployed { return serviced(t, "delivery", "SHOP_KEY", "PARTNER_TOKEN") }},
		{"crm", "systemd, one file", false, func(t *testing.T) deployed { return serviced(t, "crm", "CLUB_KEY") }},
		{"windows", "systemd, one file", false, func(t *testing.T) deployed { return serviced(t, "windows") }},
		{"bridge", "systemd, one file", false, func(t *testing.T) deployed { return serviced(t, "bridge") }},
		{"analytics", "systemd, Redis, PostgreSQL, ClickHouse", true, func(t *testing.T) deployed {
			return serviced(t, "analytics", "TIDEMILL_REDIS_URL", "TIDEMILL_POSTGRES_URL", "TIDEMILL_CLICKHOUSE_URL", "TIDEMILL_CLICKHOUSE_DB")
		}},
		{"delivery", "systemd, Redis", true, func(t *testing.T) deployed {
			return serviced(t, "delivery", "SHOP_KEY", "PARTNER_TOKEN", "TIDEMILL_REDIS_URL")
		}},
		{"crm", "systemd, Redis, PostgreSQL", true, func(t *testing.T) deployed {
			return serviced(t, "crm", "CLUB_KEY", "TIDEMILL_REDIS_URL", "TIDEMILL_POSTGRES_URL")
		}},
		{"windows", "systemd, Redis, Kafka, OpenSearch", true, func(t *testing.T) deployed {
			return serviced(t, "windows", "TIDEMILL_REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS", "OPENSEARCH_URL")
		}},
		{"bridge", "systemd, Redis, Mosquitto", true, func(t *testing.T) deployed {
			return serviced(t, "bridge", "REDIS_ADDRESSES", "REDIS_PASSWORD", "REDIS_STREAM", "MQTT_BROKERS", "MQTT_USERNAME", "MQTT_PASSWORD")
		}},
		{"analytics", "compose embedded", true, func(t *testing.T) deployed { return composed(t, "embedded", nil) }},
		{"delivery", "compose embedded", true, func(t *testing.T) deployed { return composed(t, "embedded", of("delivery")) }},
		{"crm", "compose embedded", true, func(t *testing.T) deployed { return composed(t, "embedded", of("crm")) }},
		{"windows", "compose embedded", true, func(t *testing.T) deployed { return composed(t, "embedded", of("windows")) }},
		{"analytics", "compose", true, func(t *testing.T) deployed { return composed(t, "analytics", nil) }},
		{"analytics", "compose with Kafka", true, func(t *testing.T) deployed { return composed(t, "analytics", kafka) }},
		{"delivery", "compose", true, func(t *testing.T) deployed { return composed(t, "delivery", nil) }},
		{"crm", "compose", true, func(t *testing.T) deployed { return composed(t, "crm", nil) }},
		{"windows", "compose", true, func(t *testing.T) deployed { return composed(t, "windows", nil) }},
		{"bridge", "compose", true, func(t *testing.T) deployed { return composed(t, "bridge", nil) }},
		{"analytics", "helm embedded", true, func(t *testing.T) deployed { return charted(t, "analytics", embedded...) }},
		{"delivery", "helm embedded", true, func(t *testing.T) deployed { return charted(t, "delivery", embedded...) }},
		{"crm", "helm embedded", true, func(t *testing.T) deployed { return charted(t, "crm", embedded...) }},
		{"windows", "helm embedded", true, func(t *testing.T) deployed {
			return charted(t, "windows", append(embedded, "--set", "settings.KAFKA_BOOTSTRAP_SERVERS=", "--set", "secrets.env=null")...)
		}},
		{"analytics", "helm", true, func(t *testing.T) deployed { return charted(t, "analytics") }},
		{"analytics", "helm with Kafka", true, func(t *testing.T) deployed {
			return charted(t, "analytics", "--set", "servers.kafka.brokers=kafka:9092")
		}},
		{"delivery", "helm", true, func(t *testing.T) deployed { return charted(t, "delivery") }},
		{"delivery", "helm, Redis alone", true, func(t *testing.T) deployed {
			return charted(t, "delivery", "--set", "servers.postgres.enabled=false")
		}},
		{"crm", "helm", true, func(t *testing.T) deployed { return charted(t, "crm") }},
		{"windows", "helm", true, func(t *testing.T) deployed { return charted(t, "windows") }},
		{"windows", "helm without Kafka", true, func(t *testing.T) deployed {
			return charted(t, "windows", "--set", "settings.KAFKA_BOOTSTRAP_SERVERS=")
		}},
		{"bridge", "helm", true, func(t *testing.T) deployed { return charted(t, "bridge") }},
	} {
		t.Run(c.system+" by "+c.name, func(t *testing.T) {
			if c.servers {
				testenv.Need(t)
			}
			d := c.deployed(t)
			o.name(t, d.env)
			o.through(t, c.system, d)
		})
	}
}

// through starts what is deployed, sends the system's first event, and waits until it is through.
func (o *ours) through(t *testing.T, system string, d deployed) {
	t.Helper()
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(partner.Close)
	folder := t.TempDir()
	c, err := systems.All().Settings().Load(config.Layers{File: d.file, Getenv: func(name string) string { return d.env[name] }, Flags: map[string]string{"data": folder + "/data", "listen": "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := systems.All().Configured(c); !slices.Equal(got, []string{system}) {
		t.Fatalf("it runs %q, want %s", got, system)
	}
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret(key)}}
	if all := deliveryconfig.Of(c).Partners; len(all) > 0 {
		all[0].Endpoint, all[0].AllowHTTP, all[0].AllowPrivate = partner.URL, true, []string{"127.0.0.0/8"}
	}
	in := running(t, c)
	f := firsts[system]
	if stream := d.env["REDIS_STREAM"]; stream != "" && d.env["REDIS_ADDRESSES"] != "" {
		o.do(t, "XADD", stream, "*", "data", f.body)
	} else {
		send(t, in, f)
	}
	await(t, in, f.through)
	holdToReference(t, in.Metrics)
}

// send sends a system its first event over HTTP.
func send(t *testing.T, to http.Handler, f first) {
	t.Helper()
	r := httptest.NewRequest("POST", f.path, strings.NewReader(f.body))
	r.RemoteAddr = "127.0.0.1:1"
	for name, value := range map[string]string{"Content-Type": "application/json", "X-API-Key": key, "X-Idempotency-Key": "1", "X-Batch-ID": "20260115100000"} {
		r.Header.Set(name, value)
	}
	if strings.HasPrefix(f.path, "/api/") {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	if to.ServeHTTP(w, r); w.Code/100 != 2 {
		t.Fatalf("POST %s: %d %s", f.path, w.Code, w.Body)
	}
}

// ours are the servers of these tests.
type ours struct {
	redis  *testenv.Server
	client redisconn.Client
}

// newOurs starts a Redis with a password; nil without real servers.
func newOurs(t *testing.T) *ours {
	if !testenv.Enabled(t) {
		return nil
	}
	o := &ours{redis: testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendonly yes --appendfsync everysec --maxmemory-policy noeviction")}
	var err error
	if o.client, err = redisconn.Open(t.Context(), tidemill.NewSecret(o.redis.URL), redisconn.Options{Name: "deploy"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.client.Close)
	o.do(t, "CONFIG", "SET", "requirepass", password)
	return o
}

func (o *ours) do(t *testing.T, command ...string) {
	t.Helper()
	if err := o.client.Do(t.Context(), o.client.B().Arbitrary(command...).Build()).Error(); err != nil {
		t.Fatal(command, err)
	}
}

// name puts these servers in the place of those that an environment names, empty.
func (o *ours) name(t *testing.T, env map[string]string) {
	t.Helper()
	maps.Copy(env, map[string]string{
		"TIDEMILL_WINDOWS_WINDOW": "300ms", "TIDEMILL_WINDOWS_SWEEP": "50ms", "TIDEMILL_BRIDGE_BROKER_LISTEN": "127.0.0.1:0",
		"HEALTH_PORT": testenv.FreePort(t), "METRICS_PORT": testenv.FreePort(t),
	})
	named := func(name string) bool { return env[name] != "" }
	if named("TIDEMILL_REDIS_URL") || named("REDIS_ADDRESSES") {
		o.do(t, "FLUSHALL")
	}
	if named("TIDEMILL_REDIS_URL") {
		env["TIDEMILL_REDIS_URL"] = "redis://:" + password + "@" + o.redis.Addr
	}
	if named("REDIS_ADDRESSES") {
		env["REDIS_ADDRESSES"], env["REDIS_PASSWORD"] = o.redis.Addr, password
		env["MQTT_BROKERS"], env["MQTT_CUSTOM_PREFIX"] = testenv.MQTT(t), testenv.Name("deploy")
	}
	if named("TIDEMILL_POSTGRES_URL") {
		env["TIDEMILL_POSTGRES_URL"] = testenv.Postgres(t)
	}
	if named("TIDEMILL_CLICKHOUSE_URL") { // it has one user, and no collection of ours
		env["TIDEMILL_CLICKHOUSE_URL"], env["TIDEMILL_CLICKHOUSE_DB"] = testenv.ClickHouse(t)
		env["CLICKHOUSE_USER"], env["CLICKHOUSE_PASSWORD"], env["TIDEMILL_CLICKHOUSE_COLLECTION"] = "", "", ""
	}
	for _, kafka := range []string{"TIDEMILL_KAFKA_BROKERS", "KAFKA_BOOTSTRAP_SERVERS"} {
		if !named(kafka) {
			continue
		}
		env[kafka] = strings.Join(testenv.Kafka(t), ",")
		env["TIDEMILL_STRICT"] = "false" // it has one broker
		for _, topic := range []string{"TIDEMILL_ANALYTICS_TOPIC", "TIDEMILL_ANALYTICS_GROUP", "SERVICE_NAME", "KAFKA_TOPIC_ADAPTER_EVENT", "KAFKA_TOPIC_ADAPTER_MENTION", "KAFKA_TOPIC_PROCESSOR_EVENT", "KAFKA_TOPIC_PROCESSOR_MENTION"} {
			env[topic] = testenv.Name("deploy")
		}
	}
	if named("OPENSEARCH_URL") {
		env["OPENSEARCH_URL"] = testenv.OpenSearch(t)
		t.Cleanup(func() { remove(t, env["OPENSEARCH_URL"]+"/gdelt-events-*,gdelt-mentions-*") })
	}
}

// remove asks a server to delete something.
func remove(t *testing.T, address string) {
	r, err := http.NewRequest(http.MethodDelete, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode/100 != 2 {
		t.Errorf("DELETE %s: %s", address, answer.Status)
	}
}
