package deliveryconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
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

func TestSitesAndPartners(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, `
delivery:
  workers: 5
  sites:
    - id: shop
      keys: [plain-key]
      keys_env: [SHOP_KEY]
      keys_sha256: ["`+strings.Repeat("ab", 32)+`"]
      public: true
      plan: pro
      per_second: 50
    - id: other
      daily: 7
      consent: skip
  queues:
    - when: event.eventType == "add_to_cart"
      queue: high
  partners:
    - name: crm
      endpoint: https://crm.example.com/events
      when: event.value > 10
      rateLimit: {requests: 10, window: 1}
      timeout: 2s
`, map[string]string{"SHOP_KEY_FILE": file})
	if err != nil {
		t.Fatal(err)
	}
	d := Of(c)
	if len(d.Sites) != 2 || d.Sites[0].PerDay() != 1_000_000 || d.Sites[1].PerDay() != 7 || d.Sites[0].Limit().PerSecond != 50 {
		t.Errorf("sites %+v", d.Sites)
	}
	if len(d.Partners) != 1 || d.Partners[0].When != "event.value > 10" || d.Partners[0].RateLimit.Requests != 10 {
		t.Errorf("partners %+v", d.Partners)
	}
	keys, err := d.SiteKeys(&d.Sites[0])
	if err != nil || len(keys) != 3 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	secret, _ := c.Secret("SHOP_KEY")
	if keys[1] != project.HashOf(secret) || secret.Reveal() != "from-a-file" {
		t.Error("the key of a file is not what stands there")
	}
}

func TestMistakesInSitesAndPartners(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown name", "sites:\n    - {id: shop, colour: red}", "tidemill.yaml:3"},
		{"no list", "sites: shop", "want a list of groups of settings"},
		{"an id", "sites:\n    - {id: a b}", "A-Z a-z 0-9"},
		{"twice", "sites:\n    - {id: a}\n    - {id: a}", "twice"},
		{"a plan", "sites:\n    - {id: a, plan: gold}", "free, pro and enterprise"},
		{"an origin without a scheme", "sites:\n    - {id: a, origins: [shop.example]}", `"shop.example" is none that a browser sends`},
		{"an origin with a path", "sites:\n    - {id: a, origins: ['*', 'https://shop.example/']}", "with no path"},
		{"consent", "sites:\n    - {id: a, consent: perhaps}", "neither send nor skip"},
		{"a variable that is not set", "sites:\n    - {id: a, keys_env: [NOWHERE]}", "NOWHERE_FILE"},
		{"a hash", "sites:\n    - {id: a, keys_sha256: [abc]}", "64 hexadecimal"},
		{"a queue", "queues:\n    - {when: 'true', queue: middle}", "none of high"},
		{"a rule", "queues:\n    - {when: 'event.eventTyp', queue: low}", "eventTyp"},
		{"a partner's name", "partners:\n    - {nam: x}", "tidemill.yaml:3"},
		{"workers", "workers: 0", "delivery.workers"},
		{"one key of two sites", "sites:\n    - {id: a, keys: [canary]}\n    - {id: b, keys: [canary]}", `sites "a" and "b" have the same key`},
		{"a rule that is no condition", "queues:\n    - {when: '1+1', queue: low}", "expected bool"},
		{"a fraction of a request", "partners:\n    - {name: x, endpoint: y, rateLimit: {requests: 0.9}}", "tidemill.yaml:3: delivery.partners[0].rateLimit.requests: want a whole number"},
		{"a fraction of a retry", "partners:\n    - {name: x, endpoint: y, maxRetries: 1.5}", "delivery.partners[0].maxRetries: want a whole number"},
		{"a text as a number", "sites:\n    - {id: a, daily: canary}", "delivery.sites[0].daily: want a whole number"},
		{"an address of BullMQ without a scheme", "bullmq: {url: 'queue:6379'}", "delivery.bullmq.url (from "},
		{"a rate that is none", "sites:\n    - {id: a, per_second: NaN}", "site a: limit"},
		{"a rate that is too little", "sites:\n    - {id: a, per_second: 1e-7}", "site a: limit"},
		{"too many a day", "sites:\n    - {id: a, daily: 99999999999999999999}", "delivery.sites[0].daily: want a whole number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "delivery:\n  "+c.text+"\n", nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestAKeyInTheFileIsNotShown(t *testing.T) {
	c, err := load(t, "delivery:\n  sites:\n    - {id: a, keys: [canary]}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil || strings.Contains(b.String(), "canary") {
		t.Errorf("%v, shown: %s", err, b.String())
	}
	if _, err := load(t, "delivery:\n  sites:\n    - {id: a, keys: {canary: 1}}\n", nil); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
}

func TestTheRedisOfDelivery(t *testing.T) {
	for _, c := range []struct {
		vars map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"REDIS_HOST": "r"}, "redis://r:6379"},
		{map[string]string{"REDIS_HOST": "r", "REDIS_PORT": "7000", "REDIS_PASSWORD": "a b", "REDIS_TLS": "true"}, "rediss://:a%20b@r:7000"},
		{map[string]string{"REDIS_HOST": "r", "REDIS_URL": "redis://other:1"}, "redis://other:1"},
	} {
		l, err := load(t, "", c.vars)
		if err != nil || string(Of(l).Redis()) != c.want {
			t.Errorf("%v: %q, %v; want %q", c.vars, string(Of(l).Redis()), err, c.want)
		}
	}
}

func TestPartnersThatCannotStart(t *testing.T) {
	c, err := load(t, `
redis: {url: "redis://r:6379"}
projects:
  - {name: blog, key: a-long-random-ingest-key}
delivery:
  shards: 4
  max_workers: 5
  sites:
    - {id: shop, keys: [shop-key]}
  partners:
    - {name: right, endpoint: "https://crm.example.com/events", when: event.value > 10, sites: [shop, blog], auth: {type: bearer, credentials: CRM_TOKEN}}
    - {name: right, endpoint: "https://crm.example.com/events"}
    - {name: typo, endpoint: "https://crm.example.com/events", when: event.vale > 10}
    - {name: secretless, endpoint: "https://crm.example.com/events", auth: {type: bearer, credentials: NO_TOKEN}}
    - {name: plain, endpoint: "http://crm.example.com/events"}
    - {name: nowhere, endpoint: "https://crm.example.com/events", sites: [shopp]}
    - {name: half, preset: dv360}
    - {name: number, endpoint: "https://crm.example.com/events", when: 1+1}
    - {name: hasty, endpoint: "https://crm.example.com/events", timeout: 5ns}
    - {name: inorder, endpoint: "https://crm.example.com/events", ordered: true}
`, map[string]string{"CRM_TOKEN": "canary"})
	if err != nil {
		t.Fatal(err)
	}
	err = Of(c).CheckPartners()
	if err == nil {
		t.Fatal("nothing is said")
	}
	for _, want := range []string{"delivery.partners: partner right: it is there twice", "partner typo: when: expression `event.vale > 10`: unknown field vale",
		"partner secretless: the variable NO_TOKEN is not set", "partner plain: endpoint: ", `partner nowhere: sites: there is no site "shopp"`, "partner half: ",
		"delivery.max_workers: 5", "partner number: when: ", "partner hasty: timeout 5ns is not between 10ms and 10m", "partner inorder: ordered needs a single shard, and delivery.shards is 4"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 9 || strings.Contains(err.Error(), "canary") {
		t.Errorf("%d lines:\n%v", n+1, err)
	}
	Of(c).Partners, Of(c).MaxWorkers = Of(c).Partners[:1], 100
	if err := Of(c).CheckPartners(); err != nil {
		t.Error(err)
	}
	if _, err := load(t, "delivery: {key_life: 1s}", nil); err == nil || !strings.Contains(err.Error(), "delivery.key_life") {
		t.Errorf("keys for a second: %v", err)
	}
}

// Days are a part of every duration: in the file, in its lists, and in the environment.
func TestDaysAreDurations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(file, []byte("delivery:\n  sent_life: 7d\n  partners:\n    - {name: p, endpoint: 'https://p.example/', breaker: {open: 1d12h}, timeout: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := schema.Load(config.Layers{File: file, Getenv: func(name string) string { return map[string]string{"TIDEMILL_DELIVERY_KEPT_FOR": "2d"}[name] }})
	if err != nil {
		t.Fatal(err)
	}
	if Of(c).SentLife != 7*24*time.Hour || Of(c).KeptFor != 48*time.Hour || Of(c).Partners[0].Breaker.Open != 36*time.Hour {
		t.Errorf("%v, %v, %v", Of(c).SentLife, Of(c).KeptFor, Of(c).Partners[0].Breaker.Open)
	}
}

func TestTheAddressOfATokenIsShownWithoutItsQuery(t *testing.T) {
	c, err := load(t, `delivery:
  partners:
    - {name: p, endpoint: "https://x.example/e?key=canary-1", auth: {type: oauth2, grant: client_credentials, tokenUrl: "https://me:canary-2@x.example/t?key=canary-3", credentials: P}}
`, map[string]string{"P": `{"client_id": "a", "client_secret": "canary-4"}`})
	if c == nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil || strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "https://x.example/t") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
