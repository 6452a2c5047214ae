//go:build servers

package attack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
)

// secretFile is a configuration with a secret wherever one can be: ${a place} stands for the
// canary of that place.
const secretFile = `
log: {level: trace}
log_files: {folder: ${=logs}}
projects:
  - {name: default, key: ${key of a project}}
console:
  oidc:
    - {name: corp, issuer: 'http://${=parrot}/corp', client_id: tidemill, client_secret: '${client of a provider}', roles: {staff: viewer}}
    - {name: home, issuer: 'http://${=parrot}/home', client_id: tidemill, client_secret_env: OIDC_HOME, roles: {staff: viewer}}
telemetry: {endpoint: 'http://${=parrot}/to/otlp/${path of a collector}', headers: 'X-Own=${header of a collector}', sample: 1, metrics: 1s}
analytics:
  geoip: {url: 'http://user:${password of geoip.url}@${=parrot}/db/token/${path of geoip.url}?license_key=${query of geoip.url}', allow_private: 127.0.0.0/8}
delivery:
  sites:
    - {id: shop, keys: [${key of a site}], keys_env: [SITE_KEY]}
  partners:
    - {name: plain, endpoint: 'http://${=parrot}/to/webhook/${path of a partner}?sig=${query of a partner}', headers: {X-Own: ${header of a partner}}, settings: {apiToken: ${setting of a partner}}, <<: more}
    - {name: bearer, endpoint: 'http://${=parrot}/to/1', auth: {type: bearer, credentials: P_BEARER}, <<: more}
    - {name: basic, endpoint: 'http://${=parrot}/to/2', auth: {type: basic, user: u, credentials: P_BASIC}, <<: more}
    - {name: header, endpoint: 'http://${=parrot}/to/3', auth: {type: apikey, credentials: P_KEY}, <<: more}
    - {name: query, endpoint: 'http://${=parrot}/to/4', auth: {type: apikey, query: k, credentials: P_QUERY}, <<: more}
    - {name: hmac, endpoint: 'http://${=parrot}/to/5', auth: {type: hmac, credentials: P_HMAC}, <<: more}
    - {name: signed, endpoint: 'http://${=parrot}/to/6', auth: {type: webhook, credentials: P_SIGN}, <<: more}
    - {name: refused, endpoint: 'http://${=parrot}/to/7', auth: {type: oauth2, grant: client_credentials, tokenUrl: 'http://${=parrot}/t?key=${query of a tokenUrl}', credentials: P_CLIENT}, <<: more}
    - {name: refresh, endpoint: 'http://${=parrot}/to/8', auth: {type: oauth2, grant: refresh_token, tokenUrl: 'http://${=parrot}/t', credentials: P_REFRESH}, <<: more}
    - {name: token, endpoint: 'http://${=parrot}/to/9', auth: {type: oauth2, grant: client_credentials, tokenUrl: 'http://${=parrot}/t?gives=${token that an OAuth server gave}', credentials: P_KNOWN}, <<: more}
crm:
  backoff: 10ms
  tenants:
    - {id: club, keys: [${key of a tenant}], keys_env: [CLUB_KEY]}
  handlers:
    - name: app
      types: ["*"]
      endpoint:
        url: 'http://${=parrot}/hook/${path of an endpoint}?token=${query of an endpoint}'
        secrets: ["${=whsec secret of an endpoint}"]
        secrets_env: [CRM_SIGN]
        headers: {X-Own: ${header of an endpoint}}
        headers_env: {Authorization: CRM_AUTH}
        allowHttp: true
        allowPrivate: [127.0.0.0/8]
windows:
  files: {url: 'http://${=parrot}/lists/key/${path of files.url}?k=${query of files.url}', http: true, allow_private: 127.0.0.0/8}
  processors:
    - name: ask
      on_error: dead
      http: {url: 'http://${=parrot}/to/hook/${path of a processor}?token=${query of a processor}', headers: {X-Own: ${header of a processor}}, headers_env: {Authorization: PROCESSOR_AUTH}, allowHttp: true, allowPrivate: [127.0.0.0/8]}
`

// secretEnvironment are the variables of a process with that file.
var secretEnvironment = map[string]string{
	"TIDEMILL_TOKEN": "${token of the API}", "SITE_KEY": "${key of a site in a variable}", "CLUB_KEY": "${key of a tenant in a variable}",
	"P_BEARER": "${bearer of a partner}", "P_BASIC": "${password of a partner}", "P_KEY": "${key of a partner}", "P_QUERY": "${key of a partner in its URL}",
	"P_HMAC": "${hmac of a partner}", "P_SIGN": "${=whsec signature of a partner}",
	"P_CLIENT":  `{"client_id":"me","client_secret":"${client of a partner}"}`,
	"P_REFRESH": `{"client_id":"me","client_secret":"${client that refreshes}","refresh_token":"${refresh token of a partner}"}`,
	"P_KNOWN":   `{"client_id":"me","client_secret":"${client that is known}"}`,
	"OIDC_HOME": "${client of a provider in a variable}",
	"CRM_SIGN":  "${=whsec signature of an endpoint in a variable}", "CRM_AUTH": "Bearer ${authorization of an endpoint}", "PROCESSOR_AUTH": "Bearer ${authorization of a processor}",
	"TIDEMILL_BRIDGE_BROKER_LISTEN": "127.0.0.1:0",
	"TIDEMILL_BRIDGE_BROKER_USER":   "device", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "${password of the broker}",
	"TIDEMILL_BRIDGE_BROKER_ADMIN_USER": "boss", "TIDEMILL_BRIDGE_BROKER_ADMIN_PASSWORD": "${password of the broker's administrator}",
}

// sentSecrets are shown to partners and their like; that the parrot heard them says that they
// were in use.
var sentSecrets = []string{"bearer of a partner", "password of a partner", "key of a partner", "key of a partner in its URL", "path of a partner", "query of a partner", "header of a partner",
	"query of a tokenUrl", "client of a partner", "client that refreshes", "refresh token of a partner", "client that is known", "token that an OAuth server gave",
	"path of an endpoint", "query of an endpoint", "header of an endpoint", "authorization of an endpoint",
	"password of geoip.url", "path of geoip.url", "query of geoip.url", "path of files.url", "query of files.url",
	"path of a processor", "query of a processor", "header of a processor", "authorization of a processor",
	"client of a provider", "client of a provider in a variable", "path of a collector", "header of a collector"}

// spy is an instance with secrets everywhere, and who reads all that it shows.
type spy struct {
	*target
	*canaries
	parrot *parrot
	folder string // with its file
	byName map[string]string
	env    []string
}

// fill puts the canaries of their places into a text.
func (s *spy) fill(text string) string {
	return os.Expand(strings.ReplaceAll(text, "<<: more", "maxRetries: 1, retry: {base: 10ms, max: 20ms}, allowHttp: true, allowPrivate: [127.0.0.0/8]"), func(place string) string {
		switch place {
		case "=parrot":
			return s.parrot.addr
		case "=logs":
			return filepath.Join(s.folder, "logs")
		}
		place, signs := strings.CutPrefix(place, "=whsec ")
		if s.byName[place] == "" {
			s.byName[place] = s.plant(place)
		}
		if signs {
			return "whsec_" + base64.StdEncoding.EncodeToString([]byte(s.byName[place]))
		}
		return s.byName[place]
	})
}

func newSpy(t *testing.T, more map[string]string) *spy {
	t.Helper()
	s := &spy{canaries: &canaries{t: t}, parrot: newParrot(t), folder: t.TempDir(), byName: map[string]string{}}
	if err := os.WriteFile(filepath.Join(s.folder, "tidemill.yaml"), []byte(s.fill(secretFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, all := range []map[string]string{secretEnvironment, more} {
		for name, value := range all {
			s.env = append(s.env, name+"="+s.fill(value))
		}
	}
	return s
}

// run begins the instance: all systems, in one process.
func (s *spy) run(t *testing.T) {
	t.Helper()
	in := process.New(t, []string{"analytics", "delivery", "crm", "windows", "bridge", "--config", filepath.Join(s.folder, "tidemill.yaml")}, s.env)
	s.target = &target{in, t, &http.Client{Timeout: patience}}
	in.Start()
}

// TestSecretsAreShownNowhere plants a secret in each place that can have one, has everything fail
// that can fail at servers that repeat what they are sent, and reads all that the binary shows.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	s := newSpy(t, nil)
	s.run(t)
	s.live(t)
	s.loggedIn(t)
	s.asked(t)
	s.told(t)
	s.dumped(t)
	s.hiddenIn(s.Dir)
	s.hiddenIn(filepath.Join(s.folder, "logs"))
	heard, _ := s.parrot.said()
	used := s.in(heard)
	for _, place := range sentSecrets {
		if !slices.Contains(used, place) {
			t.Errorf("the secret of %s was never sent: nothing is known of it", place)
		}
	}
}

// live sends something by each system, and waits until it has failed.
func (s *spy) live(t *testing.T) {
	t.Helper()
	key := func(place string) tenant { return tenant{"default", s.byName[place]} }
	for path, body := range map[string]string{
		"/batch/":            `{"api_key":"` + s.byName["key of a project"] + `","batch":[{"event":"seen","distinct_id":"ann"}]}`,
		"/v1/events":         `{"eventType":"page_view","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"0190f3c2-0000-7000-8000-000000000001","context":{"page":{"url":"https://shop.example/"}}}`,
		"/v1/crm/events":     `{"id":"e1","type":"order.paid","tenantId":"club","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z","payload":{}}`,
		"/v1/windows/events": `{"globalEventId": 1, "day": 20260115, "eventCode": "141"}`,
	} {
		who := map[string]string{"/v1/events": "key of a site", "/v1/crm/events": "key of a tenant"}[path]
		if who == "" {
			who = "key of a project"
		}
		status, said := s.post(key(who), path, []byte(body), "X-Batch-ID: 20260115100000", "X-Idempotency-Key: one", "Cookie: session="+s.plant("a cookie"))
		if status >= 300 {
			t.Fatalf("%s answers %d: %s", path, status, said)
		}
		s.hidden(path, said)
	}
	s.Ask("window", "close", "20260115100000")
	s.until("all has failed", func() bool {
		dead := map[string]bool{}                                       // of eight partners, an endpoint, a processor; two partners wait for a token
		for _, system := range []string{"delivery", "crm", "windows"} { // which share a store, or do not
			for line := range strings.Lines(string(s.Ask("dead", "list", "--system", system, "--json"))) {
				dead[line] = true
			}
		}
		return len(dead) >= 10
	})
}

// loggedIn logs in at each provider, which refuses the client that asks for the token.
func (s *spy) loggedIn(t *testing.T) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	visit := func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		said, _ := httputil.DumpResponse(a, true)
		s.hidden(path, said)
		return a
	}
	for _, name := range []string{"corp", "home"} {
		to, err := visit("/console/login/" + name).Location()
		if err != nil {
			t.Fatalf("%s: nobody is sent to it: %v", name, err)
		}
		back := url.Values{"code": {"one"}, "state": {to.Query().Get("state")}}
		visit("/console/login/" + name + "/back?" + back.Encode())
	}
}

// asked makes each endpoint refuse, in each way that a key can come, and asks each path of the API.
func (s *spy) asked(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/batch/", "/e/", "/i/v0/e/", "/flags/", "/v1/track", "/v1/batch", "/v1/events", "/collect", "/s2s/convert", "/v1/crm/events", "/v1/windows/events", "/v1/windows/files", "/v1/none"} {
		for _, place := range []string{"key of a project", "key of a site", "key of a tenant", "a wrong key at " + path} {
			secret := s.fill("${" + place + "}")
			for _, body := range []string{"{", `{"api_key":"` + secret + `","batch":[{"event":1}]}`} {
				_, said := s.post(tenant{"", secret}, path+"?token="+secret, []byte(body), "X-Idempotency-Key: "+s.plant("an idempotency key"), "Referer: https://x.example/?"+secret)
				s.hidden("a refusal of "+path, said)
			}
			basic := base64.StdEncoding.EncodeToString([]byte(secret + ":"))
			_, said := s.post(tenant{"", ""}, path, []byte(`[]`), "Authorization: Basic "+basic)
			s.hidden("a refusal of "+path, said)
		}
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/health", "/ready", "/healthz", "/actuator/health", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/api/v1/none"} {
		for _, token := range []string{s.Token(), s.plant("a wrong token of " + path)} {
			_, said := s.get(path, "Authorization: Bearer "+token)
			s.hidden(path, said)
		}
	}
	_, described := s.get("/api/v1/openapi.json", "Authorization: Bearer "+s.Token())
	s.hidden("the description of the API", described)
	var api struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(described, &api); err != nil || len(api.Paths) < 30 {
		t.Fatalf("the API has %d paths: %v", len(api.Paths), err)
	}
	names := map[string]string{"letter": "0190f3c2-0000-7000-8000-000000000001%2Fbearer", "id": "0190f3c2-0000-7000-8000-000000000001", "site": "shop", "name": "s2s.bearer", "batch": "20260115100000"}
	for _, method := range []string{"get", "post"} { // which may pause and delete
		for _, pattern := range slices.Sorted(maps.Keys(api.Paths)) {
			if api.Paths[pattern][method] == nil {
				continue
			}
			path := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(pattern, func(p string) string { return or(names[strings.Trim(p, "{}")], "1") })
			for _, query := range []string{"", "?project=default", "?project=default&distinct_id=ann"} {
				r, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), "http://"+s.Addr+path+query, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, said := s.do(r, "Authorization: Bearer "+s.Token())
				s.hidden(method+" "+path, said)
			}
		}
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// told runs each command that shows something, also with a configuration that is wrong everywhere.
func (s *spy) told(t *testing.T) {
	t.Helper()
	good := filepath.Join(s.folder, "tidemill.yaml")
	wrong := filepath.Join(s.folder, "wrong.yaml")
	text := strings.NewReplacer("http://", "htp://", "name: default", "name: 'de fault'", "types:", "typs:", "whsec_", "whsec-", "127.0.0.0/8", "there").Replace(s.fill(secretFile))
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"config show --config " + good, "config show --json --config " + good, "config check --config " + good, "config check --config " + wrong, "config show --config " + wrong, "run --config " + wrong,
		"config reference", "init x.yaml", "doctor", "doctor --json", "status", "status --json", "audit", "audit --json", "events --json", "events", "warnings", "dead list", "dead list --json", "dead export",
		"dead show 0190f3c2-0000-7000-8000-000000000001/bearer", "dead show 0190f3c2-0000-7000-8000-000000000001/query --json", "event show 0190f3c2-0000-7000-8000-000000000001", "event show 0190f3c2-0000-7000-8000-000000000001 --json",
		"queue list", "queue stats s2s.plain", "queue jobs s2s.plain --json", "queue show s2s.plain 0190f3c2-0000-7000-8000-000000000001", "partner list", "partner list --json", "crm status", "synclog list", "synclog list --json", "synclog show e1",
		"window list", "window status", "window files", "window files --json", "window show 20260115100000", "replay status", "person show ann", "search x", "--help", "run --help", "version", "nonsense", "run --nonsense",
		"status --token " + s.plant("a token that the CLI is given"), "send none.ndjson --token " + s.plant("another token"), "run --project x=" + s.plant("a short key on the command line")[:9] + " --listen 0.0.0.0:0",
	} {
		s.hidden("tidemill "+line, s.say(t, strings.Fields(line)...))
	}
}

// say is all that a command prints, with the instance's environment.
func (s *spy) say(t *testing.T, args ...string) []byte {
	t.Helper()
	binary, err := process.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env = s.folder, append(append(os.Environ(), s.env...), "TIDEMILL_SERVER=http://"+s.Addr)
	said, err := cmd.CombinedOutput()
	if exit, ended := err.(*exec.ExitError); err != nil && !ended || ended && exit.ExitCode() > 2 {
		t.Errorf("tidemill %v: %v\n%s", args, err, said)
	}
	return said
}

// dumped ends the process with the dump of all its goroutines.
func (s *spy) dumped(t *testing.T) {
	t.Helper()
	s.Signal(syscall.SIGQUIT)
	if err := s.Wait(patience); err == nil || !strings.Contains(s.Log(), "goroutine ") {
		t.Errorf("no dump of goroutines (%v):\n%s", err, s.Log())
	}
	s.hidden("the log", []byte(s.Log()))
}

// refusedServers are the settings of servers, each with the system that uses it.
var refusedServers = []struct{ system, env string }{
	{"analytics", "TIDEMILL_REDIS_URL=redis://u:${redis.url}@${=parrot}/0"},
	{"analytics", "TIDEMILL_REDIS_URL=redis://u:${redis.url of a cluster}@${=parrot},${=parrot}?cluster=true"},
	{"analytics", "TIDEMILL_POSTGRES_URL=postgres://u:${postgres.url}@${=parrot}/db?sslmode=disable"},
	{"analytics", "TIDEMILL_CLICKHOUSE_URL=http://u:${clickhouse.url}@${=parrot}"},
	{"analytics", "TIDEMILL_CLICKHOUSE_URL=http://${=parrot} TIDEMILL_CLICKHOUSE_PASSWORD=${clickhouse.password}"},
	{"analytics", "TIDEMILL_KAFKA_BROKERS=kafka://u:${kafka.brokers}@${=parrot}"},
	{"crm", "TIDEMILL_CRM_REDIS_URL=redis://u:${crm.redis_url}@${=parrot}"},
	{"crm", "TIDEMILL_CRM_POSTGRES_URL=postgres://u:${crm.postgres_url}@${=parrot}/db?sslmode=disable"},
	{"crm", "TIDEMILL_CRM_BULLMQ_URL=redis://u:${crm.bullmq.url}@${=parrot}"},
	{"delivery", "REDIS_HOST=${=parrot host} REDIS_PORT=${=parrot port} REDIS_PASSWORD=${delivery.redis_password}"},
	{"delivery", "TIDEMILL_DELIVERY_BULLMQ_URL=redis://u:${delivery.bullmq.url}@${=parrot}"},
	{"bridge", "REDIS_ADDRESSES=${=parrot} REDIS_USERNAME=u REDIS_PASSWORD=${bridge.redis.password} MQTT_BROKERS=tcp://127.0.0.1:1"},
	{"bridge", "REDIS_ADDRESSES=${=redis} REDIS_STREAM=${=stream} MQTT_BROKERS=tcp://${=parrot} MQTT_USERNAME=u MQTT_PASSWORD=${bridge.mqtt.password}"},
	{"bridge", "REDIS_ADDRESSES=u:${bridge.redis.addresses}@127.0.0.1:1 MQTT_BROKERS=tcp://u:${bridge.mqtt.brokers}@127.0.0.1:1"}, // refused as a setting
	{"windows", "TIDEMILL_WINDOWS_KAFKA=kafka://u:${windows.kafka}@${=parrot}"},
	{"windows", "TIDEMILL_WINDOWS_REDIS_URL=redis://u:${windows.redis.url}@${=parrot}"},
	{"windows", "SPRING_DATA_REDIS_HOST=${=parrot host} SPRING_DATA_REDIS_PORT=${=parrot port} SPRING_DATA_REDIS_PASSWORD=${windows.redis.password}"},
	{"windows", "TIDEMILL_WINDOWS_SEARCH_URL=http://u:${windows.search.url}@${=parrot}"},
	{"windows", "TIDEMILL_WINDOWS_SEARCH_URL=http://${=parrot}?api_key=${windows.search.url by key}"},
}

// TestServersThatRefuseShowNoSecrets starts the binary with each server's secret at one that
// refuses it, and repeats it where its protocol allows. Whether it ends or goes on asking, it
// shows none.
func TestServersThatRefuseShowNoSecrets(t *testing.T) {
	t.Parallel()
	for i, c := range refusedServers {
		t.Run(fmt.Sprintf("%s %d", c.system, i), func(t *testing.T) {
			t.Parallel()
			s := &spy{canaries: &canaries{t: t}, parrot: newParrot(t), folder: t.TempDir(), byName: map[string]string{}}
			host, port, _ := strings.Cut(s.parrot.addr, ":")
			if strings.Contains(c.env, "${=redis}") { // that is well
				at, err := url.Parse(testenv.Redis(t))
				if err != nil {
					t.Fatal(err)
				}
				c.env = strings.NewReplacer("${=redis}", at.Host, "${=stream}", testenv.Name("s")).Replace(c.env)
			}
			for word := range strings.FieldsSeq(strings.NewReplacer("${=parrot host}", host, "${=parrot port}", port).Replace(strings.ReplaceAll(c.env, " of a cluster", ""))) {
				s.env = append(s.env, s.fill(word))
			}
			s.env = append(s.env, "TIDEMILL_LOG_LEVEL=trace", "TIDEMILL_TOKEN="+s.fill("${admin.key}"))
			in := process.New(t, []string{c.system, "--project", "default=default-key-0123456789"}, s.env)
			s.target = &target{in, t, &http.Client{Timeout: patience}}
			in.Begin()
			pid := in.PID()
			ended := func() bool { return syscall.Kill(pid, 0) != nil }
			s.until("it ends, or has asked again and again", func() bool {
				_, asked := s.parrot.said()
				return asked >= 5 || ended()
			})
			for _, line := range []string{"config show", "config check", "doctor"} {
				s.hidden("tidemill "+line, s.say(t, strings.Fields(line)...))
			}
			if !ended() {
				if resp, err := s.http.Get("http://" + s.Addr + "/metrics"); err == nil {
					said, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					s.hidden("the metrics", said)
				}
				_ = syscall.Kill(pid, syscall.SIGQUIT) // it may have ended meanwhile
			}
			_ = in.Wait(patience)
			s.hidden("the log", []byte(in.Log()))
			if _, asked := s.parrot.said(); asked == 0 && strings.Contains(c.env, "${=parrot") {
				t.Errorf("nobody asked the server; the log has\n%s", in.Log())
			}
		})
	}
}
