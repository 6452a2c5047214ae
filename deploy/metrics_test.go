package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/partner"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// foreign are metrics of others, with their labels: Prometheus's own, and the kubelet's.
var foreign = map[string][]string{
	"up":                                   {},
	"ALERTS":                               {"alertname", "alertstate", "severity", "pipeline"},
	"kubelet_volume_stats_available_bytes": {"namespace", "persistentvolumeclaim"},
	"kubelet_volume_stats_capacity_bytes":  {"namespace", "persistentvolumeclaim"},
}

// target are the labels that scraping adds.
var target = []string{"job", "instance", "namespace"}

// everything starts the product with all systems and these settings, and sends each an event that
// it delivers.
func everything(t *testing.T, set map[string]string) *connect.Instance {
	t.Helper()
	partners := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(partners.Close)
	flags := map[string]string{"data": filepath.Join(t.TempDir(), "data"), "analytics.flush_interval": "1ms"}
	maps.Copy(flags, set)
	c, err := systems.All().Settings().Load(config.Layers{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("a-long-random-ingest-key")}}
	deliveryconfig.Of(c).Sites = []deliveryconfig.Site{{ID: "shop", Public: true}}
	deliveryconfig.Of(c).Partners = []partner.Partner{{Name: "crm", Endpoint: partners.URL, AllowHTTP: true, AllowPrivate: []string{"127.0.0.0/8", "::1/128"}}}
	crmconfig.Of(c).Tenants = []crmconfig.Tenant{{ID: "club", Keys: []tidemill.Secret{tidemill.NewSecret("a-long-random-tenant-key")}}}
	crmconfig.Of(c).Handlers = []crmconfig.Handler{{Name: "names", Types: []string{"member.*"}, Attributes: handler.Mapping{{Attribute: "name", From: "payload.name"}}}}
	windowsconfig.Of(c).Processors = []windowsconfig.Processor{{Filter: &windowsconfig.Filter{Keep: "true"}}}
	windowsconfig.Of(c).Files.Folder = t.TempDir()
	bridgeconfig.Of(c).Broker.Listen = "127.0.0.1:0"
	in := running(t, c, analytics.Name, delivery.Name, crm.Name, windows.Name, bridge.Name)
	send := func(path, body string) {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Idempotency-Key", "1")
		switch {
		case strings.HasPrefix(path, "/v1/crm/"):
			r.Header.Set("Authorization", "Bearer a-long-random-tenant-key")
		case strings.HasPrefix(path, "/v1/windows/"):
			r.Header.Set("Authorization", "Bearer a-long-random-ingest-key")
			r.Header.Set("X-Batch-ID", "b")
		}
		in.ServeHTTP(httptest.NewRecorder(), r)
	}
	send("/batch/", `{"api_key":"a-long-random-ingest-key","batch":[
		{"event":"bought","distinct_id":"user-1","properties":{}}, {"event":"bought","distinct_id":"undefined","properties":{}}]}`)
	send("/collect", `{"eventType":"custom_event","timestamp":"`+time.Now().UTC().Format(time.RFC3339)+`","siteId":"shop"}`)
	send("/v1/crm/events", `{"id":"1","type":"member.created","tenantId":"club","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"name":"Ann"}}`)
	send("/v1/windows/events", `{"globalEventId":1}`)
	await(t, in, `tidemill_windows_door_records_total{door="events",verdict="accepted"} 1`)
	await(t, in, `tidemill_messages_settled_total{fate="delivered",pipeline="analytics"} 1`)
	await(t, in, `tidemill_messages_settled_total{fate="delivered",pipeline="crm-events"} 1`)
	await(t, in, `tidemill_partner_success_ratio{partner="crm"} 1`)
	return in
}

// shown are the labels of every metric of everything, by name.
func shown(t *testing.T) map[string][]string {
	t.Helper()
	return labelsOf(await(t, everything(t, nil), "tidemill_build_info"))
}

// running opens the systems and runs them until the test ends.
func running(t *testing.T, c *config.Loaded, names ...string) *connect.Instance {
	t.Helper()
	in, err := connect.Open(t.Context(), systems.All(), c, connect.Options{Version: "v1", Systems: names, Load: func() (*config.Loaded, error) { return c, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- in.Run(ctx, nil, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, in.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("it ended before it was ready: %v", err)
	}
	return in
}

// await returns the metrics once they have a line.
func await(t *testing.T, h http.Handler, line string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if text := w.Body.String(); strings.Contains(text, line) {
			return text
		} else if time.Now().After(end) {
			t.Fatalf("there was never %s:\n%s", line, text)
		}
	}
}

// labelsOf are the labels of the metrics in a text, by name.
func labelsOf(text string) map[string][]string {
	labels := map[string][]string{}
	for line := range strings.Lines(text) {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels[m[1]], l[1]) {
				labels[m[1]] = append(labels[m[1]], l[1])
			}
		}
		if labels[m[1]] == nil {
			labels[m[1]] = []string{}
		}
	}
	return labels
}

var (
	sample    = regexp.MustCompile(`^([a-z0-9_]+)(?:\{([^}]*)\})? `)
	labelName = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	// A name of the families in use, or of a recorded rule, and the selector behind it.
	used = regexp.MustCompile(`\b([a-z]+:[a-z_]+:[a-z]+|(?:tidemill|crm|syslog_consumer|go|process|kubelet)_[a-z0-9_]+|up|ALERTS)\b(?:\{([^}]*)\})?`)
	// What looks like a name and is not one: a grouping's labels, a text, a label's value.
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
)

// expressions are all queries of dashboards and rules, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range ruleFiles(t) {
		for _, r := range rules(t, path) {
			found["rule "+r.Alert+r.Record] = r.Expr
		}
	}
	for _, path := range matching(t, "grafana/*.json") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range d.Panels {
			if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0 || p.Config.Defaults.Unit == "") {
				t.Errorf("%s: panel %q needs a description, a target and a unit", path, p.Title)
			}
			for _, q := range p.Targets {
				found[path+": "+p.Title+" "+q.Ref] = q.Expr
			}
		}
		for _, v := range d.Templating.List {
			found[path+": variable "+v.Name] = v.Definition
		}
		for _, a := range d.Annotations.List {
			found[path+": annotation "+a.Name] = a.Expr
		}
	}
	return found
}

type dashboard struct {
	Panels []struct {
		Type, Title, Description string
		Targets                  []struct {
			Ref  string `json:"refId"`
			Expr string `json:"expr"`
		}
		Config struct {
			Defaults struct{ Unit string }
		} `json:"fieldConfig"`
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

func TestDashboardsAndAlertsUseMetricsAndLabelsThatThereAre(t *testing.T) {
	there, recorded := shown(t), recorded(t)
	promised := documented(t)
	for where, expr := range expressions(t) {
		var families []string
		for _, m := range used.FindAllStringSubmatch(withoutValues(expr), -1) {
			name := m[1]
			families = append(families, name)
			labels, ok := foreign[name]
			if !ok {
				labels, ok = there[name]
			}
			if !ok {
				labels, ok = recorded[name]
			}
			if !ok {
				t.Errorf("%s uses %s, which is not there", where, name)
				continue
			}
			if _, ok := there[name]; ok && !foreignFamily.MatchString(name) && !slices.Contains(promised, name) && !slices.Contains(promised, family(name)) {
				t.Errorf("%s uses %s, which is not in docs/metrics.md", where, name)
			}
			for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels, l[1]) && !slices.Contains(target, l[1]) {
					t.Errorf("%s selects %s by the label %s, which it does not have", where, name, l[1])
				}
			}
		}
		if expr != "" && len(families) == 0 && !strings.Contains(where, "variable datasource") {
			t.Errorf("%s asks for no metric: %s", where, expr)
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for _, label := range strings.Split(g[1], ",") {
				label = strings.TrimSpace(label)
				known := func(name string) bool {
					return slices.Contains(there[name], label) || slices.Contains(recorded[name], label) || slices.Contains(foreign[name], label)
				}
				if !slices.Contains(target, label) && !slices.ContainsFunc(families, known) {
					t.Errorf("%s groups by the label %s, which none of %v has", where, label, families)
				}
			}
		}
	}
}

// Nothing runs unseen: each system has a dashboard and alerts of its own.
func TestEverySystemHasADashboardAndAlerts(t *testing.T) {
	for _, name := range systems.All().Names() {
		var found int
		for where := range expressions(t) {
			if strings.HasPrefix(where, "grafana/tidemill-"+name+".json: ") {
				found++
			}
		}
		if found == 0 {
			t.Errorf("grafana/tidemill-%s.json shows nothing of the system %[1]s", name)
		}
		if len(alerts(t, "prometheus/tidemill-"+name+".rules.yaml")) == 0 {
			t.Errorf("the system %s has no alerts", name)
		}
	}
}

// withoutValues empties texts, so that their content does not look like names.
func withoutValues(expr string) string { return quoted.ReplaceAllString(expr, `""`) }

// family is the name of the histogram that a series belongs to.
func family(name string) string {
	for _, suffix := range [...]string{"_bucket", "_sum", "_count"} {
		if f, ok := strings.CutSuffix(name, suffix); ok {
			return f
		}
	}
	return name
}
