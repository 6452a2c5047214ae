package cli

import (
	"strings"
	"testing"
)

var analyticsEvents = strings.Join([]string{
	`{"event":"signed up","distinct_id":"u1","event_id":"0198b5f0-0000-7000-8000-000000000001","timestamp":"2026-11-21T10:00:00Z","properties":{"plan":"pro"}}`,
	`{"event":"no one"}`,
	`{"event":"signed up","distinct_id":"u1","event_id":"0198b5f0-0000-7000-8000-000000000001","timestamp":"2026-11-21T10:00:00Z","properties":{"plan":"pro"}}`,
}, "\n")

// What would be stored of events is recorded, the same each time, and why others would not be.
func TestCasesOfAnalytics(t *testing.T) {
	cfg, input := fileOf(t, "tidemill.yaml", "systems: [analytics]\n"), fileOf(t, "analytics.jsonl", analyticsEvents)
	folder := strings.TrimSuffix(input, "/analytics.jsonl")
	write(t, folder+"/case.json", `{"at":"2026-11-21T10:00:05Z","with":{"agent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"},"events":[]}`)
	for _, more := range [][]string{{"--record"}, nil, nil} {
		if status, out, errs := call(t, nil, append([]string{"config", "test", folder, "--config", cfg}, more...)...); status != 0 {
			t.Fatal(out, errs)
		}
	}
	got := contentOf(t, folder+"/case.json")
	for _, want := range []string{`"event": "refused: `, `"event": "skipped: duplicate"`, `"warehouse": "delivered"`, `"Chrome"`, `"at": "2026-11-21T10:00:05Z"`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %s", want, got)
		}
	}
	write(t, folder+"/case.json", strings.Replace(got, `"Chrome"`, `"Safari"`, 1))
	if status, out, _ := call(t, nil, "config", "test", folder, "--config", cfg); status != 1 || !strings.Contains(out, `want "Safari", is "Chrome"`) {
		t.Error(status, out)
	}
	write(t, folder+"/case.json", `{"with":{"format":"nix"},"events":[]}`)
	if status, _, errs := call(t, nil, "config", "test", folder, "--config", cfg); status != 1 || !strings.Contains(errs, `format is "nix": want native`) {
		t.Error(status, errs)
	}
}

// A bound of the clock is a rule of the configuration.
func TestAnalyticsIsComparedByWhatIsStored(t *testing.T) {
	events := fileOf(t, "events.jsonl", strings.Replace(analyticsEvents, "2026-11-21", "2020-01-01", 1))
	old, next := fileOf(t, "old.yaml", "systems: [analytics]\n"), fileOf(t, "new.yaml", "systems: [analytics]\nanalytics: {events_behind: 24h}\n")
	if status, out, errs := call(t, nil, "config", "diff", old, old, "--events", events); status != 0 {
		t.Error(out, errs)
	}
	status, out, errs := call(t, nil, "config", "diff", old, next, "--events", events)
	if status != 1 || !strings.Contains(out, "line 1: warehouse, ") {
		t.Error(status, out, errs)
	}
}
