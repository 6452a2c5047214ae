//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/access/provider/providertest"
	"github.com/tidemill/tidemill/test/process"
)

// refusing is a partner that refuses a currency that there is not, and keeps what it takes.
type refusing struct {
	mu   sync.Mutex
	took []string
}

func (p *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || bytes.Contains(body, []byte(`"XXX"`)) {
		http.Error(w, `{"error":{"message":"XXX is no currency of ISO 4217"}}`, http.StatusUnprocessableEntity)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, string(body))
}

// has says whether the partner took an event.
func (p *refusing) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.took, "\n"), id)
}

// filled is an instance with something for every page of the console: of each system, and five
// dead letters of a partner that refuses.
type filled struct {
	*instance
	partner *refusing
	at      string               // where the partner is
	corp    *providertest.Issuer // where one can log in
}

// purchase is the id of an event that was sent; the partner refuses each eighth.
func purchase(n int) string { return fmt.Sprintf("5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a%02d", n) }

// newFilled starts one, and waits until what is bound to die has died.
func newFilled(t *testing.T) *filled {
	t.Helper()
	p := &refusing{}
	partner := httptest.NewServer(p)
	t.Cleanup(partner.Close)
	corp := providertest.New(t)
	corp.Set(func() { // of another site than the console, and away when the instance starts
		corp.URL, corp.Down = strings.Replace(corp.URL, "127.0.0.1", "localhost", 1), true
	})
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `console:
  name: Shop events
  environment: staging
  oidc:
    - {name: corp, issuer: "%s", client_id: %s, client_secret: %s, roles: {support: operator}}
delivery:
  sites:
    - {id: shop, keys: [a-key-of-this-test], public: true}
  partners:
    - {name: demo, endpoint: %s/events, allowHttp: true, allowPrivate: [127.0.0.0/8], maxRetries: 1}
`, corp.URL, providertest.Client, providertest.Secret, partner.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	in := process.New(t, []string{"delivery", "analytics", "crm", "windows", "bridge", "--config", file, "--project", "shop=" + key}, []string{"TIDEMILL_LOG_LEVEL=warn", "TIDEMILL_BRIDGE_BROKER_LISTEN=" + free(t), "TIDEMILL_WINDOWS_WINDOW=2s", "TIDEMILL_WINDOWS_SWEEP=200ms"})
	in.Start()
	corp.Set(func() { corp.Down = false })
	for n := range 40 {
		currency := "EUR"
		if n%8 == 0 {
			currency = "XXX"
		}
		body := fmt.Sprintf(`{"eventType":"purchase","timestamp":%q,"siteId":"shop","eventId":%q,"orderId":"o-%d","value":39.90,"currency":%q,"items":[{"id":"lamp","name":"Lamp","quantity":1,"price":39.90}]}`,
			time.Now().UTC().Format(time.RFC3339), purchase(n), n, currency)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.Addr+"/v1/events", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-API-Key", "a-key-of-this-test")
		r.Header.Set("X-Idempotency-Key", purchase(n))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode/100 != 2 {
			t.Fatalf("event %d is answered %s", n, resp.Status)
		}
	}
	console := &instance{in, t}
	console.post("events?project=shop", `{"event":"viewed","distinct_id":"ann","properties":{"plan":"free"}}`+"\n"+`{"event":"","distinct_id":"ann"}`)
	console.post("crm/events", fmt.Sprintf(`{"id":"first","type":"member.created","tenantId":"shop","identity":{"email":"ann@example.com"},"occurredAt":%q}`, time.Now().UTC().Format(time.RFC3339)))
	for n := range 3 {
		console.post(fmt.Sprintf("windows/records?batch=2026030112%02d00&kind=event", 15*n), fmt.Sprintf(`{"globalEventId": %d, "day": 20260301, "eventCode": "141", "actor1Name": "BERLIN"}`, 1000+n))
		console.post("bridge/entries", fmt.Sprintf(`{"text":"disk %d is full"}`, n))
	}
	filled := &filled{console, p, partner.URL, corp}
	filled.wait("five dead letters", func() bool { return bytes.Count(in.Ask("dead", "list", "--json"), []byte("\n")) == 5 })
	return filled
}

// mended runs a script that mends events, each of which arrives then, and not before.
func (in *filled) mended(what, script string, args []string, purchases ...int) {
	in.t.Helper()
	for _, n := range purchases {
		if in.partner.has(purchase(n)) {
			in.t.Fatal("the partner took what it refuses")
		}
	}
	if err := reporting(in.t.Context(), what, "node", append([]string{script}, args...)...); err != nil {
		in.t.Fatal(err)
	}
	for _, n := range purchases {
		in.wait("the mended event arrives", func() bool { return in.partner.has(purchase(n)) })
	}
}

func (in *filled) wait(what string, is func() bool) {
	in.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) { // between two polls of another process
		if time.Now().After(deadline) {
			in.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestTheConsoleInABrowser looks at every page of a running instance in Chromium, and goes the way of
// an operator: from the id of an event that failed to the same event at the partner.
// SCREENSHOTS is a folder for the screenshots of docs/console.md.
func TestTheConsoleInABrowser(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	in := newFilled(t)
	in.mended("console", "console.mjs", []string{browser, "http://" + in.Addr, in.Token(), purchase(8) + "/demo", purchase(16), os.Getenv("SCREENSHOTS"), in.corp.URL, in.at}, 8, 16)
}

// TestTheConsoleInFirefox looks at every page in Firefox too, and goes the same way by keys alone.
func TestTheConsoleInFirefox(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("firefox-esr")
	if err != nil {
		t.Skip("no page was looked at in Firefox: sh scripts/need.sh firefox installs it where firefox-esr is a package")
	}
	in := newFilled(t)
	in.mended("console in Firefox", "firefox.mjs", []string{browser, "http://" + in.Addr, in.Token(), purchase(8)}, 8)
}

// post sends a body to a path of the API.
func (in *instance) post(path, body string) {
	in.t.Helper()
	r, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, "http://"+in.Addr+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		in.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+in.Token())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		in.t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	if resp.Body.Close(); resp.StatusCode/100 != 2 {
		in.t.Fatalf("%s is answered %s: %s", path, resp.Status, answer)
	}
}
