//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// libraries are unmodified; each makes every kind of call once. Commands run in test/sdk, with
// the address and the key as last arguments.
var libraries = map[string][]string{
	"rudderstack":        {"node", "calls.mjs", "rudderstack"},
	"rudderstack-python": {filepath.Join("venv", "bin", "python"), "calls.py"},
	"analytics-go":       {"go", "run", "-C", "go", ".", "analytics-go"},
	"cloudevents":        {"node", "calls.mjs", "cloudevents"},
	"cloudevents-go":     {"go", "run", "-C", "go", ".", "cloudevents-go"},
}

// stored is an event as the command line shows it.
type stored struct {
	Name       string `json:"event_name"`
	Distinct   string `json:"distinct_id"`
	PageTitle  string `json:"page_title"`
	SDK        string `json:"sdk_name"`
	Browser    string
	Properties map[string]any
}

// TestCallsOfLibrariesAreKeptWhole looks for every part of a call at its documented place.
func TestCallsOfLibrariesAreKeptWhole(t *testing.T) {
	in := newInstance(t)
	in.Start()
	for library, command := range libraries {
		cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "http://"+in.Addr, key)...)
		cmd.Dir = filepath.Join("..", "sdk")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", library, err, out)
		}
	}
	in.settled()
	events := map[string]map[string]stored{} // by distinct id and name
	for line := range bytes.Lines(in.Ask("events", "--project", "shop", "-n", "0", "--json")) {
		var e stored
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if events[e.Distinct] == nil {
			events[e.Distinct] = map[string]stored{}
		}
		if _, twice := events[e.Distinct][e.Name]; twice {
			t.Errorf("%s of %s is there twice", e.Name, e.Distinct)
		}
		events[e.Distinct][e.Name] = e
	}
	for _, library := range []string{"rudderstack", "rudderstack-python", "analytics-go"} {
		t.Run(library, func(t *testing.T) { checkCalls(t, in, library+"-user", events[library+"-user"]) })
	}
	for _, library := range []string{"cloudevents", "cloudevents-go"} {
		t.Run(library, func(t *testing.T) {
			for _, mode := range []string{"binary", "structured"} { // no subject: its source names it
				has(t, events["/"+library]["order."+mode].Properties, map[string]any{"total": 12.5, "ce_source": "/" + library, "ce_region": "köln",
					"ce_dataschema": "https://shop.example/order", "ce_traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
			}
		})
	}
}

func checkCalls(t *testing.T, in *instance, user string, events map[string]stored) {
	context := map[string]any{"utm_campaign": "spring", "utm_source": "mail", "$app_name": "Shop", "$app_version": "2"}
	has(t, events["bought"].Properties, context)
	has(t, events["bought"].Properties, map[string]any{"n": 1.0})
	has(t, events["$pageview"].Properties, map[string]any{"name": "Home", "category": "Docs", "url": "https://shop.example/"})
	has(t, events["$groupidentify"].Properties, map[string]any{"$group_type": "group", "$group_key": "acme", "$group_set": map[string]any{"seats": 5.0}})
	if title := events["$pageview"].PageTitle; title != "Home" {
		t.Errorf("the page is called %q", title)
	}
	var p struct {
		Distinct   []string `json:"distinct_ids"`
		Properties map[string]any
		Identified bool `json:"is_identified"`
	}
	if err := json.Unmarshal(in.Ask("person", "show", user, "--project", "shop", "--json"), &p); err != nil {
		t.Fatal(err)
	}
	if !p.Identified || len(p.Distinct) != 2 || p.Properties["plan"] != "pro" {
		t.Errorf("the person is %+v; want the plan pro, and the anonymous id merged", p)
	}
}

func has(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if !reflect.DeepEqual(got[name], value) {
			t.Errorf("%s is %v, want %v, in %v", name, got[name], value, got)
		}
	}
}
