//go:build servers

package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/test/process"
)

// afterCRMLease is how long after a kill everything may take: by default leases are at least
// twice the longest handler timeout, 24s, and an event that seems to kill is delayed for as
// long again.
const afterCRMLease = 100 * time.Second

// crmWorld is tenants that send, an endpoint that handles, and instances between them, on their
// own Redis and PostgreSQL or on the file of the one instance.
type crmWorld struct {
	*world
	file     string
	app      *crmApp
	endpoint string
	settings map[string]any // of crm
	http     *http.Client

	mu   sync.Mutex // guards sent
	sent []*crmEvent
}

// crmEvent is an event as a tenant sends it.
type crmEvent struct {
	tenant, id, typ, body string
	ends                  string // kind of the failure that it must end with; empty: it may be handled
	accepted              time.Time
}

func (e *crmEvent) key() string { return e.tenant + "/" + e.id }

var crmTenants = []string{"big", "small"}

// crmRounds runs a test in worlds of its own.
func crmRounds(t *testing.T, servers bool, do func(w *crmWorld)) {
	t.Helper()
	eachRound(t, func(t *testing.T, rnd *rand.Rand) { do(newCRMWorld(t, servers, rnd)) })
}

func newCRMWorld(t *testing.T, servers bool, rnd *rand.Rand) *crmWorld {
	t.Helper()
	w := &crmWorld{world: &world{T: t, rnd: rnd, began: time.Now(), hits: map[string]int{}, env: map[string]string{"TIDEMILL_LOG_LEVEL": "warn"}},
		file: filepath.Join(t.TempDir(), "tidemill.yaml"), http: endpointClient(16),
		settings: map[string]any{"lease": "3s", "backoff": "200ms", "per_second": 0, "tenant_per_second": 0}}
	w.app = w.newApp()
	w.endpoint = w.app.URL
	if !servers {
		return w
	}
	w.redis = testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always --maxmemory-policy noeviction")
	w.postgres = testenv.Start(t, testenv.PrivatePostgres)
	w.env["TIDEMILL_REDIS_URL"], w.env["TIDEMILL_POSTGRES_URL"] = "redis://"+w.redis.Addr+"/0", postgresURL(w.postgres.Addr, "postgres")
	return w
}

// run writes the configuration, makes instances, and starts them.
func (w *crmWorld) run(n int) []*process.Instance {
	w.Helper()
	group := maps.Clone(w.settings)
	var tenants []map[string]any
	for _, id := range crmTenants {
		tenants = append(tenants, map[string]any{"id": id, "keys": []string{keyOf(id)}})
	}
	group["tenants"] = tenants
	group["handlers"] = []map[string]any{
		{"name": "app", "types": []string{"app.*"}, "timeout": "2s", "endpoint": map[string]any{"url": w.endpoint + "/events", "allowHttp": true,
			"allowPrivate": []string{"127.0.0.0/8"}, "secrets": []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}}},
		{"name": "profile", "types": []string{"member.*"}, "attributes": []map[string]any{{"attribute": "points", "from": "payload.points", "op": "increment"}}},
	}
	w.setUp(w.file, "crm", group)
	for range n {
		w.make([]string{"crm", "--config", w.file}).Start()
	}
	return w.instances
}

// draw draws the n-th event of a tenant.
func (w *crmWorld) draw(tenant string, n int) *crmEvent {
	e := &crmEvent{tenant: tenant, id: fmt.Sprint("e-", n), typ: "app.ordered"}
	mark := `"mark":"plain"`
	switch {
	case n%53 == 7:
		e.ends, mark = "validation", crmInvalid
	case n%59 == 8:
		e.ends, mark = "business", crmRefused
	case n%61 == 9:
		e.ends, mark = "not_found", crmUnknown
	case n%67 == 10:
		mark = crmBroken
	case n%10 == 3:
		e.typ = "member.scored"
	case n%71 == 11:
		e.typ, e.ends = "nobody.knows", "skipped"
	}
	e.body = fmt.Sprintf(`{ "id":%q,"type":%q,"tenantId":%q,"identity":{"externalId":"m-%d"},"occurredAt":"2026-01-15T10:00:00.000Z","payload":{"points":1,%s,"big":12345678901234567890}}`,
		e.id, e.typ, tenant, n%97, mark)
	return e
}

// send sends events until they are accepted.
func (w *crmWorld) send(events ...*crmEvent) {
	var bodies []string
	for _, e := range events {
		bodies = append(bodies, e.body)
	}
	for try := 0; w.Context().Err() == nil; try++ {
		in := w.instances[try%len(w.instances)]
		r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+in.Addr+"/v1/crm/events", strings.NewReader("["+strings.Join(bodies, ",")+"]"))
		if err != nil {
			w.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := exchange(w.http, r, events[0].tenant)
		if err == nil && a.status == http.StatusAccepted {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range events {
				e.accepted = time.Now()
			}
			w.sent = append(w.sent, events...)
			return
		}
		if err == nil && a.status != http.StatusServiceUnavailable {
			w.Errorf("a request was answered %d: %.300s", a.status, a.body)
			return
		}
		w.pass(50 * time.Millisecond)
	}
}

// load sends events of a tenant, so many a second (0: as fast as they are accepted).
func (w *crmWorld) load(tenant string, from, n, rate int) (ended <-chan struct{}) {
	over := make(chan struct{})
	batches := make(chan []*crmEvent)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for b := range batches {
				w.send(b...)
			}
		})
	}
	began := time.Now()
	go func() {
		defer close(over)
		for k := 0; k < n && w.Context().Err() == nil; k += 25 {
			var b []*crmEvent
			for i := k; i < min(k+25, n); i++ {
				b = append(b, w.draw(tenant, from+i))
			}
			if rate > 0 {
				w.pass(time.Until(began.Add(time.Duration(k) * time.Second / time.Duration(rate))))
			}
			batches <- b
		}
		close(batches)
		clients.Wait()
	}()
	w.Cleanup(func() { <-over })
	return over
}

// api asks the API of a running instance.
func (w *crmWorld) api(method, path, body string) (int, []byte) {
	w.Helper()
	status, b, err := w.callAPI(method, path, body)
	if err != nil {
		w.Fatal(err)
	}
	return status, b
}

// crmRecord is an entry of the sync log, as the API shows it.
type crmRecord struct {
	Tenant, ID, State, Kind, Error string
	Attempts                       int
	Created                        time.Time `json:"created_at"`
}

// lines reads a listing.
func lines[T any](w *crmWorld, path string) []T {
	w.Helper()
	status, b := w.api(http.MethodGet, path, "")
	if status != http.StatusOK {
		w.Fatalf("%s: %d %.300s", path, status, b)
	}
	return itemsOf[T](w, path, b)
}

// crmLetter is a dead letter, as the API shows it.
type crmLetter struct {
	ID, Pipeline, Tenant, Site, Project, State, Kind, Cause, Payload string
	Tries                                                            int
}

func (w *crmWorld) audit() (crm.Audit, error) { return auditOf[crm.Audit](w.world, "crm") }

// quiet waits until nothing is in the queue, no dead letter is being opened and no replay runs.
func (w *crmWorld) quiet(within time.Duration) crm.Audit {
	w.Helper()
	began := time.Now()
	w.ready()
	for deadline := began.Add(within); ; time.Sleep(200 * time.Millisecond) { // between two polls of other processes
		var st struct {
			Waiting, Delayed, Leased int
			Open                     int `json:"open_replays"`
		}
		_, b, err := w.callAPI(http.MethodGet, "crm/status", "")
		if err == nil {
			err = json.Unmarshal(b, &st)
		}
		replaying := 0
		if err == nil && st.Waiting+st.Delayed+st.Leased+st.Open == 0 {
			for _, l := range lines[crmLetter](w, "dead?pipeline=crm-events") {
				if l.State != "held" {
					replaying++
				}
			}
			if a, err := w.audit(); err == nil && a.InFlight == 0 && replaying == 0 {
				w.Logf("quiet after %v", time.Since(began).Round(time.Millisecond))
				return a
			}
		}
		if time.Now().After(deadline) {
			w.Fatalf("not quiet after %v: %+v, %d letters are being opened, %v", within, st, replaying, err)
		}
	}
}
