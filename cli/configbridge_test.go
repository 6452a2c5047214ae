package cli

import (
	"strings"
	"testing"
)

const lineConfig = "systems: [bridge]\nbridge:\n  mqtt: {publish_topic: \"line/{machine}/events\", custom_prefix: plant}\n"

// Entries of the bridge are compared by topic and message.
func TestBridgesAreComparedByWhatTheyPublish(t *testing.T) {
	events := fileOf(t, "events.jsonl", `{"machine":"m1","n":12345678901234567890}`+"\n"+`{"n":2}`)
	old := fileOf(t, "old.yaml", lineConfig)
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"{machine}/events", "{machine}/data", "line 1: topic plant/line/m1/data: nothing, would be delivered\nline 1: topic plant/line/m1/events: delivered, would be nothing"},
		{"custom_prefix: plant", "custom_prefix: hall", "line 1: topic hall/line/m1/events: nothing, would be delivered"},
		{"{machine}", "{n}", "line 2: event: dead: "},
	} {
		next := fileOf(t, "new.yaml", strings.Replace(lineConfig, c.from, c.to, 1))
		status, out, errs := call(t, nil, "config", "diff", old, next, "--events", events)
		got := strings.ReplaceAll(out, events+", ", "")
		if c.want == "" && (status != 0 || got != "No event of 2 would be treated otherwise.\n") || c.want != "" && status != 1 {
			t.Errorf("%s: exit status %d, %s%s", c.to, status, got, errs)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.to, got, c.want)
		}
	}
}

// An entry may be any bytes, and its fields stand beside it.
func TestCasesOfTheBridge(t *testing.T) {
	cfg, input := fileOf(t, "tidemill.yaml", lineConfig), fileOf(t, "bridge.txt", "\xffno JSON\n")
	folder := strings.TrimSuffix(input, "/bridge.txt")
	if _, out, errs := call(t, nil, "config", "test", folder, "--config", cfg, "--record"); !strings.Contains(out, "1 cases are recorded") {
		t.Fatal(out, errs)
	}
	if got := contentOf(t, folder+"/case.json"); !strings.Contains(got, `"event": "dead: the topic needs the field`) {
		t.Error(got)
	}
	write(t, folder+"/case.json", `{"with":{"machine":"m7"},"events":[{"ends":{"event":"delivered","topic plant/line/m7/events":"delivered"},"outputs":{"topic plant/line/m7/events":{"message":{"payload":"\ufffdno JSON\n"},"redis":{"payload":{"id":"1-0"}}}}}]}`)
	if status, out, errs := call(t, nil, "config", "test", folder, "--config", cfg); status != 0 {
		t.Error(out, errs)
	}
	write(t, folder+"/case.json", `{"with":{"machine":"m7"},"events":[{"ends":{"event":"delivered","topic plant/line/m7/events":"delivered"},"outputs":{"topic plant/line/m7/events":{"message":{"payload":"other"},"redis":{"payload":{"id":"1-0"}}}}}]}`)
	if status, out, _ := call(t, nil, "config", "test", folder, "--config", cfg); status != 1 || !strings.Contains(out, `message.payload: want "other", is `) {
		t.Error(status, out)
	}
}
