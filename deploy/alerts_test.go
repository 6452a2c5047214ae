package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/internal/testenv"
)

const (
	alertTests     = "prometheus/tidemill-analytics.test.yaml"
	alertDaysTests = "prometheus/tidemill-analytics.days.test.yaml"
)

// promtool runs it where it is installed; where real servers are to be used it must be.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if testenv.Enabled() {
			t.Fatal("promtool is not there: install Prometheus")
		}
		t.Skip("promtool, of Prometheus, is not installed")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	promtool(t, "test", "rules", alertTests, alertDaysTests)
}

func TestPrometheusReadsTheRules(t *testing.T) { promtool(t, "check", "rules", rulesPath) }

func TestPrometheusReadsItsConfiguration(t *testing.T) {
	promtool(t, "check", "config", "--syntax-only", "compose/prometheus/prometheus.yml")
}

func TestEveryAlertSaysWhatItMeansAndHasAPlaceInTheRunbook(t *testing.T) {
	book, err := os.ReadFile(filepath.Join("..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			names = append(names, r.Alert)
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no summary or description", r.Alert)
			}
			if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
				t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
			}
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/deploy.md#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s has the runbook %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !bytes.Contains(book, []byte("\n### "+r.Alert+"\n")) {
				t.Errorf("docs/deploy.md has no heading ### %s", r.Alert)
			}
		}
	}
	for line := range strings.Lines(string(book)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### Tidemill"); ok && !slices.Contains(names, "Tidemill"+name) {
			t.Errorf("docs/deploy.md explains Tidemill%s, which is no alert", name)
		}
	}
}

func TestEveryAlertIsTestedFiringAndSilent(t *testing.T) {
	b, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Tests []struct {
			Name    string
			Queries []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	fires, waits := map[string]bool{}, map[string]bool{}
	for _, test := range f.Tests {
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
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			if !fires[r.Alert] {
				t.Errorf("no test sees %s fire", r.Alert)
			}
			if !waits[r.Alert] {
				t.Errorf("no test sees %s silent, on the series on which it fires later", r.Alert)
			}
		}
	}
}

func TestTheChartHasTheSameAlerts(t *testing.T) {
	ours, err := os.ReadFile(rulesPath)
	if err != nil {
		t.Fatal(err)
	}
	charts, err := os.ReadFile("helm/tidemill/files/tidemill-analytics.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ours, charts) {
		t.Errorf("copy %s to the chart's files: Helm reads nothing outside of it", rulesPath)
	}
}
