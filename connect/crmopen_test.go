package connect

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

func TestTheFirstMinutesOfCRM(t *testing.T) {
	in := open(t, settings(t), Options{Systems: []string{"crm"}})
	w := &crmWorld{Instance: in, t: t}
	stop := running(t, in, nil)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, err := in.FirstProject(t.Context())
	if err != nil || first == nil || first.Name != "default" {
		t.Fatalf("the first tenant is %v, %v", first, err)
	}
	key := first.Key.Reveal()
	if code, body := w.ask("POST", "/v1/crm/events", key, anEvent("default", "e1", "member.created", `{}`)); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, body)
	}
	until(t, "the event is not skipped", func() bool {
		_, body := w.ask("GET", "/v1/crm/events/e1", key, "")
		return strings.Contains(body, `"status":"skipped"`)
	})
	if _, numbers := w.ask("GET", "/metrics", "", ""); !strings.Contains(numbers, `tidemill_crm_skipped_total{reason="no_handler"} 1`) {
		t.Error("it is not counted")
	}
	if !strings.Contains(strings.Join(in.Uses, "\n"), "handlers: none: all events are skipped") {
		t.Errorf("nobody says that there is no handler: %q", in.Uses)
	}
}

func TestWhatIsConfiguredRuns(t *testing.T) {
	var reference bytes.Buffer
	if err := systems.All().Settings().WriteReference(&reference); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, file, env, want string }{
		{"nothing", "", "", "analytics"},
		{"what init writes", reference.String(), "", "analytics"},
		{"what init writes, with a tenant", strings.Replace(reference.String(), "  #tenants:\n  #  - id: club-7", "  tenants:\n    - id: club-7\n  #", 1), "", "crm"},
		{"what all have", "data: d\npostgres: {url: postgres://x/y}", "", "analytics"},
		{"a tenant", "crm:\n  tenants:\n    - {id: club}\n", "", "crm"},
		{"a site", "delivery:\n  sites:\n    - {id: shop, public: true}\n", "", "delivery"},
		{"a site and a server", "redis: {url: redis://x:1}\ndelivery:\n  sites:\n    - {id: shop, public: true}\n", "", "delivery"},
		{"a site and a project", "projects: [{name: shop, key: k-0123456789}]\ndelivery:\n  sites:\n    - {id: shop, public: true}\n", "", "analytics delivery"},
		{"a site and a setting of analytics", "analytics: {lanes: 3}\ndelivery:\n  sites:\n    - {id: shop, public: true}\n", "", "analytics delivery"},
		{"a ClickHouse beside a tenant", "clickhouse: {url: http://x:1}\ncrm:\n  tenants:\n    - {id: club}\n", "", "analytics crm"},
		{"windows, and the Kafka of them", "kafka: {brokers: x:1}\nwindows: {window: 2m}\n", "", "windows"},
		{"systems, whatever is configured", "systems: [crm, windows]\ndelivery:\n  sites:\n    - {id: shop, public: true}\n", "", "crm windows"},
		{"systems of the environment, whatever the file says", "systems: crm\n", "TIDEMILL_SYSTEMS=delivery,analytics", "delivery analytics"},
		{"systems that are left empty", "systems: []\ncrm:\n  tenants:\n    - {id: club}\n", "", "crm"},
		{"a bridge between servers", "", "REDIS_ADDRESSES=x:1", "bridge"},
		{"a bridge and windows", "windows: {window: 2m}\n", "MQTT_BROKERS=tcp://x:1", "bridge windows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tidemill.yaml")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			name, value, _ := strings.Cut(c.env, "=")
			l, err := systems.All().Settings().Load(config.Layers{File: file, Getenv: func(k string) string {
				if k == name {
					return value
				}
				return ""
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(systems.All().Configured(l), " "); got != c.want {
				t.Errorf("%s run, want %s", got, c.want)
			}
		})
	}
}

func TestCRMTakesNoMoreOfATenantThanItMaySend(t *testing.T) {
	w := newCRM(t, map[string]string{"TIDEMILL_CRM_RATE_LIMIT": "2"})
	for i, want := range []int{http.StatusAccepted, http.StatusAccepted, http.StatusTooManyRequests} {
		if code, body := w.ask("POST", "/v1/crm/events", "club-key", anEvent("club", fmt.Sprint("e", i), "member.created", `{}`)); code != want {
			t.Errorf("event %d of a minute: %d %s, want %d", i+1, code, body, want)
		}
	}
}

func TestCRMTakesEventsFromBullMQ(t *testing.T) {
	testenv.Need(t)
	address, prefix := testenv.Redis(t), testenv.Name("bull")
	w := newCRM(t, map[string]string{"TIDEMILL_CRM_BULLMQ_URL": address, "TIDEMILL_CRM_BULLMQ_PREFIX": prefix})
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret(address), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	base := prefix + ":crm-events:"
	do := func(args ...string) string {
		t.Helper()
		s, err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).ToAny()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s)
	}
	defer client.Do(context.Background(), client.B().Del().Key(base+"j1", base+"j2", base+"wait", base+"marker", base+"events", base+"completed", base+"failed", base+"stalled-check", base+"meta").Build())
	for id, data := range map[string]string{"j1": anEvent("club", "b1", "member.created", `{"address":{"city":"Bonn"}}`), "j2": `{"no":"event"}`} {
		do("HSET", base+id, "name", "event", "data", data, "opts", `{"attempts":3}`, "timestamp", fmt.Sprint(time.Now().UnixMilli()), "delay", "0", "priority", "0")
		do("LPUSH", base+"wait", id)
	}
	do("ZADD", base+"marker", "0", "0")
	w.becomes("b1", "completed")
	if got := w.ann(); got["city"] != `"Bonn"` {
		t.Errorf("the profile has %v", got)
	}
	until(t, "the job of BullMQ is not completed", func() bool { return do("ZCARD", base+"completed") == "1" })
	until(t, "what is no event is no dead letter", func() bool {
		_, body := w.ask("GET", "/api/v1/dead?pipeline=crm-bullmq", "", "")
		return strings.Contains(body, "validation")
	})
}

func TestTwoStoresOfQueuesLookLikeOne(t *testing.T) {
	address, err := url.Parse(testenv.Redis(t)) // delivery there, CRM embedded
	if err != nil {
		t.Fatal(err)
	}
	host, port := address.Hostname(), address.Port()
	c, err := systems.All().Settings().Load(config.Layers{Flags: map[string]string{"data": filepath.Join(t.TempDir(), "data"), "listen": "127.0.0.1:0"},
		Getenv: func(name string) string { return map[string]string{"REDIS_HOST": host, "REDIS_PORT": port}[name] }})
	if err != nil {
		t.Fatal(err)
	}
	in := open(t, c, Options{Systems: []string{"delivery", "crm"}})
	w := &crmWorld{Instance: in, t: t}
	stop := running(t, in, nil)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	until(t, "the queues of both are not shown", func() bool {
		_, body := w.ask("GET", "/api/v1/queues", "", "")
		return strings.Contains(body, `"crm-events"`) && strings.Contains(body, `"ingest.high"`)
	})
	if code, body := w.ask("POST", "/api/v1/queues/crm-events/pause", "", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	first, err := in.FirstProject(t.Context())
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	id := uuid.NewString()
	if code, body := w.ask("POST", "/v1/crm/events", first.Key.Reveal(), anEvent("default", id, "member.created", `{}`)); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, body)
	}
	if _, body := w.ask("GET", "/api/v1/queues/crm-events/jobs", "", ""); !strings.Contains(body, id) {
		t.Errorf("jobs: %s", body)
	}
	if _, body := w.ask("GET", "/metrics", "", ""); !strings.Contains(body, `tidemill_queue_paused{queue="crm-events"} 1`) || !strings.Contains(body, `tidemill_queue_paused{queue="ingest.high"} 0`) {
		t.Error("metrics do not show the queues of both")
	}
}

func TestServersOfCRMThatAreNotThereAreNamed(t *testing.T) {
	for key, url := range map[string]string{"crm.redis_url": "redis://user:canary@127.0.0.1:1/0", "crm.postgres_url": "postgres://user:canary@127.0.0.1:1/x", "crm.bullmq.url": "redis://user:canary@127.0.0.1:1/0"} {
		_, err := Open(t.Context(), systems.All(), settings(t, key, url), Options{Systems: []string{"crm"}})
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want an error with the address and without the password", key, err)
		}
	}
}

func TestCRMLeavesNothingBehind(t *testing.T) {
	w := newCRM(t, nil)
	w.send("club", "first", "order.paid", `{}`, "accepted") // which opens a connection
	w.becomes("first", "completed")
	w.end()
	once := func(n int) {
		w.start()
		id := fmt.Sprint("e", n)
		w.send("club", id, "order.paid", `{}`, "accepted")
		w.becomes(id, "completed")
		w.end()
	}
	once(0)
	w.app.CloseClientConnections()
	before := runtime.NumGoroutine()
	for n := range 4 {
		once(n + 1)
	}
	w.app.CloseClientConnections()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
		}
	}
}

func TestAQueueThatIsSharedWithoutItsSyncLog(t *testing.T) {
	in := open(t, settings(t, "crm.redis_url", testenv.Start(t, testenv.PrivateRedis).URL), Options{Systems: []string{"crm"}})
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	if body := get(in, "/api/v1/doctor").Body.String(); !strings.Contains(body, "run one instance, or set postgres.url") || !strings.Contains(body, "redis: appendonly") {
		t.Errorf("the doctor says %s", body)
	}
}

func TestAllSystemsInOneProcess(t *testing.T) {
	in := open(t, settings(t), Options{Systems: []string{"analytics", "delivery", "crm"}})
	w := &crmWorld{Instance: in, t: t}
	stop := running(t, in, nil)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, err := in.FirstProject(t.Context())
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	if code, body := w.ask("POST", "/v1/crm/events", first.Key.Reveal(), anEvent("default", "e1", "member.created", `{}`)); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, body)
	}
	audit := func() string { _, body := w.ask("GET", "/api/v1/audit", "", ""); return body }
	until(t, "CRM's books are not among all: "+audit(), func() bool {
		return strings.Contains(audit(), `"balanced":true`) && strings.Contains(audit(), `"system":"crm","balanced":true,"queue":"crm-events","accepted":1`)
	})
	if _, err := in.Metrics.Gather(); err != nil {
		t.Errorf("metrics: %v", err)
	}
}
