package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
)

func TestTheSettingsOfADescription(t *testing.T) {
	c, _ := two(t, "delivery: {workers: 3}\n", "")
	if c.SettingsOf("queue") != nil {
		t.Error("what no database has has settings")
	}
	said := map[string]string{}
	for _, kind := range c.Kinds() {
		for _, s := range c.SettingsOf(kind) {
			said[kind+" "+s.Name] = fmt.Sprintf("%s main=%v secret=%v", s.Kind, s.Main, s.Secret)
			if s.Form == "" || s.Kind == "" {
				t.Errorf("%s %s has no form", kind, s.Name)
			}
		}
	}
	for name, want := range map[string]string{
		"partner endpoint": "text main=true secret=false", "partner queue.full": "text main=false secret=false", "partner queue.maxAge": "duration main=false secret=false",
		"partner mapping": "groups main=false secret=false", "partner headers": "names main=false secret=false", "partner idempotent": "truth main=false secret=false",
		"partner auth.type": "text main=true secret=false", "partner auth.realm": "text main=false secret=false", "partner breaker.rate": "number main=false secret=false",
		"site keys": "list main=true secret=true", "site keys_sha256": "list main=true secret=false", "site daily": "whole main=true secret=false",
		"handler endpoint.url": "text main=true secret=false", "handler attributes": "groups main=true secret=false",
		"handler endpoint.secrets": "", "partner name": "", "site id": "", "partner queue": "", "partner mapping.field": "",
	} {
		if said[name] != want {
			t.Errorf("%s is %q, want %q", name, said[name], want)
		}
	}
}

func TestAMistakeIsFoundAtItsSetting(t *testing.T) {
	c, _ := two(t, "delivery: {workers: 3}\n", "")
	given := []byte(`{"auth":{"credentials":"ADS_TOKEN"},"origins":["x"]}`)
	for line, want := range map[string]string{
		"the database: partner ads:1: partner.timeout: want a duration":                                     "timeout: timeout: want a duration",
		"the database: partner ads:1: partner.queue.jobs: want a whole number":                              "queue.jobs: queue.jobs: want a whole number",
		"the database: partner ads:1: there is no setting partner.endpiont; did you mean endpoint?":         "endpoint: there is no setting endpiont; did you mean endpoint?",
		`the database: delivery.partners: partner ads: queue: full "x": want hold`:                          `queue.full: queue: full "x": want hold`,
		"the database: delivery.partners: partner ads: it has no endpoint":                                  "endpoint: it has no endpoint",
		"the database: delivery.partners: partner ads: maxRetries 200 is not between 0 and 100":             "maxRetries: maxRetries 200 is not between 0 and 100",
		"the database: delivery.partners: partner ads: the variable ADS_TOKEN is not set":                   "auth.credentials: the variable ADS_TOKEN is not set",
		"the database: delivery.partners: partner ads: auth: basic needs a user":                            "auth.user: auth: basic needs a user",
		`the database: delivery.partners: partner ads: sites: there is no site "x"`:                         `sites: sites: there is no site "x"`,
		"the database: delivery.partners: partner ads: it is there twice":                                   ": it is there twice",
		"the database: delivery.partners: partner other: it has no endpoint":                                "",
		"the database: delivery.partners: partner ads: headers.X-Key: want a text":                          "headers: headers.X-Key: want a text",
		"delivery.max_workers: 5 at most are fewer than the 10 there always are":                            "",
		"the database: delivery.partners: partner ads: breaker: rate 2: want a share from 0 to 1":           "breaker.rate: breaker: rate 2: want a share from 0 to 1",
		"the database: delivery.partners: partner ads: retry: a wait below zero":                            "retry.base: retry: a wait below zero",
		"the database: delivery.partners: partner ads: endpoint: http is refused":                           "endpoint: endpoint: http is refused",
		"the database: delivery.partners: partner ads: when: expression `x`: unknown field endpoint":        "when: when: expression `x`: unknown field endpoint",
		"the database: delivery.partners: partner ads: settings.account is missing":                         "settings: settings.account is missing",
		"the database: delivery.partners: partner ads: ordered needs a single shard, and there are several": "ordered: ordered needs a single shard, and there are several",
	} {
		var got string
		for _, m := range c.Mistakes("partner", "ads", given, errors.New("x\n"+line)) {
			got += m.Setting + ": " + m.Text
		}
		if got != want {
			t.Errorf("%s\n is at %q\n   want %q", line, got, want)
		}
	}
	if all := c.Mistakes("site", "ads", nil, errors.New(`the database: delivery.sites: sites "ads" and "b" have the same key`)); len(all) != 1 || all[0].Setting != "keys" {
		t.Errorf("%v", all)
	}
	if all := c.Mistakes("site", "a b", nil, errors.New(`the database: delivery.sites: site "a b": want an id of 1 to 100`)); len(all) != 1 || all[0].Text != "want an id of 1 to 100" {
		t.Errorf("%v", all)
	}
}

func TestWhatIsGivenIsWithoutWhatAPresetAdds(t *testing.T) {
	a, _ := two(t, "", "")
	next, err := a.WithStored([]config.Stored{stored(partnersList, "ads", `{"name":"ads","preset":"dv360","endpoint":"https://ads.example/?key=canary","headers":{"X-Key":"canary"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := next.Named(partnersList, "ads")
	given, err := e.Given()
	if err != nil || strings.Contains(string(given), "canary") || strings.Contains(string(given), "mapping") || !strings.Contains(string(given), `"https://ads.example/?[secret]"`) || !strings.Contains(string(given), `"X-Key": "[secret]"`) {
		t.Errorf("%s, %v", given, err)
	}
	if is, err := e.Shown(); err != nil || !strings.Contains(string(is), "mapping") {
		t.Errorf("%s, %v", is, err)
	}
}
