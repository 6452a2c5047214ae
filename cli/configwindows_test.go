package cli

import (
	"strings"
	"testing"
)

const recordsConfig = `windows:
  topics: {processor_event: out-events}
  processors:
    - filter: {keep: "(numMentions ?? 2) > 1", reason: too few}
    - validate: [{must: actor1CountryCode != "XX", why: unknown country}]
    - map: [{name: total, from: "(numMentions ?? 0) * 2"}]
    - {name: mood, kind: event, http: {url: "https://mood.example/"}}
  search: {enabled: true}
systems: [windows]
`

// Records go through processors, topics and index as in a window, and a change of any is found in the
// records that it concerns.
func TestWindowsAreComparedByWhatComesOut(t *testing.T) {
	events := strings.Join([]string{
		`{"globalEventId":1,"day":20250323,"numMentions":3}`,
		`{"globalEventId":2,"day":20250323,"numMentions":1}`,
		`{"globalEventId":3,"day":20250323,"numMentions":9,"actor1CountryCode":"XX"}`,
		`{"globalEventId":4,"day":"today"}`,
		`{"globalEventId":1,"day":20250323,"numMentions":4}`,
	}, "\n")
	differs(t, recordsConfig, events, []change{
		{"", "", ""},
		{"2) > 1", "2) > 0", "line 2: event: skipped: too few, would be delivered\nline 2: processor mood: nothing, would be left out: it asks a service\nline 2: topic out-events: nothing, would be delivered"},
		{"too few", "few", "line 2: event: skipped: too few, would be skipped: few"},
		{`"XX"`, `"YY"`, "line 3: event: dead: "},
		{"?? 0) * 2", "?? 0) * 3", "line 5: topic out-events, total: 8, would be 12"},
		{"out-events", "other", "line 5: topic other: nothing, would be delivered\nline 5: topic out-events: delivered, would be nothing"},
		{"enabled: true", "enabled: false", "line 5: index "},
	})
}

func TestCasesOfWindows(t *testing.T) {
	cfg := fileOf(t, "tidemill.yaml", recordsConfig)
	input := fileOf(t, "windows.jsonl", `{"globalEventId":1,"day":20250323,"numMentions":3}
{"globalEventId":2,"day":"today"}
{"globalEventId":1,"day":20250323,"numMentions":4}
`)
	folder := strings.TrimSuffix(input, "/windows.jsonl")
	if status, out, errs := call(t, nil, "config", "test", folder, "--config", cfg, "--record"); status != 0 {
		t.Fatal(out, errs)
	}
	if status, out, errs := call(t, nil, "config", "test", folder, "--config", cfg); status != 0 {
		t.Fatal(out, errs)
	}
	got := contentOf(t, folder+"/case.json")
	for _, want := range []string{`"event": "skipped: duplicate"`, `"event": "refused: `, `"topic out-events": "delivered"`, `"total": 8`, `"index gdelt-events-2025-03-23, document 1": "delivered"`, `"processor mood": "left out: it asks a service"`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %s", want, got)
		}
	}
}
