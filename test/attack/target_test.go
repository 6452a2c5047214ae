//go:build servers

// Package attack attacks the real binary as a stranger can, on real servers: with the key that
// is in every web page, or with none. Each test attacks as the hostile project, or without a
// key, and shows that an honest project is served: its events arrive, probes answer. Attacks
// are bounded by counts, never by time.
//
//	go test -tags servers ./test/attack -run TestDates -v
package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
)

// TestMain switches the servers on: the build tag asked for them.
func TestMain(m *testing.M) {
	if err := os.Setenv(testenv.Variable, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// tenant is a project with its ingest key.
type tenant struct {
	name, key string
}

// Every target has these two. The attacker knows both keys; the events of honest have to arrive
// in any case.
var (
	hostile = tenant{"hostile", "hostile-key-0123456789"}
	honest  = tenant{"honest", "honest-key-0123456789"}
)

// patience is how long a target may take for anything: the machine is shared.
const patience = time.Minute

// target is the process that is attacked.
type target struct {
	*process.Instance
	t    testing.TB
	http *http.Client
}

// start runs systems of the binary ("analytics", "windows") with both projects and this
// environment, and waits until it is ready. Arguments that begin with a dash are passed on too.
func start(t testing.TB, args []string, env map[string]string) *target {
	t.Helper()
	for _, p := range []tenant{hostile, honest} {
		args = append(args, "--project", p.name+"="+p.key)
	}
	set := []string{"TIDEMILL_LOG_LEVEL=warn"}
	for k, v := range env {
		set = append(set, k+"="+v)
	}
	a := &target{process.New(t, args, set), t, &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: patience}).DialContext}}}
	t.Cleanup(a.http.CloseIdleConnections)
	a.Start()
	return a
}

// post sends a JSON body with a project's key and returns the answer. Header lines are
// "Name: value".
func (a *target) post(p tenant, path string, body any, header ...string) (status int, said []byte) {
	a.t.Helper()
	b, ok := body.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(body); err != nil {
			a.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, "http://"+a.Addr+path, bytes.NewReader(b))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("X-Api-Key", p.key)
	return a.do(r, header...)
}

// get asks for a path: a probe, the API, metrics. Header lines are those of post.
func (a *target) get(path string, header ...string) (status int, said []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+a.Addr+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.do(r, header...)
}

func (a *target) do(r *http.Request, header ...string) (status int, said []byte) {
	a.t.Helper()
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		r.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := a.http.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, b
}

// capture is a PostHog batch of n events of a project, named name.
func capture(p tenant, name string, n int) map[string]any {
	batch := make([]any, n)
	for i := range batch {
		batch[i] = map[string]any{"event": name, "uuid": uuid.NewString(), "properties": map[string]any{"distinct_id": fmt.Sprintf("%s-%d", name, i)}}
	}
	return map[string]any{"api_key": p.key, "batch": batch}
}

// serves fails the test if the honest project is not served: n events that it sends now, named
// name, are accepted, and all arrive.
func (a *target) serves(name string, n int) {
	a.t.Helper()
	if status, said := a.post(honest, "/batch/", capture(honest, name, n)); status != http.StatusOK {
		a.t.Fatalf("honest events are answered %d: %.300s", status, said)
	}
	a.until("honest events arrive", func() bool { return a.stored(honest, name) == n })
}

// stored is how many events of a project and name are in the warehouse.
func (a *target) stored(p tenant, name string) int {
	a.t.Helper()
	return bytes.Count(a.Ask("events", "--project", p.name, "--name", name, "-n", "0", "--json"), []byte("\n"))
}

// books are the audit's books of a system.
type books struct {
	Accepted, Delivered, Skipped, Dead, Lost int
	InFlight                                 int `json:"in_flight"`
	Balanced                                 bool
}

func (a *target) books(system string) (b books) {
	a.t.Helper()
	if err := json.Unmarshal(a.Ask("audit", system, "--json"), &b); err != nil {
		a.t.Fatal(err)
	}
	return b
}

// metric sums up the series of a metric whose labels contain label.
func (a *target) metric(name, label string) (sum float64) {
	a.t.Helper()
	_, said := a.get("/metrics")
	for line := range strings.Lines(string(said)) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(series, label) &&
			(series == name || strings.HasPrefix(series, name+"{")) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				a.t.Fatalf("%v: %s", err, line)
			}
			sum += n
		}
	}
	return sum
}

// until waits for a condition in the other process.
func (a *target) until(what string, met func() bool) {
	a.t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
