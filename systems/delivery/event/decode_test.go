package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

const (
	hash     = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	id       = "7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d"
	head     = `"timestamp":"2026-11-21T19:00:00.123Z","siteId":"shop-1"`
	view     = `{"eventType":"page_view",` + head + `,"context":{"page":{"url":"https://shop.example/"}}}`
	purchase = `{"eventType":"purchase",` + head + `,"eventId":"` + id + `","orderId":"o-1","value":99.95,"currency":"EUR","items":[{"id":"sku","quantity":1,"price":99.95}]}`
)

func newRules(t testing.TB, o event.Options) *event.Rules {
	t.Helper()
	r, err := event.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// problems decodes and returns the problems as "path: wrong" lines.
func problems(t testing.TB, r *event.Rules, raw string, g event.Given) []string {
	t.Helper()
	var e event.Event
	before := strings.Clone(raw)
	b := []byte(raw)
	err := r.Decode(b, g, &e)
	if string(b) != before {
		t.Errorf("Decode changed the bytes of %.100q", raw)
	}
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*event.Invalid](err)
	if !ok || tidemill.KindOf(err) != tidemill.Validation {
		t.Fatalf("Decode(%.100q): %v, want an Invalid of kind validation", raw, err)
	}
	var all []string
	for _, p := range bad.Problems {
		all = append(all, p.Path+": "+p.Wrong)
	}
	if bad.Malformed {
		return []string{"malformed"}
	}
	return all
}

func TestWhatIsKeptOfAnEvent(t *testing.T) {
	r := newRules(t, event.Options{})
	raw := `{"eventType":"purchase","timestamp":"2026-11-21T20:00:00.5+01:00","siteId":"shop-1","eventId":"7D9F0C7E-3F7B-4A55-9D7E-2F4F5A3C1B2D",
		"version":"1.2.0","sessionId":"s","userId":"` + strings.ToUpper(hash) + `","deviceId":"d","idempotencyKey":"k 1","orderId":"o\u002d1","conversionValue":1e2,"currency":"EUR","items":[{"id":"a"}],
		"consent":{"tcf":{"version":"2.2","purposes":{"1":true,"7":true,"2":false}},"gpc":true,"usp":"1YNN","customConsent":{"marketing":false,"analytics":true},"jurisdiction":"CA"}}`
	var e event.Event
	if err := r.Decode([]byte(raw), event.Given{Version: "0.9.0"}, &e); err != nil {
		t.Fatal(err)
	}
	c := e.Consent
	if !c.Present || !c.TCF || c.Purposes.Of(1) != event.Yes || c.Purposes.Of(7) != event.Yes || c.Purposes.Of(2) != event.No || c.Purposes.Of(3) != event.Unsaid {
		t.Errorf("consent to purposes: %+v", c)
	}
	if c.GPC != event.Yes || c.USP != "1YNN" || c.Jurisdiction != "CA" || c.Marketing != event.No || c.Analytics != event.Yes || c.Advertising != event.Unsaid {
		t.Errorf("consent: %+v", c)
	}
	e.Consent = event.Consent{}
	want := event.Event{ID: id, Type: "purchase", Site: "shop-1", Time: time.Date(2026, 11, 21, 19, 0, 0, 5e8, time.UTC), Version: "1.2.0",
		User: hash, Device: "d", Session: "s", Order: "o-1", Key: "k 1", Purchase: true}
	if e != want {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

func TestOnlyPurchasesAndConversionsHaveOrders(t *testing.T) {
	r := newRules(t, event.Options{Types: map[string]event.Type{"subscribe": {Purchase: true}}})
	cart := `{"eventType":"add_to_cart",` + head + `,"orderId":"o-1","value":"not a number","items":"many"}`
	var e event.Event
	if err := r.Decode([]byte(cart), event.Given{}, &e); err != nil || e.Order != "" || e.Purchase || e.Conversion {
		t.Errorf("a cart: %+v, %v; want no order, and fields of purchases not looked at", e, err)
	}
	for member, want := range map[string]string{`"items":` + list(101, "1"): "items: has 101 elements", `"value":` + nested(11): "value.a.a.a.a.a.a.a.a.a: is nested deeper than 10 levels",
		`"tax" : "` + text(1001) + `"`: "tax: has 1,001 characters", `"orderId":{"a":1,"a":2}`: "orderId: has a name that comes twice in it", `"coupon":"` + text(1000) + `"`: "", `"items":[{"x":"y"}, 7]`: ""} {
		if got := strings.Join(problems(t, r, with(`{"eventType":"add_to_cart",`+head+`}`, member), event.Given{}), ";"); got != want {
			t.Errorf("a cart with %.40s: %q, want %q", member, got, want)
		}
	}
	if got := problems(t, r, cart, event.Given{Conversion: true}); len(got) != 3 {
		t.Errorf("the same as a conversion: %q, want value, items and currency", got)
	}
	conversion := `{"eventType":"custom_event",` + head + `,"orderId":"o-1","value":1,"currency":"EUR","items":[]}`
	if err := r.Decode([]byte(conversion), event.Given{Conversion: true}, &e); err != nil || e.Order != "o-1" || !e.Conversion {
		t.Errorf("a conversion without items: %+v, %v", e, err)
	}
	if err := r.Decode([]byte(strings.Replace(purchase, "purchase", "subscribe", 1)), event.Given{}, &e); err != nil || !e.Purchase || e.Order != "o-1" {
		t.Errorf("a type of the configuration: %+v, %v", e, err)
	}
}

func TestEveryProblemIsNamed(t *testing.T) {
	r := newRules(t, event.Options{})
	raw := `{"eventType":"purchase","timestamp":"yesterday","siteId":"my shop","orderId":"","currency":"eur","value":-1,
		"items":[{"id":"a","quantity":0},{"price":1000001,"quantity":1.5}],"userId":"a@b.example","context":{"geo":{"country":"de"}},"properties":{"a":{"b":1},"c":[1]}}`
	got := problems(t, r, raw, event.Given{})
	want := []string{"timestamp: has 9 characters", "siteId: does not look like one", "userId: has 11 characters", "context.geo.country: does not look like one",
		"properties.a: is an object", "properties.c: is an array",
		"orderId: has 0 characters", "currency: does not look like one", "value: is less than 0", "items[0].quantity: is less than 1",
		"items[1].price: is more than 1,000,000", "items[1].quantity: is no whole number", "items[1].id: is missing"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := problems(t, r, `{}`, event.Given{}); strings.Join(got, "; ") != "eventType: is missing; timestamp: is missing; siteId: is missing" {
		t.Errorf("an empty event: %q", got)
	}
	if got := problems(t, r, `{"eventType":"purchase",`+head+`}`, event.Given{}); strings.Join(got, "; ") != "orderId: is missing; value: is missing; currency: is missing; items: is missing" {
		t.Errorf("an empty purchase: %q", got)
	}
}

func TestProblemsAreBoundedAndQuoteNoValues(t *testing.T) {
	r := newRules(t, event.Options{})
	secret := "someone@example.com"
	raw := `{"eventType":"` + secret + `","userId":"` + secret + `","properties":{` + strings.TrimSuffix(strings.Repeat(`"p%":["`+secret+`"],`, 45), ",") + `}}`
	for i := range 45 {
		raw = strings.Replace(raw, "%", fmt.Sprint(i), 1)
	}
	var e event.Event
	err := r.Decode([]byte(raw), event.Given{}, &e)
	bad, ok := errors.AsType[*event.Invalid](err)
	if !ok || len(bad.Problems) != event.MaxProblems || !bad.More {
		t.Fatalf("got %v; want %d problems and more", err, event.MaxProblems)
	}
	if said := err.Error() + string(bad.AppendJSON(nil)); strings.Contains(said, secret) {
		t.Errorf("a value is quoted: %s", said)
	}
	long := `{"` + strings.Repeat("x", 900) + `":{"` + strings.Repeat(`\n`, 900) + `":` + strings.Repeat("9", 101) + `},` + view[1:]
	if got := problems(t, r, long, event.Given{}); len(got) != 1 || len(got[0]) > 250 {
		t.Errorf("the path of a long name: %q", got)
	}
}

func TestTheHeaderMayCarryTheVersion(t *testing.T) {
	r := newRules(t, event.Options{Major: 3})
	for _, c := range []struct{ name, raw, header, kept, want string }{
		{"neither", view, "", "1.0.0", ""},
		{"the header", view, "2.4.0", "2.4.0", ""},
		{"the event's own counts", with(view, `"version":"3.1.0"`), "7", "3.1.0", ""},
		{"an old one in the header", view, "1.0.0", "", "version: of the header X-Schema-Version is not supported"},
		{"nonsense in the header", view, "latest", "", "version: of the header X-Schema-Version is none"},
		{"an old one in the event", with(view, `"version":"1.1.0"`), "", "", "version: is not supported"},
	} {
		got := problems(t, r, c.raw, event.Given{Version: c.header})
		if strings.Join(got, ";") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		var e event.Event
		if err := r.Decode([]byte(c.raw), event.Given{Version: c.header}, &e); err == nil && e.Version != c.kept {
			t.Errorf("%s: version %q, want %q", c.name, e.Version, c.kept)
		}
	}
}

func TestBytesThatAreNoEvent(t *testing.T) {
	r := newRules(t, event.Options{})
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "malformed"},
		{"white space", " \n", "malformed"},
		{"half an event", view[:len(view)/2], "malformed"},
		{"a trailing comma", view[:len(view)-1] + ",}", "malformed"},
		{"two events", view + view, "malformed"},
		{"something behind", view + "x", "malformed"},
		{"white space around", " " + view + "\n", ""},
		{"a byte order mark", "\ufeff" + view, "malformed"},
		{"text that is no UTF-8", with(view, "\"a\":\"\xff\""), "malformed"},
		{"a name that is no UTF-8", with(view, "\"\xff\":1"), "malformed"},
		{"half a surrogate pair", with(view, `"a":"\ud800"`), "malformed"},
		{"a whole surrogate pair", with(view, `"a":"\ud83d\ude00"`), ""},
		{"a control character", with(view, "\"a\":\"\x01\""), "malformed"},
		{"a number with a leading zero", with(view, `"a":01`), "malformed"},
		{"not a number", with(view, `"a":NaN`), "malformed"},
		{"10,000 brackets", with(view, `"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), "malformed"},
		{"an array", "[" + view + "]", ": is an array"},
		{"a text", `"x"`, ": is a text"},
		{"null", `null`, ": is null"},
		{"a name that comes twice", with(view, `"siteId":"other"`), ": has a name that comes twice in it"},
		{"a name that comes twice, once with escapes", with(view, `"site\u0049d":"other"`), ": has a name that comes twice in it"},
		{"a name that comes twice further in", with(view, `"a":{"b":[{"c":1,"c":2}]}`), "a.b[0]: has a name that comes twice in it"},
		{"a name with escapes is that name", strings.Replace(view, "siteId", `site\u0049d`, 1), ""},
		{"too large", with(view, `"a":[`+strings.Repeat(`"`+text(900)+`",`, 40)+`1]`), ": has 36,"},
	} {
		got := strings.Join(problems(t, r, c.raw, event.Given{}), "; ")
		if got != c.want && !(strings.HasSuffix(c.want, ",") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestADecoderIsUsedAgain(t *testing.T) {
	r := newRules(t, event.Options{})
	for range 3 {
		problems(t, r, `{"eventType":"purchase","a":{"a":1,"a":2}}`, event.Given{})
		problems(t, r, view[:20], event.Given{})
		if got := problems(t, r, view, event.Given{}); got != nil {
			t.Fatalf("after others: %q", got)
		}
		if got := problems(t, r, `{"eventType":"page_view",`+head+`}`, event.Given{}); len(got) != 1 {
			t.Fatalf("after one with a URL: %q", got)
		}
	}
}

func TestHashAndName(t *testing.T) {
	at := time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)
	one := event.Event{Site: "s", ID: id, Time: at}
	same := one
	same.Time, same.Type = at.In(time.FixedZone("", 3600)), "other"
	if one.Hash() != same.Hash() {
		t.Error("the same instant in another zone has another hash")
	}
	for _, other := range []event.Event{{Site: "t", ID: id, Time: at}, {Site: "s", ID: "x", Time: at}, {Site: "s", ID: id, Time: at.Add(1)}} {
		if one.Hash() == other.Hash() {
			t.Errorf("%+v has the same hash", other)
		}
	}
	name := event.NameFor("s", "k", 0, []byte("x"))
	if !event.IsID(name) || name != event.NameFor("s", "k", 0, []byte("x")) {
		t.Errorf("name %q: want a UUID, always the same", name)
	}
	seen := map[string]bool{name: true}
	for _, n := range []string{event.NameFor("s", "k", 1, []byte("x")), event.NameFor("s", "kx", 0, nil), event.NameFor("sk", "", 0, []byte("x")), event.NameFor("s", "k", 0, []byte("y"))} {
		if seen[n] {
			t.Errorf("the name %s comes twice", n)
		}
		seen[n] = true
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []event.Options{{Major: -1}, {Types: map[string]event.Type{"": {}}}, {Types: map[string]event.Type{"a b": {}}}, {Types: map[string]event.Type{text(101): {}}}} {
		if _, err := event.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

var typical = []byte(`{"eventType":"purchase","eventId":"` + id + `","timestamp":"2026-11-21T19:00:00.123Z","siteId":"shop-1","sessionId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed","userId":"` + hash +
	`","consent":{"tcf":{"version":"2.2","purposes":{"1":true,"7":true}},"jurisdiction":"EU"},"orderId":"order-123456","value":149.9,"currency":"EUR","items":[{"id":"sku-1","name":"Shoe","quantity":1,"price":149.9}],"context":{"page":{"url":"https://shop.example/thanks","title":"Thanks"}}}`)

func BenchmarkDecode(b *testing.B) {
	r := newRules(b, event.Options{})
	var e event.Event
	b.SetBytes(int64(len(typical)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Decode(typical, event.Given{}, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range bounds() {
		if len(c.raw) < 2000 {
			f.Add([]byte(c.raw), false)
		}
	}
	f.Add(typical, true)
	r := newRules(f, event.Options{})
	f.Fuzz(func(t *testing.T, raw []byte, conversion bool) {
		before := bytes.Clone(raw)
		var e, again event.Event
		err := r.Decode(raw, event.Given{Conversion: conversion}, &e)
		if !bytes.Equal(raw, before) {
			t.Fatalf("Decode changed %q", before)
		}
		if (r.Decode(raw, event.Given{Conversion: conversion}, &again) == nil) != (err == nil) || e != again {
			t.Errorf("Decode(%q) twice: %+v and %+v", raw, e, again)
		}
		bad, wrong := errors.AsType[*event.Invalid](err)
		switch {
		case err == nil && (e.Type == "" || e.Site == "" || e.Time.IsZero() && !bytes.Contains(raw, []byte("0001")) || e.Version == ""):
			t.Errorf("Decode(%q) took %+v", raw, e)
		case err != nil && (!wrong || len(bad.Problems) == 0 || len(bad.Problems) > event.MaxProblems):
			t.Errorf("Decode(%q): %v", raw, err)
		}
	})
}
