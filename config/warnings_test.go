package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestWarnings(t *testing.T) {
	const fine = `projects: [{name: shop, key: a-long-random-ingest-key}]
delivery:
  sites:
    - {id: north, keys_env: [TIDEMILL_NORTH_KEY]}
    - {id: south, public: true}
    - {id: west, keys_sha256: ['0000000000000000000000000000000000000000000000000000000000000000']}
  partners:
    - {name: p, endpoint: 'https://p.example/', when: 'event.siteId == "shop" || event.eventType in ["purchase"]'}
    - {name: off, endpoint: 'https://p.example/', when: 'false'}
`
	load := func(text string) *config.Loaded {
		t.Helper()
		file := filepath.Join(t.TempDir(), "tidemill.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := settings.Load(config.Layers{File: file, Getenv: func(name string) string {
			return map[string]string{"TIDEMILL_NORTH_KEY": "a-long-random-key-of-north", "SHORT": "short"}[name]
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	usual := []string{"TIDEMILL_DATA=d", "TIDEMILL_NORTH_KEY=k", "TIDEMILL_NORTH_KEY_FILE=f", "TIDEMILL_CONFIG=c", "TIDEMILL_TEST_SERVERS=1", "TIDEMILL_SERVICE_HOST=10.0.0.1", "TIDEMILL_PORT=tcp://10.0.0.1:80", "TIDEMILL_PORT_80_TCP=x", "TIDEMILL_LISTN=", "HOME=/root"}
	if got := load(fine).Warnings(usual); len(got) > 0 {
		t.Errorf("nothing is wrong, and there are warnings: %q", got)
	}
	for _, c := range []struct{ text, environ, want string }{
		{"projects: [{name: a, key: a-long-random-ingest-key}, {name: b, key: another-long-ingest-key}]\nwindows: {files: {folder: in}}\n", "", "is of the project default, which nobody has a key of: set one of a, b"},
		{"projects:\n  - {name: shop, key: canary}\n", "", "tidemill.yaml:2: projects: a key of project shop has 6 characters, which can be guessed: use 16 or more"},
		{"delivery:\n  sites:\n    - {id: s, keys: [canary]}\n", "", "tidemill.yaml:3: delivery.sites: a key of site s has 6"},
		{"delivery:\n  sites:\n    - {id: s, keys_env: [SHORT]}\n", "", "a key of site s has 5"},
		{"crm:\n  tenants:\n    - {id: c, keys: [canary]}\n", "", "tidemill.yaml:3: crm.tenants: a key of tenant c has 6"},
		{"delivery:\n  sites:\n    - {id: s}\n", "", "tidemill.yaml:3: delivery.sites: site s has no key and is not public"},
		{fine + "    - {name: q, endpoint: 'https://p.example/', when: 'event.eventType == \"purchse\"'}\n", "", "tidemill.yaml:10: delivery.partners: partner q gets no event, its condition never holds: there is no type of events \"purchse\""},
		{fine + "    - {name: q, endpoint: 'https://p.example/', when: 'event.siteId == \"east\"'}\n", "", `there is no site "east"`},
		{"delivery:\n  queues:\n    - {when: 'event.eventType == \"x\"', queue: high}\n", "", "tidemill.yaml:3: delivery.queues: the condition of queue high never holds"},
		{"", "TIDEMILL_LISTN=:1", "TIDEMILL_LISTN: there is no such variable; did you mean TIDEMILL_LISTEN?"},
	} {
		got := strings.Join(load(c.text).Warnings([]string{c.environ}), "\n")
		if !strings.Contains(got, c.want) || strings.Contains(got, "canary") || strings.Contains(got, "\n") {
			t.Errorf("%s%s\n%s\nwant %s", c.text, c.environ, got, c.want)
		}
	}
}

// What is in force is shown with its place: a partner with its preset, and no secret.
func TestShowingLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(file, []byte(`delivery:
  sites:
    - {id: shop, keys: [canary-of-the-shop]}
  partners:
    - {name: mine, preset: dv360, timeout: 1d, headers: {Authorization: canary}, settings: {profileId: "7", apiToken: canary}}
windows:
  processors:
    - http: {url: 'https://user:canary@x.example/webhook/canary-1/?key=canary', headers: {X: canary}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := settings.Load(config.Layers{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	preset, err := partner.Preset("dv360")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# delivery.sites, number 1, from " + file + ":3\n#   id: shop\n", "# delivery.partners, number 1, from " + file + ":5\n#   name: mine\n#   preset: dv360\n",
		preset.Endpoint[:20], "timeout: 24h0m0s", `Authorization: "[secret]"`, "# windows.processors, number 1, from " + file + ":8\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it is without %s", want)
		}
	}
	if strings.Contains(b.String(), "canary") || t.Failed() {
		t.Errorf("what is shown is\n%s", b.String()[max(0, strings.Index(b.String(), "# delivery.sites")):])
	}
}
