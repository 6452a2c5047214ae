package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmmetrics"
	"github.com/tidemill/tidemill/systems/crm/crmtest"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// crmRun is a running CRM system, with a page of metrics for Prometheus.
type crmRun struct {
	*testing.T
	sys   *crm.System
	page  *httptest.Server
	stuck chan bool // closed: stuck handlers go on
	sent  int
}

// newCRMRun starts one. An event's type says what its handler does.
func newCRMRun(t *testing.T) *crmRun {
	t.Helper()
	r := &crmRun{T: t, stuck: make(chan bool)}
	numbers := crmmetrics.New()
	r.sys = crmtest.New(t, crmtest.Parts(t, handler.Spec{Name: "as the type says", Types: []string{"be.*"}, Handler: handler.Func(r.handle), Timeout: time.Minute}),
		crm.Options{Create: true, Workers: 20, PerSecond: -1, PerTenant: -1, Finished: numbers.Finished})
	numbers.Watch(r.sys)
	registry := prometheus.NewRegistry()
	registry.MustRegister(numbers)
	r.page = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(r.page.Close)
	stop := crmtest.Run(t, r.sys)
	t.Cleanup(func() {
		close(r.stuck)
		stop()
	})
	return r
}

func (r *crmRun) handle(ctx context.Context, c *handler.Call) error {
	switch c.Event.Type {
	case "be.refused":
		return tidemill.Fail(tidemill.Business, "as the type says")
	case "be.slow":
		select {
		case <-time.After(10500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "be.stuck":
		<-r.stuck
	}
	return nil
}

// send sends so many events of a type.
func (r *crmRun) send(typ string, n int) {
	r.Helper()
	raws := make([][]byte, n)
	for i := range raws {
		r.sent++
		raws[i] = fmt.Appendf(nil, `{"id":"%d","type":%q,"tenantId":"club","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z"}`, r.sent, typ)
	}
	if _, err := r.sys.Acceptor().Accept(r.Context(), raws, nil); err != nil {
		r.Fatal(err)
	}
}

// A minute of the rules is a second here, and a little more.
var seconds = strings.NewReplacer("[5m]", "[6s]", "offset 5m", "offset 6s", "for: 5m", "for: 2s", "for: 10m", "for: 2s")

// startPrometheus starts one that scrapes the pages, each as a job, every second, and returns
// its address.
func startPrometheus(t *testing.T, rules string, jobs map[string]string) string {
	t.Helper()
	testenv.Install(t, "prometheus")
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n"
	for job, page := range jobs {
		conf += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, strings.TrimPrefix(page, "http://"))
	}
	for name, content := range map[string]string{"prometheus.yml": conf, "rules.yaml": seconds.Replace(string(text))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return "http://" + address
}

// firing are the alerts that fire now, as "name job".
func firing(t *testing.T, address string) []string {
	t.Helper()
	r, err := http.Get(address + "/api/v1/alerts")
	if err != nil {
		return nil // it does not listen yet
	}
	defer r.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if r.StatusCode == http.StatusOK {
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"]+" "+a.Labels["job"])
		}
	}
	return names
}

// TestTheAlertsOfCRMFireInPrometheus lets a real Prometheus scrape a healthy system and a
// failing one: every alert has to fire for the failing one and none for the other.
func TestTheAlertsOfCRMFireInPrometheus(t *testing.T) {
	testenv.Need(t)
	well, ill := newCRMRun(t), newCRMRun(t)
	address := startPrometheus(t, "prometheus/tidemill-crm.rules.yaml", map[string]string{"well": well.page.URL, "ill": ill.page.URL})
	var seen []string
	fired := func(alert string) bool { return slices.Contains(seen, alert+" ill") }
	look := func() {
		for _, name := range firing(t, address) {
			if strings.HasSuffix(name, " well") {
				t.Fatalf("%s: it is", name)
			}
			if !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
	}
	end := time.After(55 * time.Second)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	until := func(what func(), alerts ...string) {
		t.Helper()
		for slices.ContainsFunc(alerts, func(a string) bool { return !fired(a) }) {
			what()
			look()
			select {
			case <-end:
				t.Fatalf("fired are %q, want %q", seen, alerts)
			case <-tick.C:
			}
		}
	}
	ill.send("be.slow", 12) // of about 360 in six seconds
	until(func() {
		well.send("be.well", 50)
		ill.send("be.well", 10)
		ill.send("be.refused", 2)
	}, "CrmEventProcessingFailures", "CrmDlqGrowing", "CrmEventLatencySpike")
	for range 40 { // some thousands of them are in hand, not in the queue
		ill.send("be.stuck", 500)
	}
	until(func() { well.send("be.well", 50) }, "CrmEventQueueDepthHigh", "CrmEventQueueStalled")
	if len(seen) != 5 {
		t.Errorf("fired are %q, want the five", seen)
	}
}
