package deliveryingest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

func TestCollect(t *testing.T) {
	d := newEndpoint(t)
	want(t, d.send("/collect", withID(one), header{"Content-Type": "text/plain;charset=UTF-8"}), 202, `{"eventId":"`+one+`","status":"accepted"}`)
	want(t, d.send("/collect", withID(one)), 202, `{"eventId":"`+one+`","status":"accepted"}`) // its id is its key
	want(t, d.send("/collect", view(`,"idempotencyKey":"k"`)), 202, "*")
	want(t, d.send("/collect", view(""), header{"X-Idempotency-Key": "h"}), 202, "*")
	want(t, d.send("/collect", view(""), keyed("with a site's key")), 202, "*")
	want(t, d.send("/collect", strings.Replace(view(""), `"shop"`, `"other"`, 1), keyed("k", "X-API-Key", otherKey)), 202, "*") // that is not public
	want(t, d.send("/collect", view(""), keyed("k", "X-API-Key", otherKey)), 403, "wrong_site")
	// What anybody may send says nothing of a server's keys.
	want(t, d.send("/v1/events", view(`,"x":1`), keyed("h")), 202, "*")
	d.wantJobs(6)
}

func pixelURL(raw, rest string) string {
	return "GET /collect?d=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(raw))) + rest
}

func TestPixel(t *testing.T) {
	d := newEndpoint(t)
	isGIF := func(w *httptest.ResponseRecorder, code int) {
		t.Helper()
		if w.Code != code || w.Body.Len() != 43 || !strings.HasPrefix(w.Body.String(), "GIF89a\x01\x00\x01\x00") || w.Body.String()[42] != ';' {
			t.Errorf("%d, %d bytes %q", w.Code, w.Body.Len(), w.Body)
		}
		if h := w.Header(); h.Get("Content-Type") != "image/gif" || !strings.Contains(h.Get("Cache-Control"), "no-store") {
			t.Errorf("headers %v", h)
		}
	}
	isGIF(d.send(pixelURL(view(""), "&sid=shop&eid="+strings.ToUpper(one)), ""), 200)
	isGIF(d.send(pixelURL(view(""), "&sid=shop&eid="+one), ""), 200)      // the same eid
	isGIF(d.send(pixelURL(withID(one), "&sid=shop"), ""), 200)            // the same id
	isGIF(d.send(pixelURL(view(""), "&sid=shop&eid=order%207"), ""), 200) // any text tells it from others
	isGIF(d.send(pixelURL(view(""), "&sid=shop&eid=order%207"), ""), 200)
	isGIF(d.send(pixelURL(view(""), "&sid=shop"), ""), 200) // nothing does
	d.wantJobs(3)
	if j := d.jobs()[0]; j.ID != one || string(j.Payload) != view("") {
		t.Errorf("job %+v", j)
	}
	raw := base64.RawURLEncoding.EncodeToString([]byte(view(`,"a":"ü?>ÿ"`)))
	isGIF(d.send("GET /collect?d="+raw+"&sid=shop&eid=url", ""), 200)
	spaces := strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(view(`,"a":"~~~>>>???"`))), "+", " ")
	isGIF(d.send("GET /collect?d="+url.QueryEscape(spaces)+"&sid=shop&eid=spaces", ""), 200)
	d.wantJobs(5)
	before := d.Handled().Rejected
	for _, to := range []string{"GET /collect?sid=shop", "GET /collect?d=!!!&sid=shop", pixelURL("{", "&sid=shop"), pixelURL(view(`,"userId":1`), "&sid=shop"),
		pixelURL(strings.Replace(view(""), `"shop"`, `"other"`, 1), "&sid=shop"), pixelURL(withID(one), "&sid=shop&eid="+two), pixelURL(view(""), "&sid=shop&eid=%00")} {
		isGIF(d.send(to, ""), 200)
	}
	if n := d.Handled().Rejected - before; n != 7 {
		t.Errorf("%d are counted as rejected; want 7", n)
	}
	d.wantJobs(5)
	d.queues.err = errors.New("connection refused")
	w := d.send(pixelURL(view(""), "&sid=shop&eid=late"), "")
	if isGIF(w, 503); w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestConversions(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Partners = func(it *accept.Item, _ bool) []Partner {
			if !it.Event.Conversion {
				return nil
			}
			return []Partner{{"dv360", "queued", ""}, {"yahoo", "skipped", `no "consent"`}}
		}
	})
	body := strings.Replace(purchase("o"), `"items":[{"id":"a"}]`, `"items":[],"eventId":"`+one+`"`, 1)
	accepted := `{"conversionId":"` + one + `","status":"accepted","partners":[{"name":"dv360","status":"queued","message":""},{"name":"yahoo","status":"skipped","message":"no \"consent\""}]}`
	want(t, d.send("/s2s/convert", body, keyed("k")), 202, accepted)
	want(t, d.send("/s2s/convert", body, keyed("k")), 202, accepted)
	want(t, d.send("/s2s/convert", body, keyed("k2")), 202, `{"conversionId":"`+one+`","status":"duplicate","duplicateOf":"`+one+`","partners":[]}`)
	want(t, d.send("/v1/events", purchase("o"), keyed("k")), 202, `{"eventId":"`+one+`","status":"duplicate","duplicateOf":"`+one+`"}`)
	w := d.send("/s2s/convert", strings.Replace(body, "EUR", "eur", 1), keyed("k3"))
	want(t, w, 422, "validation_failed")
	if got := w.Body.String(); !strings.Contains(got, `"path":"currency"`) || !strings.Contains(got, `"status":"invalid","partners":[]`) {
		t.Errorf("%s", got)
	}
	w = d.send("/s2s/convert", "["+strings.Replace(body, "EUR", "eur", 1)+","+purchase("p")+"]", keyed("k4"))
	want(t, w, 202, `{"results":[{"conversionId":"`+one+`","status":"invalid","error":"validation_failed","details":[{*`)
	for _, j := range d.wantJobs(2) {
		if j.To != accept.High {
			t.Errorf("a conversion is in %s", j.To)
		}
	}
}

func TestOrigins(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Sites = func(site string) (Site, bool) {
			return Site{Public: true, Origins: []string{"https://shop.example"}}, site == "shop"
		}
	})
	shop, evil := header{"Origin": "https://shop.example"}, header{"Origin": "https://evil.example"}
	w := d.send("/collect", withID(one), shop)
	want(t, w, 202, "*")
	if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "https://shop.example" || h.Get("Access-Control-Allow-Credentials") != "true" || h.Get("Vary") != "Origin" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Errorf("headers %v", h)
	}
	for _, to := range []string{"/collect", "/v1/events"} {
		w = d.send(to, withID(two), evil, keyed("k"))
		if want(t, w, 403, "origin_not_allowed"); w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("headers %v", w.Header())
		}
	}
	want(t, d.send("/v1/events", withID(two), keyed("k")), 202, "*") // a server
	d.wantJobs(2)
	// A page may read what was wrong.
	if w = d.send("/v1/events", "{", shop, keyed("k")); w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("headers %v", w.Header())
	}
	w = d.send("OPTIONS /v1/events", "", shop, header{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-idempotency-key"})
	if h := w.Header(); w.Code != 204 || h.Get("Access-Control-Allow-Origin") == "" || h.Get("Access-Control-Allow-Credentials") != "true" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "X-Idempotency-Key") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("preflight: %d %v", w.Code, h)
	}
	if w = d.send("/s2s/convert", purchase("o"), shop, keyed("s")); w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page may read conversions: %v", w.Header())
	}
}

func TestTransportSecurityBehindTLS(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	const name = "Strict-Transport-Security"
	if h := d.send("/v1/events", "").Header(); h.Get(name) != "" {
		t.Errorf("without TLS: %v", h)
	}
	if h := d.send("/v1/events", "", header{"X-Forwarded-Proto": "https"}).Header(); h.Get(name) == "" {
		t.Errorf("behind a proxy with TLS: %v", h)
	}
	if h := newEndpoint(t).send("/v1/events", "", header{"X-Forwarded-Proto": "https"}).Header(); h.Get(name) != "" {
		t.Errorf("a stranger's word is believed: %v", h)
	}
}

func TestTheLimitOfAnAddress(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Limits.PerMinute = 3
		o.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	from := func(a string) header { return header{"X-Forwarded-For": a} }
	for range 3 {
		want(t, d.send("/collect", withID(one), from("203.0.113.1")), 202, "*")
	}
	w := d.send("/collect", withID(one), from("203.0.113.1"))
	want(t, w, 429, "rate_limited")
	h := w.Header()
	if h.Get("X-RateLimit-Limit") != "3" || h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Reset") != "1795287660" || h.Get("Retry-After") != "60" {
		t.Errorf("headers %v", h)
	}
	if w := d.send(pixelURL(withID(one), "&sid=shop"), "", from("203.0.113.1")); w.Code != 429 || w.Body.Len() != 43 || w.Header().Get("X-RateLimit-Limit") != "3" {
		t.Errorf("a pixel: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	want(t, d.send("/collect", withID(one), from("203.0.113.2")), 202, "*")
	for range 3 { // a network of IPv6 is one address
		want(t, d.send("/collect", withID(one), from("2001:db8::1")), 202, "*")
	}
	want(t, d.send("/collect", withID(one), from("2001:db8::2")), 429, "rate_limited")
	want(t, d.send("/collect", withID(one), from("2001:db8:0:1::2")), 202, "*")
	for range 9 { // keys have no limit of addresses
		want(t, d.send("/v1/events", withID(two), from("203.0.113.1"), keyed("k")), 202, "*")
	}
	d.now = received.Add(time.Minute)
	want(t, d.send("/collect", withID(one), from("203.0.113.1")), 202, "*")
}

func TestTheLimitOfASitesDay(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Sites = func(site string) (Site, bool) { return Site{Public: true, PerDay: 3}, true }
	})
	want(t, d.send("/v1/events", many(2, view("")), keyed("a")), 202, "*")
	for range 5 { // what is sent again costs nothing
		want(t, d.send("/v1/events", many(2, view("")), keyed("a")), 202, "*")
		want(t, d.send("/v1/events", view(`,"userId":1`), keyed("b")), 422, "*")
	}
	w := d.send("/v1/events", many(2, view("")), keyed("c"))
	want(t, w, 429, "rate_limited")
	if h := w.Header(); h.Get("X-RateLimit-Limit") != "3" || h.Get("X-RateLimit-Remaining") != "1" || h.Get("X-RateLimit-Reset") != "1795305600" || h.Get("Retry-After") != "18000" {
		t.Errorf("headers %v", h)
	}
	d.queues.full = true
	want(t, d.send("/v1/events", view(""), keyed("c")), 503, "unavailable")
	d.queues.full = false
	want(t, d.send("/v1/events", view(""), keyed("c")), 202, "*")
	want(t, d.send("/collect", withID(one)), 429, "rate_limited")
	d.now = received.Add(5 * time.Hour)
	want(t, d.send("/collect", withID(one)), 202, "*")
	d.wantJobs(4)
}

// brokenMeter cannot be asked.
type brokenMeter struct{}

func (brokenMeter) Admit(context.Context, string, int, endpoint.Limit) (endpoint.Standing, error) {
	return endpoint.Standing{}, errors.New("connection refused")
}
func (brokenMeter) Return(context.Context, string, int, endpoint.Limit, endpoint.Standing) error {
	return errors.New("connection refused")
}

func TestAMeterThatFailsKeepsNothingOut(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Meter = brokenMeter{}
		o.Sites = func(string) (Site, bool) { return Site{Public: true, PerDay: 1}, true }
	})
	want(t, d.send("/collect", withID(one)), 202, "*")
	want(t, d.send("/v1/events", view(""), keyed("k")), 202, "*")
}

// What was asked for before tells nothing to the next request that uses the same memory.
func TestMemoryThatIsUsedAgain(t *testing.T) {
	d := newEndpoint(t)
	for range 20 {
		d.send("/v1/events", many(3, withID(one)), keyed("k", "Sec-GPC", "1"))
		d.send("/collect", view(""))
		want(t, d.send("/v1/events", view(""), header{"X-API-Key": shopKey}), 400, "missing_idempotency_key")
	}
	want(t, d.send("/v1/events", withID(two), keyed("fresh")), 202, `{"eventId":"`+two+`","status":"accepted"}`)
	for _, j := range d.jobs() {
		if gpc := j.Get("gpc"); (j.ID == one) != (gpc != nil) {
			t.Errorf("job %s: gpc %q", j.ID, gpc)
		}
	}
}

func FuzzPost(f *testing.F) {
	f.Add([]byte(withID(one)), "k", "application/json", "")
	f.Add([]byte("["+withID(one)+","+view(`,"idempotencyKey":"x"`)+"]"), "", "", "")
	f.Add([]byte(zipped(f, view(""))), "k", "", "gzip")
	f.Fuzz(func(t *testing.T, body []byte, key, typ, encoding string) {
		d := newEndpoint(t)
		for _, to := range []string{"/v1/events", "/collect", "/s2s/convert"} {
			r := httptest.NewRequest("POST", to, strings.NewReader(string(body)))
			r.Header = map[string][]string{"X-Api-Key": {shopKey}, "Content-Type": {typ}, "Content-Encoding": {encoding}}
			if key != "" {
				r.Header["X-Idempotency-Key"] = []string{key}
			}
			first, again := httptest.NewRecorder(), httptest.NewRecorder()
			d.ServeHTTP(first, r)
			if !json.Valid(first.Body.Bytes()) || first.Code < 202 {
				t.Fatalf("%s: %d %s", to, first.Code, first.Body)
			}
			if first.Code != 202 {
				continue
			}
			r.Body = httptest.NewRequest("POST", to, strings.NewReader(string(body))).Body
			if d.ServeHTTP(again, r); again.Body.String() != first.Body.String() {
				t.Errorf("%s: first %s, again %s", to, first.Body, again.Body)
			}
		}
	})
}
