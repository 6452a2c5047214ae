package httpsink_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

const canary = "canary-4f1c+/= secret"

func secret(s string) tidemill.Secret { return tidemill.NewSecret(s) }

func TestFixedCredentials(t *testing.T) {
	for _, c := range []struct {
		name string
		auth httpsink.Auth
		want func(partnertest.Request) bool
	}{
		{"bearer", httpsink.Bearer(secret(canary)), func(r partnertest.Request) bool { return r.Header.Get("Authorization") == "Bearer "+canary }},
		{"basic", httpsink.Basic("u", secret(canary)), func(r partnertest.Request) bool {
			q := http.Request{Header: r.Header}
			u, p, ok := q.BasicAuth()
			return ok && u == "u" && p == canary
		}},
		{"a key in a header", httpsink.HeaderKey("X-Key", "k ", secret(canary)), func(r partnertest.Request) bool { return r.Header.Get("X-Key") == "k "+canary }},
		{"a key in the URL", httpsink.QueryKey("key", secret(canary)), func(r partnertest.Request) bool {
			return r.Path == "/v1/events?a=1&key=canary-4f1c%2B%2F%3D+secret"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := partnertest.New(t, ok)
			sink := open(t, server, httpsink.Options{URL: server.URL + "/v1/events?a=1", Auth: []httpsink.Auth{c.auth}})
			if err := sink.Write(t.Context(), []*tidemill.Message{message("1")}); err != nil {
				t.Fatal(err)
			}
			if !c.want(server.Requests()[0]) {
				t.Errorf("sent %+v", server.Requests()[0])
			}
		})
	}
}

// If a partner answers with what we sent, our dead letters must not show it.
func TestSecretsNeverShow(t *testing.T) {
	echo := func(e *partnertest.Exchange) {
		e.W.WriteHeader(http.StatusForbidden)
		for name, v := range e.R.Header {
			_, _ = fmt.Fprintf(e.W, "%s: %s\n", name, v)
		}
		_, _ = io.WriteString(e.W, e.R.URL.String()+strings.Repeat("x", 2030-len(canary))+canary)
	}
	for _, auth := range []httpsink.Auth{
		httpsink.Bearer(secret(canary)), httpsink.Basic("u", secret(canary)), httpsink.QueryKey("key", secret(canary)), httpsink.HeaderKey("X-Key", "", secret(canary)),
	} {
		server := partnertest.New(t, ok)
		server.Script(echo, partnertest.ResetBeforeAnswer(), partnertest.Garbage(), partnertest.BigHeader())
		var shown []string
		sink := open(t, server, httpsink.Options{URL: server.URL + "/path-of-the-url", Auth: []httpsink.Auth{auth},
			Observe: func(_ context.Context, _ []*tidemill.Message, a httpsink.Attempt) {
				shown = append(shown, fmt.Sprintf("%+v %v %s", a, a.Err, a.Body))
			}})
		for range 4 {
			err := sink.Write(t.Context(), []*tidemill.Message{message("1")})
			r, ok := errors.AsType[*httpsink.Refusal](err)
			if !ok {
				t.Fatal(err)
			}
			shown = append(shown, err.Error(), string(r.Body), fmt.Sprintf("%+v", *r))
		}
		server.Close()
		shown = append(shown, fmt.Sprint(sink.Write(t.Context(), []*tidemill.Message{message("1")})))
		for _, s := range shown {
			for _, bad := range []string{canary, "canary-4f1c", "Y2FuYXJ5LTRm"} {
				if strings.Contains(s, bad) {
					t.Errorf("%q is shown in %.200q", bad, s)
				}
			}
		}
	}
}

// Some services know their callers by nothing else than the URL, or by a header that is only
// configured; and answer with what they were asked.
func TestSecretsInURLsAndHeadersAreNotShown(t *testing.T) {
	echo := func(e *partnertest.Exchange) {
		e.W.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(e.W, "no route for %s %s, header %s, setting %s, escaped %s, in JSON %s\n", e.R.URL.Path, e.R.URL, e.R.Header, canary+"/1", url.QueryEscape(canary+"/1"), strings.ReplaceAll(canary+"/1", "/", `\/`))
	}
	for name, o := range map[string]httpsink.Options{
		"query":   {URL: "/v1?access_token=" + url.QueryEscape(canary) + "&v=2"},
		"escaped": {URL: "/v1?x=" + url.QueryEscape(canary+"/1")},
		"path":    {URL: "/webhook/" + canary + "/events"},
		"header":  {URL: "/", Header: map[string]string{"Authorization": "Bearer " + canary}},
		"key":     {URL: "/", Header: map[string]string{"X-Api-Key": canary}},
		"own":     {URL: "/", Header: map[string]string{"X-App": canary}},
		"setting": {URL: "/", Header: map[string]string{"X-App": canary}, Secrets: []tidemill.Secret{secret(canary), secret(canary + "/1")}},
		"prefix":  {URL: "/v1?key=" + url.QueryEscape(canary) + "&token=" + canary[:6]},
	} {
		server := partnertest.New(t, ok)
		server.Script(echo, partnertest.ResetBeforeAnswer(), partnertest.Garbage())
		var shown []string
		o.URL = server.URL + o.URL
		o.Observe = func(_ context.Context, _ []*tidemill.Message, a httpsink.Attempt) {
			shown = append(shown, fmt.Sprintf("%+v %v %s", a, a.Err, a.Body))
		}
		if name == "setting" || strings.HasPrefix(name, "e") {
			o.Secrets = append(o.Secrets, secret(canary+"/1"), secret(canary))
		} else {
			o.Secrets = []tidemill.Secret{secret(canary + "/1")} // what echo adds
		}
		sink := open(t, server, o)
		for range 3 {
			err := sink.Write(t.Context(), []*tidemill.Message{message("1")})
			r, ok := errors.AsType[*httpsink.Refusal](err)
			if !ok {
				t.Fatal(err)
			}
			shown = append(shown, err.Error(), string(r.Body), fmt.Sprintf("%+v", *r))
		}
		server.Close()
		shown = append(shown, fmt.Sprint(sink.Write(t.Context(), []*tidemill.Message{message("1")})))
		for _, s := range shown {
			if strings.Contains(s, "canary") || strings.Contains(s, canary[6:]) {
				t.Errorf("%s: a secret is shown in %.400q", name, s)
			}
		}
		if all := strings.Join(shown, ""); !strings.Contains(all, "no route for") || !strings.Contains(all, "[secret]") {
			t.Errorf("%s: nothing is left of the answer: %.400q", name, all)
		}
	}
}

func TestHMAC(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for _, c := range []struct {
		o    httpsink.HMAC
		want func(h http.Header, sum func(string) string) bool
	}{
		{httpsink.HMAC{}, func(h http.Header, sum func(string) string) bool {
			return h.Get("X-Timestamp") == "1700000000" && h.Get("X-Signature") == sum(`1700000000.{"id":"1"}`)
		}},
		{httpsink.HMAC{Header: "X-Hub", Prefix: "sha256=", TimestampHeader: "-"}, func(h http.Header, sum func(string) string) bool {
			return h.Get("X-Timestamp") == "" && h.Get("X-Hub") == "sha256="+sum(`{"id":"1"}`)
		}},
	} {
		c.o.Secret, c.o.Now = secret(canary), func() time.Time { return now }
		auth, err := httpsink.NewHMAC(c.o)
		if err != nil {
			t.Fatal(err)
		}
		server := partnertest.New(t, ok)
		if err := open(t, server, httpsink.Options{Auth: []httpsink.Auth{auth}}).Write(t.Context(), []*tidemill.Message{message("1")}); err != nil {
			t.Fatal(err)
		}
		sum := func(s string) string {
			mac := hmac.New(sha256.New, []byte(canary))
			mac.Write([]byte(s))
			return hex.EncodeToString(mac.Sum(nil))
		}
		if h := server.Requests()[0].Header; !c.want(h, sum) {
			t.Errorf("%+v: sent %v", c.o, h)
		}
	}
	if _, err := httpsink.NewHMAC(httpsink.HMAC{}); err == nil {
		t.Error("no secret is taken")
	}
}

// The example of the specification: what it signs is what others verify.
func TestStandardWebhooks(t *testing.T) {
	const key = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	now := time.Unix(1674087231, 0)
	auth, err := httpsink.StandardWebhooks(func() time.Time { return now }, secret(key), secret("whsec_"+strings.Repeat("QUJD", 8)))
	if err != nil {
		t.Fatal(err)
	}
	server := partnertest.New(t, ok)
	sink := open(t, server, httpsink.Options{Auth: []httpsink.Auth{auth}, KeyHeader: "-"})
	m := &tidemill.Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Payload: []byte(`{"test": 2432232314}`)}
	for range 2 {
		if err := sink.Write(t.Context(), []*tidemill.Message{m}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	first, second := server.Requests()[0].Header, server.Requests()[1].Header
	signatures := strings.Fields(first.Get("webhook-signature"))
	if first.Get("webhook-id") != m.ID || first.Get("webhook-timestamp") != "1674087231" || len(signatures) != 2 || !strings.HasPrefix(signatures[0], "v1,") {
		t.Errorf("sent %v", first)
	}
	if second.Get("webhook-id") != m.ID || second.Get("webhook-timestamp") != "1674087291" || second.Get("webhook-signature") == first.Get("webhook-signature") {
		t.Errorf("the second attempt sent %v", second)
	}
	receiver := partnertest.Webhook(t, func() time.Time { return now }, key)
	if err := open(t, receiver, httpsink.Options{Auth: []httpsink.Auth{auth}}).Write(t.Context(), []*tidemill.Message{m}); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", "whsec_", "whsec_short", "nothing", "whsec_!!!!"} {
		if _, err := httpsink.StandardWebhooks(nil, secret(s)); err == nil || s != "" && strings.Contains(err.Error(), s+" ") {
			t.Errorf("secret %q: %v", s, err)
		}
	}
}

// issuer is a partner with a token endpoint at /token.
func issuer(t *testing.T, life string) *partnertest.Server {
	var mu sync.Mutex
	n, good := 0, ""
	return partnertest.New(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			n++
			good = fmt.Sprintf("token-%d", n)
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%s,"refresh_token":"next-%d"}`, good, life, n)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+good {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "not "+r.Header.Get("Authorization"))
		}
	})
}

func tokens(t *testing.T, server *partnertest.Server, o httpsink.TokenOptions) *httpsink.Token {
	t.Helper()
	o.Via, o.URL = guard(t, httpguard.Options{Roots: server.Roots()}), server.URL+"/token"
	o.Grant = httpsink.RefreshToken("me", secret("client-"+canary), secret("refresh-"+canary))
	token, err := httpsink.NewToken(o)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokens(t *testing.T) {
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	server := issuer(t, "3600")
	token := tokens(t, server, httpsink.TokenOptions{Now: func() time.Time { return now }})
	sink := open(t, server, httpsink.Options{Auth: []httpsink.Auth{token}})
	write := func() error { return sink.Write(t.Context(), []*tidemill.Message{message("1")}) }
	// partnertest leaves requests for tokens out of Requests: they are counted by what is sent.
	sent := func() string {
		all := server.Requests()
		return all[len(all)-1].Header.Get("Authorization")
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := write(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sent() != "Bearer token-1" {
		t.Fatalf("20 at once asked for more than one token: %s", sent())
	}
	now = now.Add(58 * time.Minute)
	if err := write(); err != nil || sent() != "Bearer token-1" {
		t.Errorf("within its life: %v, %s", err, sent())
	}
	now = now.Add(90 * time.Second) // half a minute before its end
	if err := write(); err != nil || sent() != "Bearer token-2" {
		t.Errorf("shortly before its end: %v, %s", err, sent())
	}
	// A 401 renews it, once.
	before := len(server.Requests())
	server.Script(partnertest.Status(401, "expired"))
	if err := write(); err != nil || sent() != "Bearer token-3" || len(server.Requests()) != before+2 {
		t.Errorf("after a 401: %v, %s, %d requests", err, sent(), len(server.Requests())-before)
	}
	server.Script(partnertest.Status(401, "token-4 and token-3"), partnertest.Status(401, "token-4 and token-3"))
	r := kindOf(t, write(), tidemill.Credentials)
	if strings.Contains(string(r.Body), "token-") || len(server.Requests()) != before+4 {
		t.Errorf("after two: %q, %d requests", r.Body, len(server.Requests())-before)
	}
}

func TestTokensThatAreNotGiven(t *testing.T) {
	for _, c := range []struct {
		name  string
		step  partnertest.Step
		kind  tidemill.Kind
		after time.Duration
	}{
		{"invalid_grant", partnertest.Status(400, `{"error":"invalid_grant","error_description":"refresh-`+canary+`"}`), tidemill.Credentials, 0},
		{"401", partnertest.Status(401, `{"error":"invalid_client"}`), tidemill.Credentials, 0},
		{"busy", partnertest.Status(400, `{"error":"temporarily_unavailable"}`), tidemill.Partner, 0},
		{"404", partnertest.Status(404, ""), tidemill.Partner, 0},
		{"429", partnertest.RetryAfter(429, "9"), tidemill.RateLimit, 9 * time.Second},
		{"429 for ever", partnertest.RetryAfter(429, "1e12"), tidemill.RateLimit, 15 * time.Minute},
		{"500", partnertest.Status(500, ""), tidemill.Partner, 0},
		{"200 with an error", partnertest.Status(200, `{"error":"invalid_scope"}`), tidemill.Credentials, 0},
		{"200 without a token", partnertest.Status(200, `{}`), tidemill.Partner, 0},
		{"no JSON", partnertest.Status(200, `<html>`), tidemill.Partner, 0},
		{"a token with a line", partnertest.Status(200, `{"access_token":"a\r\nX: y"}`), tidemill.Partner, 0},
		{"endless", partnertest.Endless(), tidemill.Partner, 0},
		{"reset", partnertest.ResetBeforeAnswer(), tidemill.Partner, 0}, // nothing was sent to the partner
		{"held", partnertest.Hold(), tidemill.Timeout, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := issuer(t, "3600")
			server.ScriptTokens(c.step)
			timeout := 10 * time.Second
			if c.name == "held" {
				timeout = 100 * time.Millisecond
			}
			token := tokens(t, server, httpsink.TokenOptions{Timeout: timeout})
			sink := open(t, server, httpsink.Options{Auth: []httpsink.Auth{token}})
			err := sink.Write(t.Context(), []*tidemill.Message{message("1")})
			kindOf(t, err, c.kind)
			if e, _ := errors.AsType[*tidemill.Error](err); e.After != c.after {
				t.Errorf("after %v, want %v", e.After, c.after)
			}
			if strings.Contains(fmt.Sprintf("%+v", err), "canary") {
				t.Errorf("%v shows a secret", err)
			}
			if len(server.Requests()) != 0 {
				t.Error("it was sent without a token")
			}
			if c.name == "held" {
				return // its short time-out is no measure of what works
			}
			if err := sink.Write(t.Context(), []*tidemill.Message{message("1")}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// One who waits for another's request for a token does not fail with the other.
func TestWaitingForATokenOfOneWhoStops(t *testing.T) {
	server := issuer(t, `"60"`) // a number as text
	server.ScriptTokens(partnertest.Hold())
	token := tokens(t, server, httpsink.TokenOptions{})
	sink := open(t, server, httpsink.Options{Auth: []httpsink.Auth{token}})
	first, stop := context.WithCancel(t.Context())
	var both sync.WaitGroup
	both.Go(func() {
		if err := sink.Write(first, []*tidemill.Message{message("1")}); !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
	})
	for server.Most() == 0 { // until it is asked for
		runtime.Gosched()
	}
	both.Go(func() {
		if err := sink.Write(t.Context(), []*tidemill.Message{message("2")}); err != nil {
			t.Errorf("the second: %v", err)
		}
	})
	stop()
	both.Wait()
}

func TestClientCertificates(t *testing.T) {
	p := partnertest.NewAuthority(t)
	server := partnertest.WithTLS(t, p.Server(true), ok)
	with := func(g httpguard.Options) error {
		g.Roots = p.Roots()
		sink, err := httpsink.New(guard(t, g), httpsink.Options{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		return sink.Write(t.Context(), []*tidemill.Message{message("1")})
	}
	if err := with(httpguard.Options{Certificates: p.Client()}); err != nil {
		t.Error(err)
	}
	kindOf(t, with(httpguard.Options{}), tidemill.Credentials)
	kindOf(t, with(httpguard.Options{Certificates: partnertest.NewAuthority(t).Client()}), tidemill.Credentials)
}

func TestCertificatesThatRanOut(t *testing.T) {
	p := partnertest.NewAuthority(t)
	server := partnertest.WithTLS(t, p.Expired(), ok)
	sink, err := httpsink.New(guard(t, httpguard.Options{Roots: p.Roots()}), httpsink.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if r := kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Partner); !strings.Contains(r.Error(), "expired") || len(server.Requests()) != 0 {
		t.Errorf("%v", r)
	}
}
