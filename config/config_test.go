package config_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems"
)

// settings are those of all systems.
var settings = systems.All().Settings()

func file(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestLaterLayersWin(t *testing.T) {
	path := file(t, "listen: 127.0.0.1:1\nlog:\n  level: warn\nanalytics:\n  flush_interval: 2s\n  lanes: 3\n")
	c, err := settings.Load(config.Layers{File: path,
		Getenv: env(map[string]string{"PROCESSOR_FLUSH_INTERVAL_MS": "250", "LOG_LEVEL": "error", "TIDEMILL_ANALYTICS_GEOIP": "x"}),
		Flags:  map[string]string{"log.level": "debug"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{
		"listen":                   {"127.0.0.1:1", path + ":1"},
		"log.level":                {"debug", "flag"},
		"log.format":               {"text", "default"},
		"analytics.flush_interval": {"250ms", "PROCESSOR_FLUSH_INTERVAL_MS"},
		"analytics.lanes":          {"3", path + ":6"},
	} {
		for _, f := range c.Fields() {
			if f.Path == path && (f.String() != want[0] || c.From[path] != want[1]) {
				t.Errorf("%s = %s from %s, want %s from %s", path, f.String(), c.From[path], want[0], want[1])
			}
		}
	}
}

func TestEverySettingCanBeSetInEveryLayer(t *testing.T) {
	other := map[string]string{"listen": "127.0.0.1:9", "admin.listen": "127.0.0.1:10", "ports_address": "::", "telemetry.endpoint": "http://10.0.0.4:4318", "telemetry.headers": "a=b", "telemetry.sample": "0.5", "console.base": "/t", "console.cover": "payload.email,headers.authorization", "http.trust_proxy": "10.0.0.0/8,::1",
		"analytics.rate_status": "429", "analytics.merge_identified": "always", "analytics.geoip.url": "https://example.com/db.mmdb", "kafka.on_lost": "continue",
		"redis.url": "redis://10.0.0.1:6379/3", "postgres.url": "postgres://db.example:5432/x", "clickhouse.url": "https://ch.example:8443",
		"crm.redis_url": "redis://10.0.0.2:6379/0", "crm.postgres_url": "postgres://db.example:5432/y", "crm.bullmq.url": "rediss://10.0.0.3:6379/0", "delivery.bullmq.url": "redis://h:1", "crm.log_life": "48h0m0s", "analytics.events_behind": "48h0m0s", "analytics.events_ahead": "48h0m0s", "analytics.keep": "48h0m0s", "dead_letters.keep": "48h0m0s", "crm.dead_life": "7m0s", "delivery.key_life": "7m0s"}
	for _, f := range settings.Reference() {
		text := other[f.Path]
		switch v := f.Value().(type) {
		case bool:
			text = fmt.Sprint(!v)
		case float64, config.Buckets, config.CPUSet:
			text = cmp.Or(text, "7")
		case time.Duration:
			if text == "" {
				text = "7s"
			}
		case int:
			if text == "" {
				text = "7"
			}
		case config.Size:
			text = "7MiB"
		case config.Networks:
			text = "10.1.0.0/16"
		default:
			if words := f.Words(); words != nil {
				text = words[len(words)-1]
				if text == f.Default {
					text = words[0]
				}
			}
			if text == "" {
				text = "other"
			}
		}
		parts := strings.Split(f.Path, ".")
		yaml := ""
		for i, p := range parts {
			yaml += strings.Repeat("  ", i) + p + ":"
			if i < len(parts)-1 {
				yaml += "\n"
			}
		}
		layers := map[string]config.Layers{
			"file": {File: file(t, yaml+" "+fmt.Sprintf("%q", text)+"\n")},
			"flag": {Flags: map[string]string{f.Path: text}},
		}
		for _, name := range f.Env {
			layers[name] = config.Layers{Getenv: env(map[string]string{name: text})}
		}
		for layer, l := range layers {
			c, err := settings.Load(l)
			if err != nil {
				t.Errorf("%s by %s: %v", f.Path, layer, err)
				continue
			}
			for _, g := range c.Fields() {
				if g.Path != f.Path {
					continue
				}
				if f.Secret {
					if g.String() == "" || strings.Contains(g.String(), "other") {
						t.Errorf("%s by %s: not set, or it prints", f.Path, layer)
					}
				} else if g.String() != text {
					t.Errorf("%s by %s = %s, want %s", f.Path, layer, g.String(), text)
				}
			}
		}
	}
}

func TestMistakesAreRefusedWithTheirPlaceAndWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"an unknown key", "analytics:\n  flush_intervall: 5s\n", ":2: there is no setting analytics.flush_intervall; did you mean analytics.flush_interval?"},
		{"an unknown group", "analitics:\n  lanes: 1\n", ":1: there is no setting analitics"},
		{"a key given twice", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", "listen"},
		{"a duration without unit", "analytics:\n  flush_interval: 5\n", ":2: analytics.flush_interval: \"5\" is not a duration: write 500ms, 5s, 10m, 24h or 7d; allowed: 0, or 1ms or more"},
		{"a word for a number", "analytics:\n  lanes: two\n", "\"two\" is not a whole number; allowed: 1 to 64"},
		{"a number out of range", "analytics:\n  lanes: 65\n", "analytics.lanes (from "},
		{"a wrong word for who may be merged", "analytics:\n  merge_identified: sometimes\n", "invalid value \"sometimes\"; allowed: never|event|always"},
		{"a bound for clocks that is none", "analytics:\n  clock_behind: 0s\n", "; allowed: 1s or more"},
		{"a wrong word", "log:\n  level: loud\n", "invalid value \"loud\"; allowed: trace|debug|info|warn|error|fatal|panic"},
		{"a value for a group", "log: debug\n", "log is a group of settings, not a value"},
		{"a group for a value", "listen:\n  host: x\n", "listen is one value, not a group"},
		{"an address for all to reach without a key", "listen: 0.0.0.0:80\n", "can be reached from other machines, so admin.key (TIDEMILL_TOKEN) is needed; or listen"},
		{"an address for all to reach with a key that is guessed", "listen: :80\nadmin: {key: a}\n", "can be reached from other machines, so admin.key (TIDEMILL_TOKEN) needs 16 characters or more, and has 1; or listen"},
		{"one character less than enough", "listen: 192.0.2.1:80\nadmin: {key: 0123456789abcde}\n", "needs 16 characters or more, and has 15"},
		{"a wrong size", "http:\n  max_body: much\n", "is not a size"},
		{"a project without a key", "projects:\n  - name: shop\n", "needs both a name and a key"},
		{"a key no client can send", "projects:\n  - {name: shop, key: \"a b\"}\n", "printable ASCII"},
		{"one key for two projects", "projects:\n  - {name: a, key: k}\n  - {name: b, key: k}\n", "have the same key"},
		{"an unknown field of a project", "projects:\n  - {name: a, key: k, colour: red}\n", "not \"colour\""},
		{"a list of projects that is none", "projects: shop\n", "projects is a list"},
		{"broken YAML", "listen: [1\n", ":1: this is no YAML"},
		{"a port that is no number", "redis: {url: \"redis://:can:ary/?@h:63790x/1\"}\n", "redis.url (from "},
		{"a port that is too large", "postgres: {url: \"postgres://u:canary@h:65536/db\"}\n", "postgres.url (from "},
		{"a port of the second host", "kafka: {brokers: \"h1:9092,h2:kafka\"}\n", "kafka.brokers (from "},
		{"no hosts", "kafka: {brokers: \"a broker\"}\n", "kafka.brokers (from "},
		{"a second document", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", ":3: a second document begins here, behind ---: put all settings into one"},
		{"one address for two listeners", "admin: {listen: \"127.0.0.1:8484\"}\n", "admin.listen (from "},
		{"an alias", "data: &d x\nadmin:\n  key: *d\n", ":3: write a plain value here"},
		{"a list in a list", "http:\n  trust_proxy: [[a]]\n", ":2: write a plain value here"},
		{"a group for a key", "projects:\n  - {name: a, key: {b: c}}\n", ":2: write a plain value here"},
		{"a proxy that is no network", "http:\n  trust_proxy: [mars]\n", "http.trust_proxy"},
		{"what config show has for a key", "admin:\n  key: \"[secret]\"\n", ":2: admin.key: [secret] stands for a secret that is not shown: give the secret itself"},
		{"the same without its quotes", "admin:\n  key: [secret]\n", ":2: admin.key: [secret] stands for a secret"},
		{"what config show has for an address", "postgres:\n  url: \"postgres://h/db?[secret]\"\n", ":2: postgres.url: [secret] stands for a secret"},
		{"what config show has for addresses without a scheme", "kafka:\n  brokers: \"h1:9092,h2:9092?[secret]\"\n", ":2: kafka.brokers: [secret] stands for a secret"},
		{"what config show has for a project's key", "projects:\n  - {name: a, key: \"[secret]\"}\n", "project \"a\": [secret] stands for a key"},
		{"what config show has for a site's key", "delivery:\n  sites:\n    - {id: a, keys: [\"[secret]\"]}\n", ":3: delivery.sites[0].keys[0]: [secret] stands for a secret"},
		{"what config show has for a header", "delivery:\n  partners:\n    - {name: a, endpoint: 'https://a.example', headers: {X-Key: '[secret]'}}\n", ":3: delivery.partners[0].headers.X-Key: [secret] stands for a secret"},
		{"a URL of another kind", "analytics:\n  geoip: {url: \"ftp://x/y\"}\n", "http:// or https://"},
		{"a database at a private address", "analytics:\n  geoip: {url: \"https://[::ffff:10.0.0.1]/y\"}\n", "set analytics.geoip.allow_private"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := settings.Load(config.Layers{File: file(t, c.yaml)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("Load(%q) = %v, want an error with %q", c.yaml, err, c.want)
			}
		})
	}
	if _, err := settings.Load(config.Layers{Getenv: env(map[string]string{"TIDEMILL_TOKEN": "[secret]"})}); err == nil || !strings.Contains(err.Error(), "TIDEMILL_TOKEN: [secret] stands for") {
		t.Errorf("a variable with what config show has for a key: %v", err)
	}
	if _, err := settings.Load(config.Layers{Getenv: env(map[string]string{"TIDEMILL_ANALYTICS_LANES": "x"})}); err == nil || !strings.Contains(err.Error(), "TIDEMILL_ANALYTICS_LANES") {
		t.Errorf("a wrong variable: %v", err)
	}
	if _, err := settings.Load(config.Layers{File: filepath.Join(t.TempDir(), "none.yaml")}); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestWhereTheAPINeedsALongKey(t *testing.T) {
	for _, flags := range []map[string]string{
		{"listen": "0.0.0.0:80", "admin.key": "0123456789abcdef"}, {"listen": "127.0.0.1:80", "admin.key": "a"}, {"listen": "[::1]:80"}, {"listen": "localhost:80"},
	} {
		if _, err := settings.Load(config.Layers{Flags: flags}); err != nil {
			t.Errorf("%v: %v", flags, err)
		}
	}
	for _, c := range []struct{ listen, key, want string }{
		{"127.0.0.1:80", "", ""}, {"[::1]:80", "", ""}, {"localhost:80", "", ""},
		{"127.0.0.1:80", "0123456789abcdef", "--no-auth: admin.key is set (from flag): take one of the two away"},
		{"0.0.0.0:80", "0123456789abcdef", "--no-auth: listen (from flag) is 0.0.0.0:80, which can be reached from other machines: listen on 127.0.0.1"},
		{":80", "0123456789abcdef", "--no-auth: listen (from flag) is :80, which can be reached"},
	} {
		flags := map[string]string{"listen": c.listen}
		if c.key != "" {
			flags["admin.key"] = c.key
		}
		l, err := settings.Load(config.Layers{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.CheckNoAuth(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("without authentication on %s, key %q: %v, want %q", c.listen, c.key, err, c.want)
		}
	}
}

func TestSecretsAreNeverWritten(t *testing.T) {
	c, err := settings.Load(config.Layers{File: file(t, "admin:\n  key: canary-1\nprojects:\n  - {name: shop, key: canary-2}\n")})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%v %+v %#v", c.Config, c.Config, c.Config)
	if strings.Contains(b.String(), "canary") {
		t.Errorf("a secret was printed: %s", b.String())
	}
	if !strings.Contains(b.String(), "name: shop") {
		t.Errorf("the project is missing: %s", b.String())
	}
}

func TestMistakesDoNotShowSecrets(t *testing.T) {
	for _, text := range []string{
		"admin:\n  key: canary-1\n :\n", "admin:\n  key: \"canary-1\n", "admin: {key: canary-1\n", "admin:\n\tkey: canary-1\n",
		"projects:\n  - {name: a, key: canary 1}\n", "projects:\n  - {name: a, key: canary-1}\n  - {name: b, key: canary-1}\n",
		"admin:\n  key: [canary-1, [x]]\n", "projects:\n  - {name: a, key: &canary-1 x}\n", "admin:\n  key: canary-1: x\n", "admin:\n  key: @canary-1\n",
	} {
		_, err := settings.Load(config.Layers{File: file(t, text)})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("Load(%q) = %v, want an error that does not show the key", text, err)
		}
	}
	c, err := settings.Load(config.Layers{Getenv: env(map[string]string{"TIDEMILL_GEOIP_URL": "https://canary-1:canary-2@example.com/db?license_key=canary-3"})})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil || strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "https://example.com/db") {
		t.Errorf("a URL is to be shown without what may be a key: %v\n%s", err, b.String())
	}
	_, err = settings.Load(config.Layers{Getenv: env(map[string]string{"TIDEMILL_GEOIP_URL": "ftp://canary-1@example.com/db?canary-2"})})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a wrong URL: %v", err)
	}
}

func TestAddressesShowNoKeys(t *testing.T) {
	for in, want := range map[config.URL]string{
		"":                 "",
		"redis://h:6379/0": "redis://h:6379/0",
		"redis://u:canary@h1:1,h2:2?cluster=true": "redis://h1:1,h2:2?[secret]",
		"postgres://u:can/ary@h/db":               "[secret]",
		"postgres://u:canary#x@h/db":              "[secret]",
		"postgres://u:canary?x@h/db":              "[secret]",
		"postgres://u:can@ary@h/db?x=canary":      "postgres://h/db?[secret]",
		"h1:9092,h2:9092":                         "h1:9092,h2:9092",
		"user:canary@h1:9092":                     "h1:9092?[secret]",
		"kafka://u:canary@h1:9092,h2":             "kafka://h1:9092,h2?[secret]",
		"https://h/webhook/canary-0123/db":        "https://h/webhook/[secret]/db",
		"u:can://ary@h1:9092":                     "[secret]",
	} {
		if got := in.String(); got != want {
			t.Errorf("%q is shown as %q, want %q", string(in), got, want)
		}
	}
}

func TestTheReferenceIsAConfigurationItself(t *testing.T) {
	var b strings.Builder
	if err := settings.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	c, err := settings.Load(config.Layers{File: file(t, b.String())})
	if err != nil {
		t.Fatalf("%v in:\n%s", err, b.String())
	}
	for i, f := range c.Fields() {
		if want := settings.Reference()[i]; f.String() != want.String() {
			t.Errorf("%s = %s, want %s", f.Path, f.String(), want.String())
		}
	}
}

func TestAFileOfAnotherEditor(t *testing.T) {
	c, err := settings.Load(config.Layers{File: file(t, "\ufefflisten: 127.0.0.1:1\r\ndata: here\r\n")})
	if err != nil || c.Listen != "127.0.0.1:1" || c.Data != "here" {
		t.Errorf("%q, %q, %v", c.Listen, c.Data, err)
	}
	if c, err = settings.Load(config.Layers{File: file(t, "---\nlisten: 127.0.0.1:1\n---\n")}); err != nil || c.Listen != "127.0.0.1:1" {
		t.Errorf("with lines before and behind: %q, %v", c.Listen, err)
	}
}

func TestAddressesThatServersCanHave(t *testing.T) {
	for _, text := range []string{"redis: {url: \"redis://:pa?ss/w:rd@h1:6379,h2,[::1]:7000/3\"}", "redis: {url: \"redis://::1/2\"}", "postgres: {url: \"postgres:///db?host=/run/postgresql\"}",
		"postgres: {url: \"postgres://u@h1:5432,h2:5433/db?application_name=a@b\"}", "kafka: {brokers: \"h1:9092, h2\"}", "kafka: {brokers: \"kafka://u:p/w@h1:9092,h2/?sasl=plain\"}", "clickhouse: {url: \"http://h:8123/path:x\"}"} {
		if _, err := settings.Load(config.Layers{File: file(t, text+"\n")}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]config.Size{"0": 0, "12": 12, "1KiB": 1024, "5 MB": 5e6, "2GiB": 2 << 30, "7B": 7} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "KiB", "1TB", "1.5MB", "99999999999999GiB"} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, s)
		}
	}
}

func TestHowLongLogFilesAreKept(t *testing.T) {
	c, err := settings.Load(config.Layers{})
	if want := (config.LogFiles{Debug: 7, Info: 30, Warn: 90, Error: 365, Most: 1 << 30}); err != nil || c.LogFiles != want {
		t.Errorf("by default %+v, %v; want %+v", c.LogFiles, err, want)
	}
	if _, err := settings.Load(config.Layers{Getenv: env(map[string]string{"TIDEMILL_LOG_FILES_WARN_DAYS": "0"})}); err == nil || !strings.Contains(err.Error(), "log_files.warn_days (from TIDEMILL_LOG_FILES_WARN_DAYS)") {
		t.Errorf("no day at all: %v", err)
	}
}

// Nothing is named twice by accident.
func TestVariablesAndFlagsThatSeveralSettingsHave(t *testing.T) {
	users := map[string][]string{}
	for _, f := range settings.Reference() {
		for _, name := range f.Env {
			users[name] = append(users[name], f.Path)
		}
		if f.Flag != "" {
			users["--"+f.Flag] = append(users["--"+f.Flag], f.Path)
		}
	}
	// The log has two groups that share variables on purpose: see LogOf.
	shared := map[string][]string{}
	for name, paths := range users {
		if len(paths) > 1 {
			shared[name] = paths
		}
	}
	want := map[string][]string{
		"LOG_LEVEL": {"log.level", "bridge.log.level"}, "TIDEMILL_LOG_LEVEL": {"log.level", "bridge.log.level"},
		"TIDEMILL_LOG_FORMAT": {"log.format", "bridge.log.format"}, "REDIS_PASSWORD": {"bridge.redis.password", "delivery.redis_password"},
	}
	if !maps.EqualFunc(shared, want, slices.Equal) {
		t.Errorf("shared by several settings: %v, want %v", shared, want)
	}
}

func TestLevelsGrow(t *testing.T) {
	last := config.Log{Level: "trace"}.Slog()
	for _, level := range []string{"debug", "info", "warn", "error", "fatal", "panic"} {
		if s := (config.Log{Level: level}).Slog(); s <= last {
			t.Errorf("%s is %v, and the one below is %v", level, s, last)
		} else {
			last = s
		}
	}
}
