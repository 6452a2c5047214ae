package connect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// noneListed is a listing without anything.
const noneListed = "{\"whole\":{\"items\":0}}\n"

// aPartner is one that answers on loopback and remembers what it got.
type aPartner struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	bodies map[string]string // by idempotency key
	said   http.Header       // of the last request
}

func newPartner(t *testing.T) *aPartner {
	t.Helper()
	p := &aPartner{status: http.StatusOK, bodies: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = r.Header.Clone()
		if err == nil && p.status == http.StatusOK {
			p.bodies[r.Header.Get("Idempotency-Key")] = string(b)
		}
		w.WriteHeader(p.status)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *aPartner) answers(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *aPartner) got(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bodies[id]
}

// header is one of the last request.
func (p *aPartner) header(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Get(name)
}

// trace is what the last request said of its trace.
func (p *aPartner) trace() (parent, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Get("Traceparent"), p.said.Get("Tracestate")
}

// delivering runs delivery with a partner, on what vars name.
func delivering(t *testing.T, p *aPartner, vars map[string]string) *Instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	text := fmt.Sprintf(`
data: %s
delivery:
  sites:
    - {id: shop, keys_env: [SHOP_KEY], public: true}
    - {id: other, keys: [other-key]}
  queues:
    - {when: 'event.eventType == "add_to_cart"', queue: high}
  partners:
    - {name: p, endpoint: %q, allowHttp: true, allowPrivate: [127.0.0.0/8], maxRetries: 0, auth: {type: bearer, credentials: PARTNER_TOKEN}}
    - {name: carts, endpoint: "https://carts.example/", when: 'event.eventType == "add_to_basket"'}
`, filepath.Join(t.TempDir(), "data"), p.URL+"/events")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"SHOP_KEY": "shop-key", "PARTNER_TOKEN": "canary"}
	for k, v := range vars {
		all[k] = v
	}
	c, err := systems.All().Settings().Load(config.Layers{File: file, Getenv: func(name string) string { return all[name] }})
	if err != nil {
		t.Fatal(err)
	}
	in := open(t, c, Options{Version: "v1", Systems: []string{"delivery"}})
	stop := running(t, in, nil)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// send posts an event and returns the status and the answer.
func send(in *Instance, path, key, id, body string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	r.Header.Set("X-Idempotency-Key", id)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// until waits for what other goroutines do.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) { // between two looks at what runs
		if time.Now().After(end) {
			t.Fatalf("after 20 s: %s", what)
		}
	}
}

const viewed = `{"eventType":"page_view","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"%s","context":{"page":{"url":"https://shop.example/"}}}`

func TestDelivery(t *testing.T) {
	for name, vars := range map[string]func(*testing.T) map[string]string{
		"embedded": func(*testing.T) map[string]string { return nil },
		"on Redis": func(t *testing.T) map[string]string {
			return map[string]string{"TIDEMILL_REDIS_URL": "redis://" + testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always").Addr}
		},
	} {
		t.Run(name, func(t *testing.T) { deliver(t, vars(t)) })
	}
}

func deliver(t *testing.T, vars map[string]string) {
	p := newPartner(t)
	in := delivering(t, p, vars)
	const first, second = "0190f3c2-0000-7000-8000-000000000001", "0190f3c2-0000-7000-8000-000000000002"
	body := fmt.Sprintf(viewed, first)
	code, answer := send(in, "/v1/events", "shop-key", "k1", body)
	if code != http.StatusAccepted || answer != `{"eventId":"`+first+`","status":"accepted"}` {
		t.Fatalf("%d %s", code, answer)
	}
	until(t, "the partner has the event", func() bool { return p.got(first) == body })
	if code, again := send(in, "/v1/events", "shop-key", "k1", body); code != http.StatusAccepted || again != answer {
		t.Errorf("once more: %d %s", code, again)
	}
	if code, answer := send(in, "/v1/events", "shop-key", "k2", body); code != http.StatusAccepted || !strings.Contains(answer, "duplicate") {
		t.Errorf("under another key: %d %s", code, answer)
	}
	if code, answer := send(in, "/v1/events", "other-key", "k3", body); code != http.StatusForbidden {
		t.Errorf("with another site's key: %d %s", code, answer)
	}
	if code, _ := send(in, "/collect", "", "k4", strings.Replace(fmt.Sprintf(viewed, second), "page_view", "add_to_cart", 1)); code != http.StatusAccepted {
		t.Errorf("from a browser: %d", code)
	}
	until(t, "the partner has the browser's event", func() bool { return p.got(second) != "" })
	if a := get(in, "/api/v1/queues/ingest.high").Body.String(); !strings.Contains(a, `"completed":1`) {
		t.Errorf("the rule of the configuration chose no queue: %s", a)
	}

	p.answers(http.StatusServiceUnavailable)
	const third = "0190f3c2-0000-7000-8000-000000000003"
	if code, answer := send(in, "/s2s/convert", "shop-key", "k5", fmt.Sprintf(viewed, third)); code != http.StatusAccepted || !strings.Contains(answer, `"partners":[{"name":"p",`) || strings.Contains(answer, "carts") {
		t.Errorf("a conversion names others than the partners that get it: %d %s", code, answer)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/s2s/convert", strings.NewReader(fmt.Sprintf(viewed, "0190f3c2-0000-7000-8000-000000000004")))
	for name, value := range map[string]string{"Content-Type": "application/json", "X-API-Key": "shop-key", "X-Idempotency-Key": "k6", "Sec-GPC": "1"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if in.ServeHTTP(w, r); w.Code != http.StatusAccepted || !strings.Contains(w.Body.String(), `"partners":[]`) {
		t.Errorf("a conversion that no partner may have: %d %s", w.Code, w.Body)
	}
	dead := func() string { return get(in, "/api/v1/dead").Body.String() }
	until(t, "a dead letter", func() bool { return strings.Contains(dead(), third) })
	if l := dead(); !strings.Contains(l, "503") || strings.Contains(l, "canary") {
		t.Errorf("letter %s", l)
	}
	r = httptest.NewRequest("GET", "/v1/events/"+third, nil)
	r.Header.Set("X-API-Key", "shop-key")
	w = httptest.NewRecorder()
	in.ServeHTTP(w, r)
	if a := w.Body.String(); !strings.Contains(a, `"status":"dead"`) || strings.Contains(a, "503") {
		t.Errorf("status for the site: %s", a)
	}
	edit := httptest.NewRequest("PUT", "http://localhost/api/v1/dead/"+third+"%2Fp/payload", strings.NewReader(`{"eventType":`))
	edit.Header.Set("If-Match", "*")
	in.byOperator(edit)
	w = httptest.NewRecorder()
	if in.ServeHTTP(w, edit); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "a replay could not read the new payload") {
		t.Errorf("an edit that no replay can read: %d %s", w.Code, w.Body)
	}
	p.answers(http.StatusOK)
	replay := httptest.NewRequest("POST", "http://localhost/api/v1/dead/replay?all=true", nil)
	in.byOperator(replay)
	in.ServeHTTP(httptest.NewRecorder(), replay)
	until(t, "the replay arrived", func() bool { return p.got(third) != "" && dead() == noneListed })

	var health struct{ Status, Version string }
	probe := get(in, "/healthz")
	if err := json.Unmarshal(probe.Body.Bytes(), &health); err != nil || health.Status != "healthy" || health.Version != "v1" {
		t.Errorf("health %+v, %v", health, err)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "strict-origin-when-cross-origin"} {
		if got := probe.Header().Get(name); got != want {
			t.Errorf("/healthz answers with %s: %q, want %q", name, got, want)
		}
	}
	audit := func() string { return get(in, "/api/v1/audit").Body.String() }
	until(t, "the books balance with nothing in flight: "+audit(), func() bool {
		return strings.Contains(audit(), `"balanced":true`) && !strings.Contains(audit(), `"in_flight":1`)
	})
	if text := get(in, "/metrics").Body.String(); !strings.Contains(text, `tidemill_partner_circuit_open{partner="p"} 0`) || strings.Contains(text, "canary") {
		t.Errorf("metrics:\n%s", text)
	}
	leave := httptest.NewRequest("POST", "http://localhost/api/v1/partners/p/open", nil)
	in.byOperator(leave)
	in.ServeHTTP(httptest.NewRecorder(), leave)
	w = httptest.NewRecorder()
	in.ServeHTTP(w, httptest.NewRequest("GET", "http://tidemill.example/healthz", nil)) // from elsewhere
	if text := w.Body.String(); !strings.Contains(text, `"degraded"`) || strings.Contains(text, "partner p") {
		t.Errorf("a stranger is told %s", text)
	}
	if text := get(in, "/healthz").Body.String(); !strings.Contains(text, `"partner p":"open"`) {
		t.Errorf("an operator is told %s", text)
	}
}
