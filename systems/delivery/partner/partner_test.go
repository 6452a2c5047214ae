package partner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery/partner"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// variables are an environment.
type variables map[string]string

func (v variables) secret(name string) (tidemill.Secret, bool) {
	s, ok := v[name]
	return tidemill.NewSecret(s), ok
}

var loopback = []string{"127.0.0.0/8"}

// local points a preset at a server of partnertest.
func local(p partner.Partner, s *partnertest.Server, path string) partner.Partner {
	p.AllowPrivate = loopback
	p.Endpoint = s.URL + path
	if p.Auth.Type == "" {
		p.Auth.TokenURL = s.URL + "/token"
	}
	return p
}

func build(t testing.TB, p partner.Partner, s *partnertest.Server, v variables) *partner.Built {
	t.Helper()
	b, err := p.Build(partner.Env{Secret: v.secret, Roots: s.Roots()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func event(id, more string) *tidemill.Message {
	return &tidemill.Message{ID: "job-" + id, Tenant: "shop", Payload: []byte(fmt.Sprintf(
		`{"eventType":"purchase","timestamp":"2026-01-15T10:00:00.123456Z","siteId":"shop","eventId":"ev-%s","orderId":"o-%s","value":129.90,"currency":"EUR",
		"items":[{"id":"sku-1","name":"Shoes","quantity":2,"price":64.95,"category":"shoes","brand":"x"}],
		"context":{"page":{"url":"https://shop.example.com/thanks"},"geo":{"country":"DE"}}%s}`, id, id, more))}
}

const user = `,"userId":"0000000000000000000000000000000000000000000000000000000000000001","properties":{"email":" Jane.Doe@Example.com ","phone":"0151 1234567"}`

// fake is a preset with a fake of its partner.
type fake struct {
	server  *partnertest.Server
	built   *partner.Built
	message func(id string) *tidemill.Message
	id      func(id string) string // as the partner knows it
}

// partners are the presets, each with a fake of its partner.
func partners() map[string]func(*testing.T) fake {
	full := func(id string) *tidemill.Message { return event(id, user) }
	byEvent := func(id string) string { return "ev-" + id }
	return map[string]func(*testing.T) fake{
		"dv360": func(t *testing.T) fake {
			s, account := partnertest.DV360(t)
			p := local(partner.Partner{Name: "dv360", Preset: "dv360", Settings: map[string]string{"advertiserId": "1", "customerId": "42",
				"floodlightActivityId": "77", "floodlightConfigurationId": "88"}}, s, "/dfareporting/v5/userprofiles/{customerId}/conversions/batchinsert")
			return fake{s, build(t, p, s, variables{"API_KEY_DV360": account.JSON}), full, func(id string) string { return "o-" + id }}
		},
		"tradedesk": func(t *testing.T) fake {
			s := partnertest.TradeDesk(t)
			p := local(partner.Partner{Name: "tradedesk", Preset: "tradedesk", Settings: map[string]string{"advertiserId": "adv1", "universalPixelId": "pix1"}}, s, "/track/realtimeconversion")
			return fake{s, build(t, p, s, nil), full, byEvent}
		},
		"yahoo": func(t *testing.T) fake {
			s := partnertest.Yahoo(t, "yahoo-secret")
			p := local(partner.Partner{Name: "yahoo", Preset: "yahoo", Settings: map[string]string{"accountId": "5", "pixelId": "10012345"}}, s, "/v1/events/{pixelId}")
			return fake{s, build(t, p, s, variables{"API_KEY_YAHOO": `{"client_id":"yahoo-client","client_secret":"yahoo-secret"}`}), full, byEvent}
		},
		"amazon": func(t *testing.T) fake {
			s := partnertest.Amazon(t, 1)
			p := local(partner.Partner{Name: "amazon", Preset: "amazon", Settings: map[string]string{"advertiserId": "amzn1.account", "campaignId": "c9"}}, s, "/events/v1")
			return fake{s, build(t, p, s, variables{"API_KEY_AMAZON": `{"client_id":"amazon-client","client_secret":"amazon-secret","refresh_token":"Atzr|refresh"}`}), full, byEvent}
		},
		"webhook": func(t *testing.T) fake {
			const key = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
			s := partnertest.Webhook(t, time.Now, key)
			p := partner.Partner{Name: "hook", Preset: "webhook", Endpoint: s.URL, AllowPrivate: loopback, Auth: partner.Auth{Credentials: "HOOK_SECRET"}}
			return fake{s, build(t, p, s, variables{"HOOK_SECRET": key + "\n"}), full, func(id string) string { return "job-" + id }}
		},
	}
}

func TestPresetsDeliver(t *testing.T) {
	all := partners()
	for name, make := range all {
		t.Run(name, func(t *testing.T) {
			f := make(t)
			server, b, message, id := f.server, f.built, f.message, f.id
			batch := []*tidemill.Message{message("1"), message("2"), message("3")}
			for range 2 { // and once more, as after a crash
				if err := b.Sink.Write(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range []string{"1", "2", "3"} {
				effects := 2
				if b.Idempotent {
					effects = 1
				}
				if server.Sent(id(n)) != 2 || server.Effects(id(n)) != effects {
					t.Errorf("%s was sent %d times and took effect %d times, want 2 and %d", n, server.Sent(id(n)), server.Effects(id(n)), effects)
				}
			}
			first, second := server.Requests()[0], server.Requests()[len(server.Requests())/2]
			key := func(r partnertest.Request) string {
				return r.Header.Get("Idempotency-Key") + r.Header.Get("webhook-id")
			}
			if string(first.Body) != string(second.Body) || key(first) == "" || key(first) != key(second) {
				t.Errorf("two attempts differ: %s %s, %s %s", first.Body, key(first), second.Body, key(second))
			}
			t.Logf("%s", first.Body)
		})
	}
	for _, name := range partner.Presets() {
		if _, ok := all[name]; !ok && name != "generic" {
			t.Errorf("preset %s has no fake", name)
		}
	}
}

// A message whose answer was lost is repeated if that is harmless, and unknown otherwise.
func TestPresetsWithALostAnswer(t *testing.T) {
	for name, make := range partners() {
		t.Run(name, func(t *testing.T) {
			f := make(t)
			server, b, message, id := f.server, f.built, f.message, f.id
			server.Script(partnertest.LoseAnswer())
			err := b.Sink.Write(t.Context(), []*tidemill.Message{message("1")})
			want := tidemill.Unknown
			if b.Idempotent {
				want = tidemill.Partner
			}
			if tidemill.KindOf(err) != want {
				t.Errorf("%v is %v, want %v", err, tidemill.KindOf(err), want)
			}
			if server.Effects(id("1")) != 1 {
				t.Errorf("%d effects", server.Effects(id("1")))
			}
		})
	}
}

// kinds writes what became of a batch.
func kinds(err error, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = "delivered"
	}
	if p, ok := errors.AsType[*tidemill.Partial](err); ok {
		for _, f := range p.Failed {
			out[f.Index] = tidemill.KindOf(f.Err).String()
		}
	} else if err != nil {
		for i := range out {
			out[i] = tidemill.KindOf(err).String()
		}
	}
	return strings.Join(out, " ")
}

func TestPresetsWithPartialResults(t *testing.T) {
	all := partners()
	for _, c := range []struct {
		preset string
		step   partnertest.Step
		want   string
	}{
		{"dv360", partnertest.PartlyTaken(partnertest.Partial{Refuse: map[int]string{1: "INVALID_ARGUMENT"}}), "delivered validation delivered"},
		{"dv360", partnertest.PartlyTaken(partnertest.Partial{Refuse: map[int]string{0: "INTERNAL", 2: "PERMISSION_DENIED"}}), "partner_error delivered credentials"},
		{"dv360", partnertest.PartlyTaken(partnertest.Partial{Missing: []int{1}}), "partner_error partner_error partner_error"}, // in order: it cannot be told
		{"dv360", partnertest.Status(200, `{"status":"no"}`), "partner_error partner_error partner_error"},
		{"dv360", partnertest.Status(200, ``), "partner_error partner_error partner_error"},
		{"dv360", partnertest.Status(204, ``), "partner_error partner_error partner_error"},
		{"dv360", partnertest.Endless(), "partner_error partner_error partner_error"},
		{"dv360", partnertest.ResetInBody(), "partner_error partner_error partner_error"},
		{"dv360", partnertest.RetryAfter(429, "5"), "rate_limit rate_limit rate_limit"},
		{"amazon", partnertest.PartlyTaken(partnertest.Partial{Refuse: map[int]string{1: "400"}}), "delivered validation delivered"},
		{"amazon", partnertest.PartlyTaken(partnertest.Partial{Refuse: map[int]string{0: "429", 2: "500"}}), "rate_limit delivered partner_error"},
		{"amazon", partnertest.PartlyTaken(partnertest.Partial{Missing: []int{0}}), "partner_error delivered delivered"},
		{"amazon", partnertest.PartlyTaken(partnertest.Partial{Missing: []int{2}}), "partner_error partner_error partner_error"}, // from 0 or from 1?
		{"amazon", partnertest.Status(207, `{"success":[{"index":1},{"index":1},{"index":3}]}`), "partner_error partner_error partner_error"},
		{"amazon", partnertest.Status(207, `{"success":[{"index":0},{"index":1},{"index":2}]}`), "delivered delivered delivered"},
		{"amazon", partnertest.Status(207, `{"success":[{"index":0},{"index":1},{"index":3}]}`), "partner_error partner_error partner_error"},
		{"amazon", partnertest.Status(207, `{"success":[{"index":1},{"index":2},{"index":9}]}`), "partner_error partner_error partner_error"},
		{"amazon", partnertest.Status(207, `{"success":[{"index":0,"httpStatusCode":"200"},{"index":2}],"error":[{"index":1,"errorCode":"E1"}]}`), "delivered validation delivered"},
		{"amazon", partnertest.Status(403, `{}`), "credentials credentials credentials"},
		{"yahoo", partnertest.Status(200, `{"success":"PARTIAL"}`), "validation delivered delivered"},
		{"yahoo", partnertest.Status(200, `{"success":"MAYBE"}`), "partner_error partner_error partner_error"},
		{"tradedesk", partnertest.Status(402, `{}`), "validation delivered delivered"},
	} {
		t.Run(c.preset+" "+c.want, func(t *testing.T) {
			f := all[c.preset](t)
			server, b, message := f.server, f.built, f.message
			server.Script(c.step)
			batch := []*tidemill.Message{message("1"), message("2"), message("3")}
			err := b.Sink.Write(t.Context(), batch)
			if got := kinds(err, 3); got != c.want {
				t.Errorf("%s, want %s (%v)", got, c.want, err)
			}
			if err := b.Sink.Write(t.Context(), batch); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// An event that a partner cannot use is found among others.
func TestAnEventThatAPartnerCannotUse(t *testing.T) {
	all := partners()
	for preset, want := range map[string]string{
		"dv360": "delivered validation delivered", "amazon": "delivered validation delivered", "yahoo": "delivered validation delivered", "tradedesk": "delivered validation delivered",
	} {
		t.Run(preset, func(t *testing.T) {
			f := all[preset](t)
			b, message := f.built, f.message
			bad := &tidemill.Message{ID: "bad", Payload: []byte(`{"eventType":"purchase","timestamp":"2026-01-15T10:00:00Z","siteId":"s","eventId":"bad"}`)}
			err := b.Sink.Write(t.Context(), []*tidemill.Message{message("1"), bad, message("2")})
			if got := kinds(err, 3); got != want {
				t.Errorf("%s, want %s: %v", got, want, err)
			}
		})
	}
}

func TestUserDataAsThePartnerAsks(t *testing.T) {
	f := partners()["yahoo"](t)
	server, b, message := f.server, f.built, f.message
	if err := b.Sink.Write(t.Context(), []*tidemill.Message{message("1")}); err != nil {
		t.Fatal(err)
	}
	body := string(server.Requests()[0].Body)
	for what, want := range map[string]string{
		"email": partner.Hash("jane.doe@example.com"), "phone": partner.Hash("+491511234567"), "time": `"eventTs":1768471200,`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s is not in %s", what, want, body)
		}
	}
}

// An invalid e-mail does not hide the hash beside it.
func TestAHashBesideAnEmailThatIsNone(t *testing.T) {
	all := partners()
	for _, preset := range []string{"yahoo", "amazon"} {
		t.Run(preset, func(t *testing.T) {
			f := all[preset](t)
			hash := partner.Hash("jane.doe@example.com")
			m := event("1", `,"properties":{"email":"somebody"},"enhancedConversion":{"emailHash":"`+hash+`"}`)
			if err := f.built.Sink.Write(t.Context(), []*tidemill.Message{m}); err != nil {
				t.Fatal(err)
			}
			if body := string(f.server.Requests()[0].Body); !strings.Contains(body, hash) {
				t.Errorf("%s has no %s", body, hash)
			}
		})
	}
}

// No observation or failure shows a secret.
func TestPresetsShowNoSecrets(t *testing.T) {
	s := partnertest.Amazon(t, 0)
	p := local(partner.Partner{Name: "amazon", Preset: "amazon", Settings: map[string]string{"advertiserId": "amzn1.account"}}, s, "/events/v1")
	var shown []string
	b, err := p.Build(partner.Env{Roots: s.Roots(), Secret: variables{"API_KEY_AMAZON": `{"client_id":"amazon-client","client_secret":"amazon-secret","refresh_token":"Atzr|refresh"}`}.secret,
		Observe: func(_ context.Context, _ []*tidemill.Message, a httpsink.Attempt) {
			shown = append(shown, fmt.Sprintf("%v %s", a.Err, a.Body))
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Script(partnertest.Status(403, `access-token-1 amazon-secret Atzr|refresh`), partnertest.Status(401, "access-token-1"), partnertest.Status(500, "access-token-1 access-token-2"))
	for range 2 {
		shown = append(shown, fmt.Sprintf("%v", b.Sink.Write(t.Context(), []*tidemill.Message{event("1", user)})))
	}
	s.Revoke()
	s.ScriptTokens(partnertest.Status(400, `{"error":"invalid_grant","error_description":"Atzr|refresh amazon-secret"}`))
	shown = append(shown, fmt.Sprintf("%v", b.Sink.Write(t.Context(), []*tidemill.Message{event("1", user)})))
	for _, text := range shown {
		for _, bad := range []string{"access-token-", "amazon-secret", "Atzr|refresh"} {
			if strings.Contains(text, bad) {
				t.Errorf("%q is shown in %q", bad, text)
			}
		}
	}
	if len(shown) < 6 {
		t.Errorf("only %d observations", len(shown))
	}
}
