package deploy_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
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

// scraped starts the product, sends it events, and returns the labels of every metric
// that it then shows, by name.
func scraped(t *testing.T) map[string][]string {
	t.Helper()
	c, err := config.Load(config.Layers{Flags: map[string]string{"data": filepath.Join(t.TempDir(), "data"), "analytics.flush_interval": "1ms"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("a-long-random-ingest-key")}}
	in, err := connect.Open(t.Context(), c, connect.Options{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- in.Run(ctx, nil, func() { close(ready) }) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-ready
	r := httptest.NewRequest("POST", "/batch/", strings.NewReader(`{"api_key":"a-long-random-ingest-key","batch":[
		{"event":"bought","distinct_id":"user-1","properties":{}}, {"event":"bought","distinct_id":"undefined","properties":{}}]}`))
	in.Handler.ServeHTTP(httptest.NewRecorder(), r)
	var text string
	for end := time.Now().Add(20 * time.Second); !strings.Contains(text, `tidemill_messages_settled_total{fate="delivered",pipeline="analytics"} 1`); {
		if time.Now().After(end) {
			t.Fatalf("the event was never delivered:\n%s", text)
		}
		w := httptest.NewRecorder()
		in.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text = w.Body.String()
	}
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
	sample    = regexp.MustCompile(`^([a-z_]+)(?:\{([^}]*)\})? `)
	labelName = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	// A name of the families that are used here, and the selector behind it.
	used = regexp.MustCompile(`\b((?:tidemill|go|process|kubelet)_[a-z0-9_]+|up|ALERTS)\b(?:\{([^}]*)\})?`)
	// What a name could be taken for and is not: a grouping's labels, a text, a label's value.
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
)

// golden are the product's own metrics as connect promises them.
func golden(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "connect", "testdata", "metrics.golden"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, name)
	}
	return names
}

// expressions are all that dashboards and rules ask Prometheus, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			found["alert "+r.Alert] = r.Expr
		}
	}
	dashboards, err := filepath.Glob(filepath.Join("grafana", "*.json"))
	if err != nil || len(dashboards) == 0 {
		t.Fatal("no dashboards", err)
	}
	for _, path := range dashboards {
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

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func rules(t *testing.T) ruleFile {
	t.Helper()
	b, err := os.ReadFile(rulesPath)
	if err != nil {
		t.Fatal(err)
	}
	var f ruleFile
	if err := yaml.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

const rulesPath = "prometheus/tidemill-analytics.rules.yaml"

func TestDashboardsAndAlertsUseMetricsAndLabelsThatThereAre(t *testing.T) {
	promised, shown := golden(t), scraped(t)
	for where, expr := range expressions(t) {
		var families []string
		for _, m := range used.FindAllStringSubmatch(withoutValues(expr), -1) {
			name := m[1]
			families = append(families, name)
			labels, ok := foreign[name]
			if !ok {
				labels, ok = shown[name]
			}
			if !ok {
				t.Errorf("%s uses %s, which is not there", where, name)
				continue
			}
			if own := strings.HasPrefix(name, "tidemill_"); own && !slices.Contains(promised, name) && !slices.Contains(promised, family(name)) {
				t.Errorf("%s uses %s, which is not in metrics.golden", where, name)
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
					return slices.Contains(shown[name], label) || slices.Contains(foreign[name], label)
				}
				if !slices.Contains(target, label) && !slices.ContainsFunc(families, known) {
					t.Errorf("%s groups by the label %s, which none of %v has", where, label, families)
				}
			}
		}
	}
}

// withoutValues empties texts, so that what stands in them is not taken for a name.
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
