package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems"
)

// shopConfig has two partners with conditions, mappings, consent and a secret.
const shopConfig = `delivery:
  sites:
    - {id: shop, keys: [a-long-key-of-the-shop]}
    - {id: blog, keys: [a-long-key-of-the-blog], consent: skip}
  queues:
    - {when: event.eventType == "view_item", queue: high}
  partners:
    - name: ads
      endpoint: https://ads.example/v1/conversions
      when: event.eventType == "purchase"
      auth: {type: bearer, credentials: ADS_TOKEN}
      headers: {X-Account: "77"}
      mapping:
        - {field: order, value: event.orderId, required: true}
        - {field: amount.value, value: event.value}
    - name: log
      endpoint: https://log.example/
      vendor: "7"
`

const (
	boughtEvent = `{"eventType":"purchase","timestamp":"2026-11-21T10:00:00Z","siteId":"shop","eventId":"5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f1001","orderId":"o1","value":12.50,"currency":"EUR","items":[{"id":"a","price":12.50,"quantity":1}]}`
	viewedEvent = `{"eventType":"view_item","timestamp":"2026-11-21T10:00:00Z","siteId":"shop","eventId":"5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f1002"}`
	blogEvent   = `{"eventType":"custom_event","timestamp":"2026-11-21T10:00:00Z","siteId":"blog","eventId":"5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f1003"}`
	tcfEvent    = `{"eventType":"custom_event","timestamp":"2026-11-21T10:00:00Z","siteId":"shop","eventId":"5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f1004","consent":{"tcf":{"purposes":{"1":true,"7":true},"vendorConsent":{"7":true,"8":false}}}}`
)

func fileOf(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// change is one of a configuration, and what config diff says of it among other lines; want empty: that
// nothing is treated otherwise.
type change struct{ from, to, want string }

// differs makes each change of a configuration, and compares it with that before.
func differs(t *testing.T, before, lines string, all []change) {
	t.Helper()
	old, events := fileOf(t, "old.yaml", before), fileOf(t, "events.jsonl", lines)
	none := fmt.Sprintf("No event of %d would be treated otherwise.\n", 1+strings.Count(lines, "\n"))
	for _, c := range all {
		next := fileOf(t, "new.yaml", strings.Replace(before, c.from, c.to, 1))
		status, out, errs := call(t, nil, "config", "diff", old, next, "--events", events)
		got := strings.ReplaceAll(out, events+", ", "")
		if c.want == "" && (status != 0 || got != none) || c.want != "" && status != 1 {
			t.Errorf("%s: exit status %d, %s%s", c.to, status, got, errs)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.to, got, c.want)
		}
	}
}

// The differences of ten changes are found, each in the events that it concerns and in no other; and
// there are none of an equal configuration, however it is written.
func TestAConfigurationIsComparedByWhatItDoes(t *testing.T) {
	events := fileOf(t, "events.jsonl", strings.Join([]string{boughtEvent, viewedEvent, blogEvent, tcfEvent}, "\n"))
	old := fileOf(t, "old.yaml", shopConfig)
	for _, c := range []struct{ name, from, to, want string }{
		{"equal", "", "", ""},
		{"written otherwise", `headers: {X-Account: "77"}`, "headers:\n        X-Account: '77' # the same", ""},
		{"a condition", `"purchase"`, `"view_item"`, "line 1: partner ads: delivered, would be skipped: no_route\nline 2: partner ads: skipped: no_route, would be dead: mapping.order: expression `event.orderId` gives nothing, and the field is required"},
		{"a condition with a second part", `"purchase"`, `"purchase" && event.value > 20`, "line 1: partner ads: delivered, would be skipped: no_route"},
		{"a field of the mapping", "value: event.orderId,", `value: '"o-" + event.orderId',`, `line 1: partner ads, body.order: "o1", would be "o-o1"`},
		{"a field more", "mapping:\n", "mapping:\n        - {field: currency, value: event.currency}\n", `line 1: partner ads, body.currency: nothing, would be "EUR"`},
		{"a number", "value: event.value}", "value: event.value * 100}", "line 1: partner ads, body.amount.value: 12.5, would be 1250"},
		{"an address", "ads.example/v1", "ads.example/v2", `line 1: partner ads, url: "https://ads.example/v1/conversions", would be "https://ads.example/v2/conversions"`},
		{"a header", `"77"`, `"78"`, `line 1: partner ads, headers.X-Account: "77", would be "78"`},
		{"consent of a site", "consent: skip", "consent: send", "line 3: event: skipped: consent, would be delivered\nline 3: partner log: skipped: consent, would be delivered"},
		{"a vendor", `vendor: "7"`, `vendor: "8"`, "line 4: event: delivered, would be skipped: consent\nline 4: partner log: delivered, would be skipped: consent"},
		{"sites of a partner", `vendor: "7"`, `sites: [blog]`, "line 1: partner log: delivered, would be skipped: no_route\nline 2: event: delivered, would be skipped: no_route\nline 2: partner log: delivered, would be skipped: no_route\nline 4: event: delivered, would be skipped: no_route\nline 4: partner log: delivered, would be skipped: no_route"},
		{"a queue", "queue: high", "queue: low", `line 2: event, queue: "ingest.high", would be "ingest.low"`},
		{"a site that is gone", "    - {id: blog, keys: [a-long-key-of-the-blog], consent: skip}\n", "", `line 3: event: skipped: consent, would be refused: siteId: there is no site "blog"`},
		{"credentials that go", "      auth: {type: bearer, credentials: ADS_TOKEN}\n", "", "line 1: partner ads, signed: true, would be nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(shopConfig, c.from) {
				t.Fatal("there is no such text")
			}
			next := fileOf(t, "new.yaml", strings.Replace(shopConfig, c.from, c.to, 1))
			status, out, errs := call(t, nil, "config", "diff", old, next, "--events", events)
			lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(out, events+", ", "")), "\n")
			summary, got := lines[len(lines)-1], []string{}
			for _, line := range lines[:len(lines)-1] {
				if c.want == "" || !strings.HasSuffix(line, "would be nothing") || strings.Contains(c.want, line) { // what goes with a request that is no more
					got = append(got, line)
				}
			}
			wantStatus := 0
			if c.want != "" {
				wantStatus = 1
			}
			if status != wantStatus || strings.Join(got, "\n") != c.want || errs != "" {
				t.Errorf("exit status %d (want %d):\n%s\nwant\n%s\n%s", status, wantStatus, strings.Join(got, "\n"), c.want, errs)
			}
			if c.want == "" && summary != "No event of 4 would be treated otherwise." {
				t.Error(summary)
			}
		})
	}
}

func TestWhatIsDifferentAsJSON(t *testing.T) {
	old, next := fileOf(t, "old.yaml", shopConfig), fileOf(t, "new.yaml", strings.Replace(shopConfig, `"77"`, `"78"`, 1))
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"config", "diff", old, next, "--events", "-", "--json"}, command.Env{Table: systems.All(), In: strings.NewReader(boughtEvent + "\n" + viewedEvent), Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
	want := `{"place":"standard input, line 1","differences":[{"at":"partner ads","path":"headers.X-Account","old":"\"77\"","new":"\"78\""}]}
{"events":2,"changed":1}
`
	if status != 1 || out.String() != want {
		t.Errorf("exit status %d, %s, %s", status, &out, &errs)
	}
}

func TestConfigurationsThatCannotBeCompared(t *testing.T) {
	good := fileOf(t, "good.yaml", shopConfig)
	events := fileOf(t, "events.jsonl", boughtEvent+"\n{\n")
	both := fileOf(t, "both.yaml", shopConfig+"crm: {handlers: [{name: all, types: [a.*], attributes: [{attribute: a, from: type}]}]}\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{good, good, "--events", events}, "events.jsonl, line 2: it is not JSON"},
		{[]string{good, good, "--events", "nowhere.jsonl"}, "nowhere.jsonl"},
		{[]string{good, fileOf(t, "bad.yaml", "delivery: {worker: 1}"), "--events", events}, "bad.yaml:1: there is no setting delivery.worker"},
		{[]string{both, good, "--events", events}, "configures 2 systems: say with --system"},
		{[]string{good, good, "--events", fileOf(t, "one.jsonl", boughtEvent), "--with", "color=red"}, `there is no "color"; there is site, gpc, conversion`},
		{[]string{good, good, "--events", events, "--system", "nix"}, `there is no system "nix"`},
	} {
		status, out, errs := call(t, nil, append([]string{"config", "diff"}, c.args...)...)
		if status != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit status %d, %s, %s; want 2 and %q", c.args, status, out, errs, c.says)
		}
	}
}

// A case is recorded and holds, fails where the configuration decides otherwise, and shows no secret.
func TestCasesOfAConfiguration(t *testing.T) {
	cfg := fileOf(t, "tidemill.yaml", shopConfig)
	events := fileOf(t, "cases/bought/delivery.json", boughtEvent)
	folder := filepath.Dir(filepath.Dir(events))
	vars := map[string]string{"ADS_TOKEN": "canary-token"}
	test := func(want int, says string, more ...string) string {
		t.Helper()
		status, out, errs := call(t, vars, append([]string{"config", "test", folder, "--config", cfg}, more...)...)
		if status != want || !strings.Contains(out+errs, says) || strings.Contains(out+errs, "canary") {
			t.Fatalf("exit status %d, %s%s; want %d and %q", status, out, errs, want, says)
		}
		return out
	}
	test(1, "has no case.json")
	test(0, "1 cases are recorded.", "--record")
	vars = nil // a secret is not needed
	test(0, "1 of 1 cases are as expected.")
	path := filepath.Join(filepath.Dir(events), "case.json")
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), "canary") || !strings.Contains(string(b), `"signed": true`) || !strings.Contains(string(b), `"value": 12.5`) {
		t.Fatalf("%s %v", b, err)
	}
	rewrite := func(from, to string) {
		t.Helper()
		if !strings.Contains(string(b), from) {
			t.Fatalf("there is no %q in %s", from, b)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(`"value": 12.5`, `"value": 1.250e1`)
	test(0, "1 of 1 cases are as expected.")
	rewrite(`"value": 12.5`, `"value": 13`)
	test(1, "line 1: partner ads, body.amount.value: want 13, is 12.5\n0 of 1 cases are as expected.")
	rewrite(`"partner ads": "delivered"`, `"partner ads": "skipped: consent"`)
	test(1, "line 1: partner ads: want skipped: consent, is delivered")
	rewrite(`"partner ads": "delivered",`, ``)
	test(1, `it expects an output at "partner ads", and no end`)
	rewrite(`"events"`, `"evens"`)
	test(1, `case.json, line 3: there is no evens; there is at`)
	rewrite(`"events"`, `events`)
	test(1, "case.json, line 3: it is no JSON")
	rewrite(`"delivered"`, `7`)
	test(1, "case.json, line 6: /events/0/ends/event: want a string")
	rewrite(`"events"`, `"with": {"gpc": "true"}, "events"`)
	var told struct {
		Ok    bool
		Cases []struct {
			Case        string
			Differences []struct{ Place, At, Want, Is string }
		}
	}
	out := test(1, "", "--json")
	if err := json.Unmarshal([]byte(out), &told); err != nil || told.Ok || len(told.Cases) != 1 || told.Cases[0].Differences[0].Is != "skipped: consent" {
		t.Errorf("%s %v", out, err)
	}
	if err := os.WriteFile(path, []byte(`{"at":"2026-11-21T10:00:00Z","events":[{"ends":{"event":"delivered","partner ads":"delivered","partner log":"delivered"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	test(0, "1 of 1 cases are as expected.") // an output that is not given is not compared
	if err := os.WriteFile(events, []byte(boughtEvent+viewedEvent), 0o600); err != nil {
		t.Fatal(err)
	}
	test(1, "it expects what becomes of 1 events, and there are 2")
	if err := os.WriteFile(events, []byte(boughtEvent+"\n{"), 0o600); err != nil {
		t.Fatal(err)
	}
	test(1, "delivery.json, line 2: it is not JSON")
	if err := os.Remove(events); err != nil {
		t.Fatal(err)
	}
	test(1, "there is no file of events beside it")
}

// What a configuration would contact is looked at; what cannot be reached fails.
func TestServersAreContactedWhenAsked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := fileOf(t, "tidemill.yaml", shopConfig+"redis: {url: \"redis://"+address+"/\"}\n")
	vars := map[string]string{"ADS_TOKEN": "canary-token"}
	if status, out, errs := call(t, vars, "config", "check", "--config", cfg); status != 0 || !strings.Contains(out, "is right") {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
	status, out, errs := call(t, vars, "config", "check", "--config", cfg, "--contact")
	if status != 1 || !strings.Contains(out, "fail  system delivery: ") || !strings.Contains(out, address) || !strings.Contains(errs, "1 checks failed") {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
	status, out, _ = call(t, vars, "config", "check", "--config", cfg, "--contact", "--json")
	if status != 1 || !strings.Contains(out, `"ok":false`) || !strings.Contains(out, `"verdict":"fail"`) {
		t.Errorf("exit status %d, %s", status, out)
	}
	folder := t.TempDir()
	status, out, errs = call(t, vars, "config", "check", "--config", fileOf(t, "embedded.yaml", shopConfig), "--data", folder, "--contact")
	if left, err := os.ReadDir(folder); status != 0 || !strings.Contains(out, "ok    system delivery: it can be opened") || err != nil || len(left) != 0 {
		t.Errorf("exit status %d, %s%s, %v %v", status, out, errs, left, err)
	}
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Secrets that are not set have stand-ins where a configuration is only looked at, and nowhere else.
func TestSecretsThatAreNotSet(t *testing.T) {
	cfg := fileOf(t, "tidemill.yaml", strings.NewReplacer("keys: [a-long-key-of-the-shop]", "keys_env: [SHOP_KEY]", "keys: [a-long-key-of-the-blog]", "keys_env: [BLOG_KEY]").Replace(shopConfig))
	events := fileOf(t, "events.jsonl", boughtEvent)
	if status, out, errs := call(t, nil, "config", "diff", cfg, cfg, "--events", events); status != 0 {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
	if status, _, errs := call(t, nil, "config", "check", "--config", cfg); status != 1 || !strings.Contains(errs, "SHOP_KEY") || !strings.Contains(errs, "ADS_TOKEN") {
		t.Errorf("exit status %d, %s", status, errs)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
