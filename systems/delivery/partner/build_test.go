package partner_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/delivery/partner"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

func TestBuildRefusesNonsense(t *testing.T) {
	secretText := "top-secret-value"
	env := variables{"TOKEN": secretText, "BLANK": " ", "LINES": secretText + "\nX: y", "NUL": secretText + "\x00"}
	one := 1
	for _, c := range []struct {
		name string
		p    partner.Partner
		want string
	}{
		{"no name", partner.Partner{Endpoint: "https://example.com"}, `the name ""`},
		{"a name with a dot", partner.Partner{Name: "a.b", Endpoint: "https://example.com"}, `the name "a.b"`},
		{"no endpoint", partner.Partner{Name: "a"}, "no endpoint"},
		{"an unknown preset", partner.Partner{Name: "a", Preset: "nobody"}, "want one of amazon, dv360, generic, tradedesk, webhook, yahoo"},
		{"a preset by path", partner.Partner{Name: "a", Preset: "../presets/dv360"}, "want one of"},
		{"http", partner.Partner{Name: "a", Endpoint: "http://example.com"}, "not https"},
		{"loopback", partner.Partner{Name: "a", Endpoint: "https://127.0.0.1"}, "blocked_target"},
		{"user information", partner.Partner{Name: "a", Endpoint: "https://u:top-secret-value@example.com"}, "user information"},
		{"a missing setting", partner.Partner{Name: "a", Endpoint: "https://example.com/{pixel}"}, "settings.pixel is missing"},
		{"a missing setting in a header", partner.Partner{Name: "a", Endpoint: "https://example.com", Headers: map[string]string{"A": "{x}"}}, "settings.x is missing"},
		{"a bad network", partner.Partner{Name: "a", Endpoint: "https://example.com", AllowPrivate: []string{"10.0.0.1"}}, "allowPrivate"},
		{"a negative limit", partner.Partner{Name: "a", Endpoint: "https://example.com", RateLimit: partner.RateLimit{Requests: -1}}, "rateLimit"},
		{"more than a queue hands out", partner.Partner{Name: "a", Endpoint: "https://example.com", RateLimit: partner.RateLimit{Requests: 20_000}, Batch: partner.Batch{Items: 100, Head: "[", Tail: "]"}}, "a second"},
		{"less than a queue hands out", partner.Partner{Name: "a", Endpoint: "https://example.com", RateLimit: partner.RateLimit{Requests: 1, Window: 100_000_000}}, "too little"},
		{"a breaker's rate that is no number", partner.Partner{Name: "a", Endpoint: "https://example.com", Breaker: partner.Breaker{Rate: math.NaN()}}, "rate NaN"},
		{"a jitter that is no number", partner.Partner{Name: "a", Endpoint: "https://example.com", Waits: partner.Waits{Jitter: math.NaN()}}, "spread NaN"},
		{"a first wait above the longest", partner.Partner{Name: "a", Endpoint: "https://example.com", Waits: partner.Waits{Base: 5 * time.Minute}}, "base 5m0s is longer than max 1m4s"},
		{"a long time-out", partner.Partner{Name: "a", Endpoint: "https://example.com", Timeout: time.Hour}, "timeout"},
		{"many without an envelope", partner.Partner{Name: "a", Endpoint: "https://example.com", Batch: partner.Batch{Items: 2}}, "envelope"},
		{"results without a list", partner.Partner{Name: "a", Endpoint: "https://example.com", Items: partner.Items{Failed: "true"}}, "no list"},
		{"an id without dedup", partner.Partner{Name: "a", Endpoint: "https://example.com", Items: partner.Items{List: "body", ID: "item", Failed: "true"}}, "needs dedup"},
		{"dedup that is not mapped", partner.Partner{Name: "a", Endpoint: "https://example.com", Dedup: "x", Mapping: []partner.Field{{Field: "y", Value: "1"}}}, `no field "x"`},
		{"a field twice", partner.Partner{Name: "a", Endpoint: "https://example.com", Mapping: []partner.Field{{Field: "y", Value: "1"}, {Field: "y", Value: "2"}}}, "twice"},
		{"a field in a field", partner.Partner{Name: "a", Endpoint: "https://example.com", Mapping: []partner.Field{{Field: "y", Value: "1"}, {Field: "y.z", Value: "2"}}}, "no object"},
		{"an empty name", partner.Partner{Name: "a", Endpoint: "https://example.com", Mapping: []partner.Field{{Field: "y.", Value: "1"}}}, "empty name"},
		{"an unknown auth", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "magic"}}, `type "magic"`},
		{"no variable", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "bearer"}}, "credentials does not name"},
		{"a missing secret", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "bearer", Credentials: "API_KEY_A"}}, "the variable API_KEY_A is not set"},
		{"a blank secret", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "bearer", Credentials: "BLANK"}}, "the variable BLANK"},
		{"a secret of several lines", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "apikey", Credentials: "LINES"}}, "the variable LINES"},
		{"a secret with NUL", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "bearer", Credentials: "NUL"}}, "the variable NUL"},
		{"oauth2 without JSON", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "oauth2", Grant: "refresh_token", Credentials: "TOKEN"}}, "the variable TOKEN is not JSON"},
		{"a service account without JSON", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "oauth2", Grant: "service_account", Credentials: "TOKEN"}}, "the variable TOKEN"},
		{"webhook without whsec_", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "webhook", Credentials: "TOKEN"}}, "whsec_"},
		{"mtls without a path", partner.Partner{Name: "a", Endpoint: "https://example.com", Auth: partner.Auth{Type: "mtls"}}, "the variable PARTNER_CERT_PATH is not set"},
		{"site_hash without a salt", partner.Partner{Name: "a", Endpoint: "https://example.com", Mapping: []partner.Field{{Field: "y", Value: "site_hash(event.userId)"}}}, "the variable PII_SALT is not set"},
		{"dv360 without a secret", partner.Partner{Name: "dv360", Preset: "dv360", Settings: map[string]string{"customerId": "1", "floodlightActivityId": "2", "floodlightConfigurationId": "3"}}, "the variable API_KEY_DV360 is not set"},
		{"dv360 without settings", partner.Partner{Name: "dv360", Preset: "dv360"}, "settings.customerId is missing"},
		{"tradedesk without a tag", partner.Partner{Name: "t", Preset: "tradedesk", Settings: map[string]string{"advertiserId": "1"}}, "settings.trackingTag or settings.universalPixelId is missing"},
		{"a header line", partner.Partner{Name: "a", Endpoint: "https://example.com", MaxRetries: &one, Settings: map[string]string{"x": "a\r\nb"}, Headers: map[string]string{"A": "{x}"}}, "header"},
	} {
		b, err := c.p.Build(partner.Env{Secret: env.secret})
		if err == nil {
			b.Close()
			t.Errorf("%s is taken", c.name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "partner "+c.p.Name) {
			t.Errorf("%s: %v, want something with %q", c.name, err, c.want)
		}
		if strings.Contains(err.Error(), secretText) {
			t.Errorf("%s: %v shows a secret", c.name, err)
		}
	}
}

func TestWhatIsSetReplacesThePreset(t *testing.T) {
	no, none := false, 0
	server := partnertest.TradeDesk(t)
	p := local(partner.Partner{Name: "ttd", Preset: "tradedesk", Idempotent: &no, MaxRetries: &none, RateLimit: partner.RateLimit{Requests: 60, Window: 60},
		Settings: map[string]string{"advertiserId": "adv1", "trackingTag": "trk1"},
		Mapping:  []partner.Field{{Field: "td1", Value: "id"}, {Field: "value", Value: `"1.5"`}, {Field: "items"}}}, server, "/track/realtimeconversion")
	b := build(t, p, server, variables{"API_KEY_TRADEDESK": "ttd-key"})
	if err := b.Sink.Write(t.Context(), []*tidemill.Message{event("1", "")}); err != nil {
		t.Fatal(err)
	}
	r := server.Requests()[0]
	if body := string(r.Body); r.Header.Get("TTD-Auth") != "ttd-key" || !strings.Contains(body, `"tracker_id":"trk1"`) || !strings.Contains(body, `"value":"1.5"`) ||
		!strings.Contains(body, `"td1":"job-1"`) || strings.Contains(body, "items") || strings.Contains(body, "upixel_id") {
		t.Errorf("sent %v %s", r.Header, r.Body)
	}
	if b.Retry.Tries != 0 || b.Limiter != (policy.Limiter{Rate: 55. / 60, Burst: 6}) || b.Items != 1 || b.Idempotent {
		t.Errorf("built %+v", b)
	}
	standard := partner.Partner{Name: "a"}
	if standard.Retry() != policy.Partner || standard.Limiter() != (policy.Limiter{}) {
		t.Error("defaults differ from the design's")
	}
}

func TestDescriptionsInYAML(t *testing.T) {
	p, err := partner.Parse([]byte(`
name: acme
endpoint: https://acme.example/{account}/events
auth: {type: bearer, credentials: API_KEY_ACME}
settings: {account: "17"}
rateLimit: {requests: 100, window: 60}
timeout: 5s
maxRetries: 3
mapping:
  - {field: user.email, value: email_hash(event.properties?.email)}
success: body.ok == true
`))
	if err != nil || p.Timeout != 5*time.Second || *p.MaxRetries != 3 || p.Auth.Credentials != "API_KEY_ACME" || p.RateLimit.Window != 60 {
		t.Fatalf("%+v, %v", p, err)
	}
	b, err := p.Build(partner.Env{Secret: variables{"API_KEY_ACME": "k"}.secret})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	for _, text := range []string{"nme: a", "name: [", "auth: {token: x}", "timeout: soon"} {
		if _, err := partner.Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, name := range partner.Presets() {
		if _, err := partner.Preset(name); err != nil {
			t.Error(err)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	a := partnertest.NewAuthority(t)
	server := partnertest.WithTLS(t, a.Server(true), partnertest.Accept)
	cert, key := a.ClientFiles()
	p := partner.Partner{Name: "bank", Endpoint: server.URL, AllowPrivate: loopback, Auth: partner.Auth{Type: "mtls"}}
	b, err := p.Build(partner.Env{Roots: a.Roots(), Secret: variables{"PARTNER_CERT_PATH": cert, "PARTNER_KEY_PATH": key}.secret})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Sink.Write(t.Context(), []*tidemill.Message{event("1", "")}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Clean(key), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Build(partner.Env{Secret: variables{"PARTNER_CERT_PATH": cert, "PARTNER_KEY_PATH": key}.secret}); err == nil || !strings.Contains(err.Error(), "PARTNER_KEY_PATH") {
		t.Error(err)
	}
}

func TestWaits(t *testing.T) {
	two := 2
	p := partner.Partner{MaxRetries: &two, Waits: partner.Waits{Base: 10 * time.Second, Max: 15 * time.Second}}
	r := p.Retry()
	for before, want := range []time.Duration{10 * time.Second, 15 * time.Second} {
		if got, again := r.Next(before, .5); got != want || !again {
			t.Errorf("wait %d: %v, %v, want %v", before, got, again, want)
		}
	}
	if _, again := r.Next(2, .5); again {
		t.Error("a third retry")
	}
	if d, _ := (partner.Partner{}).Retry().Next(6, 0); d != 48*time.Second {
		t.Errorf("the seventh wait is %v at the least, want 48 s", d)
	}
}
