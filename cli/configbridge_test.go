package cli

import (
	"strings"
	"testing"
)

const lineConfig = "systems: [bridge]\nbridge:\n  mqtt: {publish_topic: \"line/{machine}/events\", custom_prefix: plant}\n"

// Entries of the bridge are compared by topic and message.
func TestBridgesAreComparedByWhatTheyPublish(t *testing.T) {
	events := `{"machine":"m1","n":12345678901234567890}` + "\n" + `{"n":2}`
	differs(t, lineConfig, events, []change{
		{"", "", ""},
		{"{machine}/events", "{machine}/data", "line 1: topic plant/line/m1/data: nothing, would be delivered\nline 1: topic plant/line/m1/events: delivered, would be nothing"},
		{"custom_prefix: plant", "custom_prefix: hall", "line 1: topic hall/line/m1/events: nothing, would be delivered"},
		{"{machine}", "{n}", "line 2: event: dead: "},
	})
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
