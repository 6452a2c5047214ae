package config_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestEverySettingOfAListIsExplained(t *testing.T) {
	parts := settings.PartsOf("")
	if len(parts) < 100 {
		t.Fatalf("only %d", len(parts))
	}
	var ref bytes.Buffer
	if err := settings.WriteReference(&ref); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if p.Help == "" || p.Form == "" {
			t.Errorf("%s is not explained: %+v", p.Path, p)
		}
		_, name, _ := strings.Cut(p.Path, "[].")
		if !strings.Contains(ref.String(), "#   "+name+": "+p.Help) {
			t.Errorf("the reference is without %s", p.Path)
		}
	}
	for _, f := range partner.Functions {
		if !strings.Contains(ref.String(), f.Form+": ") {
			t.Errorf("the reference is without the function %s", f.Form)
		}
	}
}

func TestExplainingOneThing(t *testing.T) {
	for name, want := range map[string]string{
		"analytics.lanes":                   "lanes: 2",
		"TIDEMILL_ANALYTICS_LANES":          "lanes: 2",
		"delivery.partners":                 "#   auth.type: none, bearer",
		"delivery.partners[].auth":          "#   auth.type: none, bearer",
		"delivery.partners.mapping.field":   "#   mapping[].field: ",
		"delivery":                          "delivery.sites has:",
		"windows.processors":                "#   dedup.by: ",
		"crm.handlers.attributes.attribute": "#   attributes[].attribute: ",
	} {
		var b bytes.Buffer
		if err := settings.Explain(&b, name); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s\nwant %s", name, err, b.String(), want)
		}
	}
	if err := settings.Explain(new(bytes.Buffer), "analytics.lane"); err == nil || !strings.Contains(err.Error(), "did you mean analytics.lanes?") {
		t.Errorf("a name that there is not: %v", err)
	}
}
