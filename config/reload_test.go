package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

// two are two configurations of two files and environments.
func two(t *testing.T, before, after string, vars ...map[string]string) (a, b *config.Loaded) {
	t.Helper()
	for i, text := range []string{before, after} {
		l := config.Layers{File: file(t, text)}
		if len(vars) > 0 {
			l.Getenv = env(vars[min(i, len(vars)-1)])
		}
		c, err := settings.Load(l)
		if err != nil {
			t.Fatal(err)
		}
		if a, b = b, c; i == 0 {
			a, b = nil, c
		}
	}
	return a, b
}

func said(all []config.Change) (lines []string) {
	for _, c := range all {
		line := c.What + " " + c.Setting
		if c.What == config.Changed {
			line += ": " + c.Before + " -> " + c.After
		}
		lines = append(lines, line)
	}
	return lines
}

func TestChangesNameEachSettingAndCoverSecrets(t *testing.T) {
	const before = `
log: {level: info}
admin: {key: canary-0123456789abcdef}
redis: {url: "redis://me:canary@r:6379"}
projects:
  - {name: shop, key: canary-shop-1}
  - {name: blog, key: canary-blog-1}
delivery:
  sites:
    - {id: shop, keys: [canary-site-1], daily: 5}
    - {id: gone}
  partners:
    - {name: crm, endpoint: "https://crm.example/?key=canary-1", timeout: 3s, headers: {X-Key: canary-2}}
    - {name: ads, endpoint: "https://ads.example/"}
    - {name: old, endpoint: "https://old.example/"}
`
	const after = `
log: {level: debug}
admin: {key: canary-0123456789abcdeg}
redis: {url: "redis://me:canary2@r:6379"}
listen: 127.0.0.1:9
projects:
  - {name: shop, key: canary-shop-1}
  - {name: blog, key: canary-blog-2}
  - {name: shop, key: canary-shop-2}
delivery:
  sites:
    - {id: shop, keys: [canary-site-2], daily: 5}
    - {id: new}
  partners:
    - {name: ads, endpoint: "https://ads.example/"}
    - {name: crm, endpoint: "https://crm.example/?key=canary-3", timeout: 5s, headers: {X-Key: canary-4}}
`
	a, b := two(t, before, after)
	got := a.Changes(b)
	want := []string{
		"changed listen: 127.0.0.1:8484 -> 127.0.0.1:9",
		"changed log.level: info -> debug",
		"changed admin.key: [secret] -> [secret]",
		"changed redis.url: " + a.Redis.URL.String() + " -> " + b.Redis.URL.String(),
		"changed projects[blog].key: [secret] -> [secret]",
		"added projects[shop, 2]",
		"changed delivery.sites[shop].keys: [\"[secret]\"] -> [\"[secret]\"]",
		"removed delivery.sites[gone]",
		"added delivery.sites[new]",
		"changed delivery.partners[crm].endpoint: ",
		"changed delivery.partners[crm].headers: ",
		"changed delivery.partners[crm].timeout: 3s -> 5s",
		"removed delivery.partners[old]",
		"changed delivery.partners: the order crm, ads -> the order ads, crm",
	}
	lines := said(got)
	for i, line := range lines {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("%d: %s", i, line)
		}
		if strings.Contains(line, "canary") {
			t.Errorf("a secret: %s", line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d changes, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
	}
	for _, c := range got {
		if want := c.Setting == "log.level" || c.List() != "" || c.Setting == "delivery.partners"; c.Reload != want {
			t.Errorf("%s: a reload applies it: %v", c.Setting, c.Reload)
		}
	}
	if all := a.Changes(a); len(all) != 0 {
		t.Errorf("nothing changed, and it says %v", said(all))
	}
}

func TestARotatedSecretIsAChangeOfWhatNamesIt(t *testing.T) {
	const text = `
delivery:
  sites: [{id: shop, keys_env: [SHOP_KEY]}]
  partners: [{name: crm, endpoint: "https://crm.example/", auth: {type: bearer, credentials: CRM_TOKEN}}]
`
	key := filepath.Join(t.TempDir(), "key")
	write := func(value string) {
		if err := os.WriteFile(key, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("canary-file-1")
	vars := map[string]string{"SHOP_KEY": "canary-shop", "CRM_TOKEN_FILE": key}
	a, err := settings.Load(config.Layers{File: file(t, text), Getenv: env(vars)})
	if err != nil {
		t.Fatal(err)
	}
	if err := deliveryconfig.Of(a).CheckPartners(); err != nil {
		t.Fatal(err)
	}
	write("canary-file-2")
	if s, _ := a.Secret("CRM_TOKEN"); s.Reveal() != "canary-file-1" {
		t.Error("a configuration has another secret than it began with")
	}
	b, err := settings.Load(config.Layers{File: a.File, Getenv: env(vars)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"changed delivery.partners[crm].auth: what CRM_TOKEN was -> what CRM_TOKEN is"}
	if got := said(a.Changes(b)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatNeedsARestartStaysAsItWas(t *testing.T) {
	a, b := two(t, "listen: 127.0.0.1:1\nlog: {level: info}\nkafka: {partitions: 3}\ndelivery: {sites: [{id: a}]}\n",
		"listen: 127.0.0.1:2\nlog: {level: warn}\nkafka: {partitions: 4}\ndelivery: {sites: [{id: b}]}\n")
	leave := func(c *config.Change) bool { return c.Setting != "log.level" }
	if err := a.With(b, leave); err != nil {
		t.Fatal(err)
	}
	if b.Listen != "127.0.0.1:1" || b.From["listen"] != a.From["listen"] || b.Kafka.Partitions != 3 || b.Log.Level != "warn" || deliveryconfig.Of(b).Sites[0].ID != "a" {
		t.Errorf("listen %s from %s, %d partitions, level %s, site %s", b.Listen, b.From["listen"], b.Kafka.Partitions, b.Log.Level, deliveryconfig.Of(b).Sites[0].ID)
	}
	if got := said(a.Changes(b)); !slices.Equal(got, []string{"changed log.level: info -> warn"}) {
		t.Errorf("%q", got)
	}
}

// What is refused of two configurations together is each right alone: the new one has a key of the
// API that the old one's address does not need, and leaves out the one that it does.
func TestWhatIsLeftHasToFitWhatIsNot(t *testing.T) {
	a, b := two(t, "listen: 0.0.0.0:1\nadmin: {key: canary-0123456789abcdef}\n", "listen: 127.0.0.1:1\n")
	err := a.With(b, func(c *config.Change) bool { return c.Setting == "listen" })
	if err == nil || !strings.Contains(err.Error(), "admin.key") || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
}

// Every setting and list is compared: none can change and not be said.
func TestEverySettingIsCompared(t *testing.T) {
	for _, f := range settings.Reference() {
		a, err := settings.Load(config.Layers{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := settings.Load(config.Layers{})
		if err != nil {
			t.Fatal(err)
		}
		config.Alter(b, f.Path)
		if got := a.Changes(b); len(got) != 1 || got[0].Setting != f.Path || got[0].Reload != f.Reload {
			t.Errorf("%s was changed, and the changes are %v", f.Path, got)
		}
		if err := a.With(b, func(*config.Change) bool { return true }); err != nil || len(a.Changes(b)) > 0 {
			t.Errorf("%s does not stay as it was: %v", f.Path, err)
		}
	}
}

func TestTheReferenceSaysWhatAReloadApplies(t *testing.T) {
	var b strings.Builder
	if err := settings.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range settings.Reference() {
		if f.Reload {
			n++
		}
	}
	lists := map[string]bool{}
	for _, p := range settings.PartsOf("") {
		if p.Reload {
			list, _, _ := strings.Cut(p.Path, "[]")
			lists[list] = true
		}
	}
	if got := strings.Count(b.String(), "# a reload applies it\n"); n == 0 || len(lists) == 0 || got != n+len(lists) {
		t.Errorf("%s", fmt.Sprintf("the reference has %d, of %d settings and %d lists", got, n, len(lists)))
	}
}
