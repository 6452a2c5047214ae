package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
)

// matching are the files of a pattern, which must match some.
func matching(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.FromSlash(pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

// ruleFiles are all files of rules. Each has tests beside it, of the same name.
func ruleFiles(t *testing.T) []string { return matching(t, "prometheus/*.rules.yaml") }

// testFiles are the tests of a file of rules: those of minutes and, if present, of days.
func testFiles(t *testing.T, rules string) []string {
	return matching(t, strings.TrimSuffix(rules, ".rules.yaml")+"*.test.yaml")
}

// promtool runs promtool if it is installed; with real servers it has to be.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if testenv.Enabled(t) {
		testenv.Install(t, "prometheus")
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, of Prometheus, is not installed")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	promtool(t, append([]string{"test", "rules"}, matching(t, "prometheus/*.test.yaml")...)...)
}

func TestPrometheusReadsTheRules(t *testing.T) {
	promtool(t, append([]string{"check", "rules"}, ruleFiles(t)...)...)
}

func TestPrometheusReadsItsConfiguration(t *testing.T) {
	promtool(t, "check", "config", "--syntax-only", "compose/prometheus/prometheus.yml")
}

// runbooks are the documents that explain alerts, by the prefix of these.
var runbooks = map[string]string{"Tidemill": "deploy.md", "Crm": "operations.md"}

func TestEveryAlertSaysWhatItMeansAndHasAPlaceInTheRunbook(t *testing.T) {
	for prefix, book := range runbooks {
		text, err := os.ReadFile(filepath.Join("..", "docs", book))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, path := range ruleFiles(t) {
			for _, r := range alerts(t, path) {
				if !strings.HasPrefix(r.Alert, prefix) {
					continue
				}
				if slices.Contains(names, r.Alert) {
					t.Errorf("%s is there twice", r.Alert)
				}
				names = append(names, r.Alert)
				if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
					t.Errorf("%s has no summary or description", r.Alert)
				}
				if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
					t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
				}
				if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/"+book+"#"+strings.ToLower(r.Alert)) {
					t.Errorf("%s has the runbook %q", r.Alert, r.Annotations["runbook_url"])
				}
				if !bytes.Contains(text, []byte("\n### "+r.Alert+"\n")) {
					t.Errorf("docs/%s has no heading ### %s", book, r.Alert)
				}
			}
		}
		if len(names) == 0 {
			t.Errorf("no alert is called %s…", prefix)
		}
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok && strings.HasPrefix(name, prefix) && !slices.Contains(names, name) {
				t.Errorf("docs/%s explains %s, which is no alert", book, name)
			}
		}
	}
}

func TestEveryAlertIsCalledAsARunbookKnowsIt(t *testing.T) {
	for _, path := range ruleFiles(t) {
		for _, r := range alerts(t, path) {
			known := false
			for prefix := range runbooks {
				known = known || strings.HasPrefix(r.Alert, prefix)
			}
			if !known {
				t.Errorf("%s: no runbook explains %s", path, r.Alert)
			}
		}
	}
}

// alertTests are the tests in a file of promtool's.
type alertTests struct {
	Tests []struct {
		Name    string
		Series  []struct{ Series string } `yaml:"input_series"`
		Queries []struct {
			Samples []struct{ Labels string } `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	}
}

func TestEveryAlertIsTestedFiringAndSilent(t *testing.T) {
	for _, rules := range ruleFiles(t) {
		fires, waits := map[string]bool{}, map[string]bool{}
		for _, path := range testFiles(t, rules) {
			for _, test := range read[alertTests](t, path).Tests {
				silent := false
				var firing []string
				for _, q := range test.Queries {
					silent = silent || len(q.Samples) == 0
					for _, s := range q.Samples {
						_, rest, _ := strings.Cut(s.Labels, `alertname="`)
						name, _, _ := strings.Cut(rest, `"`)
						firing = append(firing, name)
					}
				}
				for _, name := range firing {
					fires[name] = true
					waits[name] = waits[name] || silent
				}
			}
		}
		for _, r := range alerts(t, rules) {
			if !fires[r.Alert] {
				t.Errorf("no test sees %s fire", r.Alert)
			}
			if !waits[r.Alert] {
				t.Errorf("no test sees %s silent, on the series on which it fires later", r.Alert)
			}
		}
	}
}

func TestAlertsAreTestedOnSeriesThatThereAre(t *testing.T) {
	there := shown(t)
	for _, path := range matching(t, "prometheus/*.test.yaml") {
		for _, test := range read[alertTests](t, path).Tests {
			for _, s := range test.Series {
				name, rest, _ := strings.Cut(s.Series, "{")
				var labels []string
				for _, l := range labelName.FindAllStringSubmatch(rest, -1) {
					if !slices.Contains(target, l[1]) {
						labels = append(labels, l[1])
					}
				}
				want, ok := there[name]
				if other, is := foreign[name]; is {
					want, ok = slices.DeleteFunc(slices.Clone(other), func(l string) bool { return slices.Contains(target, l) }), true
				}
				slices.Sort(labels)
				want = slices.Sorted(slices.Values(want))
				if !ok || !slices.Equal(labels, want) {
					t.Errorf("%s, %q: the series %s has the labels %q, the product's has %q", path, test.Name, s.Series, labels, want)
				}
			}
		}
	}
}

func TestTheChartAndComposeHaveTheSameAlerts(t *testing.T) {
	compose, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range ruleFiles(t) {
		ours, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		charts, err := os.ReadFile(filepath.Join("helm", "tidemill", "files", filepath.Base(path)))
		if err != nil || !bytes.Equal(ours, charts) {
			t.Errorf("copy %s to the chart's files: Helm reads nothing outside of it (%v)", path, err)
		}
		if !bytes.Contains(compose, []byte("../"+filepath.ToSlash(path)+":/etc/prometheus/rules/")) {
			t.Errorf("compose.yaml does not give %s to Prometheus", path)
		}
	}
	if n := len(matching(t, "helm/tidemill/files/*.rules.yaml")); n != len(ruleFiles(t)) {
		t.Errorf("the chart has %d files of rules, here are %d", n, len(ruleFiles(t)))
	}
}
