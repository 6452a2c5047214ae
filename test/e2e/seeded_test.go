//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/test/process"
)

// seeded is an instance of all systems, with something of everything in it.
type seeded struct {
	*process.Instance
	t *testing.T
}

// newSeeded starts one, and waits until what is bound to die has died.
func newSeeded(t *testing.T) *seeded {
	t.Helper()
	in := newEmpty(t)
	in.Start()
	in.seed()
	return in
}

// newEmpty is one that has not begun.
func newEmpty(t *testing.T) *seeded {
	t.Helper()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(refusing.Close)
	local := []string{"127.0.0.0/8"}
	partner := func(name, url string) map[string]any {
		return map[string]any{"name": name, "endpoint": url, "allowHttp": true, "allowPrivate": local}
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "tidemill.yaml")
	settings, err := json.Marshal(map[string]any{
		"delivery": map[string]any{"sites": []any{map[string]any{"id": "shop", "keys": []string{key}}},
			"partners": []any{partner("refusing", refusing.URL), partner("away", "http://"+free(t)+"/events")}},
		"crm": map[string]any{"tenants": []any{map[string]any{"id": "club", "keys": []string{"club-key"}}}, "handlers": []any{
			map[string]any{"name": "app", "types": []string{"app.*"}, "endpoint": map[string]any{
				"url": refusing.URL, "allowHttp": true, "allowPrivate": local, "secrets": []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}}},
			map[string]any{"name": "profile", "types": []string{"member.*"}, "attributes": []any{map[string]any{"attribute": "points", "from": "payload.points", "op": "increment"}}}}},
		"windows": map[string]any{"window": "1h", "files": map[string]any{"folder": folder},
			"processors": []any{map[string]any{"filter": map[string]any{"keep": "numMentions > 1", "reason": "single"}}}},
		"bridge": map[string]any{"broker": map[string]any{"listen": free(t)}},
	})
	if err == nil {
		err = os.WriteFile(file, settings, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &seeded{process.New(t, []string{"analytics", "delivery", "crm", "windows", "bridge", "--config", file, "--project", "shop=" + key}, []string{"TIDEMILL_LOG_LEVEL=error"}), t}
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Of each kind of event there are so many.
const sown = 40

// seed sends events of all systems: some arrive, some die, some wait.
func (in *seeded) seed() {
	in.t.Helper()
	var native, records strings.Builder
	var site, tenant []string
	for n := range sown {
		fmt.Fprintf(&native, `{"event":"bought","distinct_id":"user-%d","properties":{"n":%d}}`+"\n", n%4, n)
		fmt.Fprintf(&records, `{"globalEventId":%d,"day":20250323,"eventCode":"141","actor1Name":"BERLIN","numMentions":%d}`+"\n", n, n%3)
		site = append(site, fmt.Sprintf(`{"eventType":"page_view","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"%s","context":{"page":{"url":"https://shop.example/"}}}`, eventID(n)))
		tenant = append(tenant, fmt.Sprintf(`{"id":"e-%d","type":"%s","tenantId":"club","identity":{"externalId":"m-%d"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"points":1}}`,
			n, []string{"app.ordered", "member.scored"}[n%2], n%4))
	}
	in.post("events?project=shop", operation.LinesType, native.String())
	in.post("bridge/entries", operation.LinesType, `{"text":"disk full"}`+"\n")
	in.post("delivery/events", "application/json", "["+strings.Join(site, ",")+"]")
	in.post("crm/events", "application/json", "["+strings.Join(tenant, ",")+"]")
	for _, batch := range batches {
		in.post("windows/records?kind=event&project=shop&batch="+batch, operation.LinesType, records.String())
	}
	in.post("windows/"+batches[0]+"/close", "", "")
	deadline := time.Now().Add(time.Minute)
	for in.dead(nil) < sown*3/4 { // what the handler had, and what the refusing partner had before its circuit opened
		if time.Now().After(deadline) {
			in.t.Fatalf("there are %d dead letters after a minute", in.dead(nil))
		}
		time.Sleep(50 * time.Millisecond) // between two looks at another process
	}
}

var batches = []string{"20250323151500", "20250323153000"}

func eventID(n int) string { return fmt.Sprintf("5b8f3c1e-2f7a-4c7e-9d51-%012d", n) }

// post sends a body to the API, which takes it.
func (in *seeded) post(path, kind, body string) {
	in.t.Helper()
	r, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, "http://"+in.Addr+operation.Prefix+path, strings.NewReader(body))
	if err != nil {
		in.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	in.do(r)
}

// get asks the API.
func (in *seeded) get(path string, into any) {
	in.t.Helper()
	if err := json.Unmarshal(in.shown(path), into); err != nil {
		in.t.Fatal(err)
	}
}

// shown is what the API shows at a path.
func (in *seeded) shown(path string) []byte {
	in.t.Helper()
	r, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, "http://"+in.Addr+operation.Prefix+path, nil)
	if err != nil {
		in.t.Fatal(err)
	}
	r.Header.Set("Accept", operation.LinesType) // of listings
	return in.do(r)
}

func (in *seeded) do(r *http.Request) []byte {
	in.t.Helper()
	r.Header.Set("Authorization", "Bearer "+in.Token())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		in.t.Fatalf("%s %s: %s %v %s", r.Method, r.URL, resp.Status, err, body)
	}
	return body
}

// listed are the items of a listing. The version before may end it in another way than a client of this
// one wants.
func (in *seeded) listed(path string) []byte {
	in.t.Helper()
	all := in.shown(path)
	if end := bytes.LastIndex(all, []byte(`{"whole":`)); end == 0 || end > 0 && all[end-1] == '\n' {
		return all[:end]
	}
	return all
}

// dead counts the dead letters, and calls for each.
func (in *seeded) dead(each func(*api.DeadLetter)) (n int) {
	for line := range bytes.Lines(in.listed("dead")) {
		var l api.DeadLetter
		if err := json.Unmarshal(line, &l); err != nil {
			in.t.Fatal(err)
		}
		if n++; each != nil {
			each(&l)
		}
	}
	return n
}

// client asks the API of it.
func (in *seeded) client() *operation.Client {
	return &operation.Client{HTTP: http.DefaultClient, Base: "http://" + in.Addr, Token: in.Token()}
}
