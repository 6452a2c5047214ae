package crmconfig

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

var schema = config.Schema{Group}

func load(t *testing.T, text string, vars map[string]string) (*config.Loaded, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return schema.Load(config.Layers{File: path, Getenv: func(name string) string { return vars[name] }})
}

const aSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func TestTenantsAndHandlers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, `
crm:
  attempts: 5
  unknown: dead
  create: false
  priorities:
    high: [payment.failed]
    prefixes: []
  tenants:
    - id: club
      keys: [plain-key]
      keys_env: [CLUB_KEY]
      keys_sha256: ["`+strings.Repeat("ab", 32)+`"]
      at_once: 3
    - {id: other, per_second: 200}
    - {id: free, per_second: -1}
    - {id: plain}
  handlers:
    - name: keep
      types: [member.created, member.*]
      attributes:
        - {attribute: city, from: payload.address.city}
        - {attribute: logins, value: "1", op: increment}
    - name: app
      types: ["*"]
      timeout: 3s
      endpoint:
        url: https://app.example.com/events
        secrets_env: [SIGNING]
        headers: {X-App: one}
        headers_env: {Authorization: BEARER}
        allowPrivate: [10.1.0.0/16]
  bullmq:
    url: redis://10.0.0.1:6379
`, map[string]string{"CLUB_KEY_FILE": file, "SIGNING": aSecret, "BEARER": "Bearer canary"})
	if err != nil {
		t.Fatal(err)
	}
	d := Of(c)
	if d.Attempts != 5 || d.Unknown != "dead" || d.Create || !d.Configured() || d.BullMQ.Queue != "crm-events" || d.BullMQ.Prefix != "bull" {
		t.Errorf("%+v", d)
	}
	keys, err := d.TenantKeys(&d.Tenants[0])
	if err != nil || len(keys) != 3 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	if secret, _ := c.Secret("CLUB_KEY"); keys[1] != project.HashOf(secret) || secret.Reveal() != "from-a-file" {
		t.Error("the key of a file is not what stands there")
	}
	want := map[string]queue.Limit{"club": {PerSecond: 50, Burst: 10, AtOnce: 3}, "other": {PerSecond: 200, Burst: 40}, "free": {}}
	if got := d.Limits(); !reflect.DeepEqual(got, want) {
		t.Errorf("limits %v, want %v", got, want)
	}
	keep, app := d.Handlers[0].Spec(), d.Handlers[1].Spec()
	if keep.Many != 100 || keep.Timeout != 10*time.Second || len(keep.Types) != 2 || len(d.Handlers[0].Attributes) != 2 {
		t.Errorf("handler %+v", keep)
	}
	if app.Many > 1 || app.Timeout <= 3*time.Second {
		t.Errorf("the call of an endpoint is cut off before its request: %+v", app)
	}
	o, err := d.Endpoint(&d.Handlers[1])
	if err != nil || o.Timeout != 3*time.Second || o.Header["X-App"] != "one" || o.Header["Authorization"] != "Bearer canary" || len(o.Secrets) != 1 || len(o.Allow) != 1 || o.Plain {
		t.Errorf("endpoint %+v, %v", o, err)
	}
	if e, err := webhook.New(o); err != nil {
		t.Error(err)
	} else {
		e.Close()
	}
	table, err := priority.New(d.Priorities.Rules())
	if err != nil || table.Of("payment.failed") != priority.High || table.Of("scl.payment.failed") != priority.Normal {
		t.Errorf("the lists of the file are not in force: %v", err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil || strings.Contains(b.String(), "canary") || strings.Contains(b.String(), "plain-key") || !strings.Contains(b.String(), "#   name: app\n") {
		t.Errorf("%v, shown: %s", err, b.String())
	}
}

func TestMistakesInCRM(t *testing.T) {
	handler := func(text string) string { return "handlers:\n    - {name: a, types: [x], " + text + "}" }
	endpoint := func(text string) string { return handler("endpoint: {" + text + "}") }
	for _, c := range []struct{ name, text, want string }{
		{"workers", "workers: 0", "crm.workers"},
		{"attempts", "attempts: 0", "1 to 100"},
		{"a rate below zero", "per_second: -1", "crm.per_second"},
		{"a rate that is none", "tenant_per_second: NaN", "crm.tenant_per_second"},
		{"a word", "unknown: drop", "skip|dead"},
		{"a priority twice", "priorities: {high: [a.b], low: [a.b]}", "there twice"},
		{"a priority that no type has", "priorities: {high: [a/b]}", "A-Z a-z 0-9"},
		{"an address", "redis_url: host:1", "crm.redis_url"},
		{"another address", "bullmq: {url: 'http://x'}", "crm.bullmq.url"},
		{"a queue with a colon", "bullmq: {queue: 'a:b'}", "crm.bullmq.queue"},
		{"an unknown name", "tenants:\n    - {id: a, colour: red}", "tidemill.yaml:3"},
		{"no list", "tenants: a", "want a list of groups of settings"},
		{"a tenant's id", "tenants:\n    - {id: a b}", "tenantId"},
		{"a tenant twice", "tenants:\n    - {id: a}\n    - {id: a}", "twice"},
		{"a rate that is too little", "per_second: 1e-7", `per_second (from `},
		{"a rate of each tenant that is too little", "tenant_per_second: 1e-7", `invalid value "1e-07"; allowed: 0 for no limit, or 1e-06 or more`},
		{"a tenant's rate that is too little", "tenants:\n    - {id: a, per_second: 1e-7}", "tenant a: per_second 1e-07: want 1e-06 to 1e+06"},
		{"at once", "tenants:\n    - {id: a, at_once: -1}", "at_once"},
		{"a variable that is not set", "tenants:\n    - {id: a, keys_env: [NOWHERE]}", "NOWHERE_FILE"},
		{"a hash", "tenants:\n    - {id: a, keys_sha256: [abc]}", "64 hexadecimal"},
		{"one key of two", "tenants:\n    - {id: a, keys: [k]}\n    - {id: b, keys: [k]}", "the same key"},
		{"a handler that does nothing", "handlers:\n    - {name: a, types: [x]}", "say what it does"},
		{"a handler that does two things", handler("endpoint: {url: 'https://x.example'}, attributes: []"), "not both"},
		{"a handler without a name", "handlers:\n    - {types: [x], attributes: []}", "needs a name"},
		{"a handler without types", "handlers:\n    - {name: a, attributes: []}", "types of events"},
		{"two handlers of a type", "handlers:\n    - {name: a, types: [x], attributes: []}\n    - {name: b, types: [x], attributes: []}", "there twice"},
		{"a wrong operation", handler("attributes: [{attribute: a, from: payload.a, op: multiply}]"), "multiply"},
		{"an attribute without a place", handler("attributes: [{attribute: a}]"), "where in the event"},
		{"many of an endpoint", handler("many: 5, endpoint: {url: 'https://x.example'}"), "one event in each request"},
		{"a timeout", handler("timeout: 1h, attributes: []"), "a timeout of 1h"},
		{"an endpoint without a secret", endpoint("url: 'https://x.example'"), "need a secret"},
		{"a secret that is none", endpoint("url: 'https://x.example', secrets: [canary]"), "whsec_"},
		{"a secret that is not set", endpoint("url: 'https://x.example', secrets_env: [NOWHERE]"), "NOWHERE_FILE"},
		{"a header that is not set", endpoint("url: 'https://x.example', secrets: [" + aSecret + "], headers_env: {A: NOWHERE}"), "headers_env: neither NOWHERE"},
		{"plain http", endpoint("url: 'http://x.example', secrets: [" + aSecret + "]"), "http"},
		{"no URL", endpoint("url: 'x', secrets: [" + aSecret + "]"), "its URL is none"},
		{"a network", endpoint("url: 'https://x.example', secrets: [" + aSecret + "], allowPrivate: [10.0.0.1]"), "allowPrivate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "crm:\n  "+c.text+"\n", nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestTheDefaultPrioritiesAreThoseOfTheSystem(t *testing.T) {
	c, err := schema.Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Of(c).Priorities.Rules(), priority.Default(); !reflect.DeepEqual(normal(got), normal(want)) {
		t.Errorf("rules %v, want %v", got, want)
	}
	if Of(c).Configured() || len(Of(c).Limits()) > 0 {
		t.Error("defaults alone say that it is to run")
	}
}

// normal makes lists of one kind of slice.
func normal(r priority.Rules) [][]string { return [][]string{r.High, r.Normal, r.Low, r.Prefixes} }

func TestTheServersOfCRM(t *testing.T) {
	for _, c := range []struct {
		vars            map[string]string
		redis, postgres string
	}{
		{nil, "", ""},
		{map[string]string{"REDIS_URL": "redis://r:1", "DATABASE_URL": "postgres://p/x"}, "redis://r:1", "postgres://p/x"},
		{map[string]string{"REDIS_URL": "redis://r:1", "TIDEMILL_CRM_REDIS_URL": "redis://own:1", "TIDEMILL_CRM_POSTGRES_URL": "postgres://own/x"}, "redis://own:1", "postgres://own/x"},
	} {
		l, err := load(t, "", c.vars)
		if err != nil || string(Of(l).Redis()) != c.redis || string(Of(l).Postgres()) != c.postgres {
			t.Errorf("%v: %q and %q, %v", c.vars, string(Of(l).Redis()), string(Of(l).Postgres()), err)
		}
	}
}

func TestTheListsOfTheReferenceCanBeUsed(t *testing.T) {
	var b strings.Builder
	if err := schema.WriteReference(&b); err != nil || !strings.Contains(b.String(), (&Settings{}).Example()) || !strings.Contains(b.String(), "\ncrm:\n") {
		t.Fatalf("the lists are not at the end of the group crm: %v", err)
	}
	text := "crm:\n"
	for line := range strings.Lines((&Settings{}).Example()) {
		if line, ok := strings.CutPrefix(line, "  #"); ok && !strings.HasPrefix(line, " ") || strings.HasPrefix(line, "  ") {
			text += "  " + line
		}
	}
	c, err := load(t, text, map[string]string{"CLUB_7_KEY": "k", "APP_SECRET": aSecret, "APP_TOKEN": "t"})
	if err != nil {
		t.Fatalf("%v, of\n%s", err, text)
	}
	if len(Of(c).Tenants) != 1 || len(Of(c).Handlers) != 2 || len(Of(c).Handlers[0].Attributes) != 3 || Of(c).Handlers[1].Endpoint == nil {
		t.Errorf("%+v", Of(c))
	}
}
