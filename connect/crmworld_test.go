package connect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
)

// anApp is an endpoint on loopback that remembers what it got.
type anApp struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	asked  map[string]int    // by webhook-id
	took   map[string]string // bodies that it answered 200, likewise
	parent string            // traceparent of the last request
}

func newApp(t *testing.T) *anApp {
	t.Helper()
	a := &anApp{status: http.StatusOK, asked: map[string]int{}, took: map[string]string{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.parent = r.Header.Get("Traceparent")
		id := r.Header.Get("Webhook-Id")
		signed := strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") && r.Header.Get("Authorization") == "Bearer canary"
		if a.asked[id]++; err == nil && signed && a.status == http.StatusOK {
			a.took[id] = string(b)
		}
		w.WriteHeader(a.status)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *anApp) answers(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

// of says how often the app was asked with an id, and what it took.
func (a *anApp) of(id string) (asked int, took string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[id], a.took[id]
}

// traced is what the last request said of its trace.
func (a *anApp) traced() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parent
}

const crmConfig = `
data: %s
crm:
  backoff: 10ms
  tenants:
    - {id: club, keys_env: [CLUB_KEY]}
    - {id: Club, keys: [other-key]}
  handlers:
    - name: profiles
      types: [member.*]
      attributes:
        - {attribute: city, from: payload.address.city}
        - {attribute: points, from: payload.points, op: increment}
    - name: app
      types: [order.paid]
      endpoint:
        url: %q
        secrets_env: [SIGNING]
        headers_env: {Authorization: BEARER}
        allowHttp: true
        allowPrivate: [127.0.0.0/8]
`

// crmWorld is CRM as a configuration makes it, and who talks to it.
type crmWorld struct {
	*Instance
	t      *testing.T
	app    *anApp
	config *config.Loaded
	end    func()
	log    journal
}

// journal is a log in memory.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(line)
}

// of are the lines about an event.
func (j *journal) of(t *testing.T, id string) (all []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.b.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if l["eventId"] == id {
			all = append(all, l)
		}
	}
	return all
}

// has looks for fields of a line of the log; nil: any value.
func has(t *testing.T, line map[string]any, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if got, there := line[name]; !there || value != nil && got != value {
			t.Errorf("the log has %s %v, want %v, in %v", name, got, value, line)
		}
	}
}

// newCRM loads a configuration with what vars say more, and runs it.
func newCRM(t *testing.T, vars map[string]string) *crmWorld {
	t.Helper()
	w := &crmWorld{t: t, app: newApp(t)}
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, crmConfig, filepath.Join(t.TempDir(), "data"), w.app.URL+"/events"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"CLUB_KEY": "club-key", "BEARER": "Bearer canary", "SIGNING": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	for k, v := range vars {
		all[k] = v
	}
	var err error
	if w.config, err = systems.All().Settings().Load(config.Layers{File: file, Getenv: func(name string) string { return all[name] }}); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *crmWorld) start() {
	w.t.Helper()
	in := open(w.t, w.config, Options{Version: "v1", Systems: []string{"crm"}, Log: slog.New(slog.NewJSONHandler(&w.log, nil))})
	stop := running(w.t, in, nil)
	w.Instance = in
	w.end = sync.OnceFunc(func() {
		if err := stop(); err != nil {
			w.t.Error(err)
		}
		if err := in.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

func anEvent(tenant, id, typ, payload string) string {
	return fmt.Sprintf(`{"id":%q,"type":%q,"tenantId":%q,"identity":{"externalId":"m-1","email":"Ann@Example.com"},"occurredAt":"2026-01-15T10:00:00Z","payload":%s}`, id, typ, tenant, payload)
}

// ask makes a request of the ingest API or the API.
func (w *crmWorld) ask(method, path, key, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if strings.HasPrefix(path, "/api/") {
		w.byOperator(r)
		r.Header.Set("Accept", operation.LinesType) // of listings
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a := httptest.NewRecorder()
	w.Instance.ServeHTTP(a, r)
	return a.Code, a.Body.String()
}

// told is where an event is, as its tenant sees it.
func (w *crmWorld) told(id string) (status string, attempts int) {
	_, body := w.ask("GET", "/v1/crm/events/"+id, "club-key", "")
	var e struct {
		Status   string
		Attempts int
	}
	_ = json.Unmarshal([]byte(body), &e) // else it is not there yet
	return e.Status, e.Attempts
}

func (w *crmWorld) send(tenant, id, typ, payload, want string) {
	w.t.Helper()
	code, body := w.ask("POST", "/v1/crm/events", "club-key", anEvent(tenant, id, typ, payload))
	if code != http.StatusAccepted || body != fmt.Sprintf(`{"id":%q,"status":%q}`, id, want) {
		w.t.Fatalf("event %s is answered %d %s; want %s", id, code, body, want)
	}
}

// becomes waits for an event's status.
func (w *crmWorld) becomes(id, want string) {
	w.t.Helper()
	until(w.t, fmt.Sprintf("event %s is not %s", id, want), func() bool { s, _ := w.told(id); return s == want })
}

// ann reads the profile of the one whom all events are about.
func (w *crmWorld) ann() map[string]string {
	w.t.Helper()
	var from profile.Directory
	if url := crmconfig.Of(w.config).Postgres(); url != "" {
		db, err := postgresdb.Open(w.t.Context(), tidemill.NewSecret(string(url)), postgresdb.Options{Conns: 2})
		if err != nil {
			w.t.Fatal(err)
		}
		defer db.Close()
		table, err := postgrestable.New(w.t.Context(), db, tableprofile.Spec())
		if err != nil {
			w.t.Fatal(err)
		}
		if from, err = tableprofile.New(table, profile.Options{}); err != nil {
			w.t.Fatal(err)
		}
	} else {
		table, err := sqlitetable.New(w.t.Context(), w.Opened().DB, tableprofile.Spec())
		if err != nil {
			w.t.Fatal(err)
		}
		if from, err = tableprofile.New(table, profile.Options{}); err != nil {
			w.t.Fatal(err)
		}
	}
	p, err := from.Find(w.t.Context(), "club", profile.Identity{Kind: profile.Email, Value: "ann@example.com"})
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{}
	for name, value := range p.Attributes {
		all[name] = string(value)
	}
	return all
}
