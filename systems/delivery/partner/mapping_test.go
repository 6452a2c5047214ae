package partner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// generic is a partner with a mapping, at a server that accepts everything.
func generic(t testing.TB, fields ...partner.Field) (*partnertest.Server, partner.Partner) {
	s := partnertest.New(t, partnertest.Accept)
	return s, partner.Partner{Name: "somebody", Endpoint: s.URL + "/in", AllowPrivate: loopback, Mapping: fields}
}

func field(name, value string) partner.Field { return partner.Field{Field: name, Value: value} }

const sample = `{"eventType":"purchase","timestamp":"2026-01-15T10:00:00.5Z","siteId":"shop","eventId":"e1","orderId":"o1","value":12345678901234567890,
"tax":0.10,"shipping":1e3,"discount":1234567890.1234567890123,"currency":"EUR","coupon":"","items":[{"id":"a","price":1.5},{"id":"b","name":null}],
"properties":{"big":-9223372036854775808,"zero":-0,"text":"<b>\u00e9 \"q\" & \u2028","yes":true,"email":" A@B.de ","hash":"ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789","list":[1,"x",null]}}`

func TestMapping(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"a large number keeps its digits", `event.value`, `12345678901234567890`},
		{"decimals keep their value", `event.tax`, `0.1`},
		{"an exponent keeps its value", `event.shipping`, `1000`},
		{"many decimals keep their digits", `event.discount`, `1234567890.1234567890123`},
		{"the least integer", `event.properties.big`, `-9223372036854775808`},
		{"a negative zero", `event.properties.zero`, `-0`},
		{"text keeps its characters", `event.properties.text`, `"<b>é \"q\" & ` + "\u2028" + `"`},
		{"a large number as text", `text(event.value)`, `"12345678901234567890"`},
		{"text as a number", `number("12345678901234567890")`, `12345678901234567890`},
		{"what is not there is left out", `event.tax > 1 ? 1 : nil`, ``},
		{"a null is left out", `event.context?.page?.url`, ``},
		{"a null in a list stays", `event.properties.list`, `[1,"x",null]`},
		{"compact drops it", `compact(event.properties.list)`, `[1,"x"]`},
		{"an object in order of names", `{"b": 1, "a": event.orderId}`, `{"a":"o1","b":1}`},
		{"microseconds", `micros(event.timestamp)`, `1768471200500000`},
		{"milliseconds", `millis(event.timestamp)`, `1768471200500`},
		{"seconds", `unix(event.timestamp)`, `1768471200`},
		{"a leap second", `rfc3339("2016-12-31T23:59:60.5Z")`, `"2017-01-01T00:00:00.5Z"`},
		{"a time of seconds", `rfc3339(1768471200)`, `"2026-01-15T10:00:00Z"`},
		{"pick", `pick(event.items, {"item": "id", "p": "price", "n": "name"})`, `[{"item":"a","p":1.5},{"item":"b"}]`},
		{"pick of nothing", `pick(event.consent, {"a": "b"})`, ``},
		{"an e-mail", `email(event.properties.email)`, `"a@b.de"`},
		{"its hash", `email_hash(event.properties.email)`, `"` + partner.Hash("a@b.de") + `"`},
		{"a hash is not hashed again", `email_hash(event.properties.hash)`, `"abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789"`},
		{"nor by sha256", `sha256(event.properties.hash)`, `"abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789"`},
		{"no e-mail is none", `email_hash("somebody")`, ``},
		{"a phone", `phone("(0151) 123-4567", "de")`, `"+491511234567"`},
		{"settings", `setting.account + "/" + site + "/" + id`, `"acc/shop/job"`},
		{"arithmetic", `event.tax * 100 + 1`, `11`},
		{"a choice", `{"purchase": "buy"}[event.eventType] ?? "other"`, `"buy"`},
		{"replace", `replace(event.eventId, "e", "ee")`, `"ee1"`},
		{"membership", `event.currency in ["EUR", "USD"]`, `true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, p := generic(t, field("a.b", c.value), field("z", `1`))
			p.Settings = map[string]string{"account": "acc"}
			b := build(t, p, server, nil)
			if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "job", Tenant: "shop", Payload: []byte(sample)}}); err != nil {
				t.Fatal(err)
			}
			want := `{"a":{"b":` + c.want + `},"z":1}`
			if c.want == "" {
				want = `{"z":1}`
			}
			if got := string(server.Requests()[0].Body); got != want || !json.Valid([]byte(got)) {
				t.Errorf("sent\n%s, want\n%s", got, want)
			}
		})
	}
}

// A conversion has its value under another name, which expressions need not know.
func TestTheValueOfAConversion(t *testing.T) {
	for _, c := range []struct{ event, value, want string }{
		{`{"value":12.5}`, `event.value`, `12.5`},
		{`{"conversionValue":12.5}`, `event.value`, `12.5`},
		{`{"conversionValue":12.5}`, `event["value"] * 2`, `25`},
		{`{"conversionValue":12.5}`, `event?.value > 10 ? "much" : "little"`, `"much"`},
		{`{"conversionValue":12.5}`, `event.value ?? event.conversionValue`, `12.5`},
		{`{"conversionValue":12.5,"properties":{"value":1}}`, `event.properties.value`, `1`},
		{`{"value":12.5}`, `event.conversionValue ?? "none"`, `"none"`},
	} {
		t.Run(c.event+" "+c.value, func(t *testing.T) {
			server, p := generic(t, field("a", c.value))
			b := build(t, p, server, nil)
			if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "job", Payload: []byte(c.event)}}); err != nil {
				t.Fatal(err)
			}
			if got, want := string(server.Requests()[0].Body), `{"a":`+c.want+`}`; got != want {
				t.Errorf("sent %s, want %s", got, want)
			}
		})
	}
}

// Sums of decimals as a browser computes them, and any zero, can be compared and calculated
// with, and go out with the same value.
func TestNumbersThatAreNotRound(t *testing.T) {
	for _, c := range []struct{ number, much, out string }{
		{`30.299999999999997`, `true`, `30.299999999999997`},
		{`0.30000000000000004`, `false`, `0.30000000000000004`},
		{`129.90000000000000000`, `true`, `129.9`},
		{`1.7976931348623157e308`, `true`, `1.7976931348623157e+308`},
		{`0.0`, `false`, `0`},
		{`0e5`, `false`, `0`},
		{`-12.000000000000002`, `false`, `-12.000000000000002`},
	} {
		t.Run(c.number, func(t *testing.T) {
			server, p := generic(t, field("much", `event.value > 10`), field("v", `event.value`))
			b := build(t, p, server, nil)
			if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "job", Payload: []byte(`{"value":` + c.number + `}`)}}); err != nil {
				t.Fatal(err)
			}
			if got, want := string(server.Requests()[0].Body), `{"much":`+c.much+`,"v":`+c.out+`}`; got != want {
				t.Errorf("sent %s, want %s", got, want)
			}
		})
	}
	for _, number := range []string{`12345678901234567890`, `1234567890.1234567890123`, `9007199254740993.0`, `-0`, `-0.0`, `1e-400`, `1e400`, `1e99999999999999999999`} {
		server, p := generic(t, field("v", `event.value`))
		b := build(t, p, server, nil)
		if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "job", Payload: []byte(`{"value":` + number + `}`)}}); err != nil {
			t.Fatal(err)
		}
		if got, want := string(server.Requests()[0].Body), `{"v":`+number+`}`; got != want {
			t.Errorf("sent %s, want it as it came: %s", got, want)
		}
	}
}

// An event that cannot be mapped is invalid; the error names the field and the expression, and
// shows none of the data.
func TestMappingsThatFail(t *testing.T) {
	for _, c := range []struct {
		name, value, payload string
		required             bool
	}{
		{"a number of another kind", `event.value + 1`, sample, false},
		{"a text as a number", `event.currency * 2`, sample, false},
		{"a field of nothing", `event.context.page.url`, sample, false},
		{"a required field", `event.coupon`, sample, true},
		{"no time", `micros(event.currency)`, sample, false},
		{"no number", `number(event.currency)`, sample, false},
		{"no finite number", `event.tax / 0`, sample, false},
		{"no list", `pick(event.currency, {"a": "b"})`, sample, false},
		{"beyond the list", `event.items[7].id`, sample, false},
		{"no JSON", `event.value`, `{"value":`, false},
		{"no object", `event.value`, `[1]`, false},
		{"two values", `event.value`, `{"value":1} {}`, false},
		{"a name twice", `event.value`, `{"value":1,"value":2}`, false},
		{"no UTF-8", `event.currency`, "{\"currency\":\"\xff\"}", false},
		{"too deep", `event.value`, `{"value":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, p := generic(t, partner.Field{Field: "the.field", Value: c.value, Required: c.required})
			b := build(t, p, server, nil)
			err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "job", Payload: []byte(c.payload)}})
			if tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), "mapping") || len(server.Requests()) != 0 {
				t.Fatalf("%v (%v), %d requests", err, tidemill.KindOf(err), len(server.Requests()))
			}
			if c.payload == sample && (!strings.Contains(err.Error(), "the.field") || !strings.Contains(err.Error(), c.value)) {
				t.Errorf("%q names neither field nor expression", err)
			}
			for _, data := range []string{"EUR", "12345678901234567890", "\n"} {
				if strings.Contains(err.Error(), data) {
					t.Errorf("%q shows data", err)
				}
			}
		})
	}
}

// Expressions are refused when the partner is built: those that could run or grow with the
// data, that name unknown things, or that cannot have the right type.
func TestExpressionsThatAreRefused(t *testing.T) {
	for _, value := range []string{
		`map(event.items, #.id)`, `filter(event.items, true)`, `all(event.items, true)`, `reduce(event.items, 1)`, `sum(event.items)`,
		`1..1000000`, `repeat("x", 1000000)`, `let a = event.value; a`, `now()`, `date("2026-01-01")`, `toJSON(event)`, `event.value matches "a+"`,
		`2 ** 100000`, `sortBy(event.items, #.id)`, `fromJSON("{}")`, `$env`, `event.oderId`, `setting.nothing`, `unknown`, `micros()`, `phone(1, 2, 3)`, `"a" + 1`,
		`1 +`, `event.items | map(#)`, `count(event.items)`, `any(event.items, # == 1)`, `groupBy(event.items, #.id)`, `keys(event)`,
		strings.Repeat("(", 3000), `"` + strings.Repeat("x", 5000) + `"`, strings.Repeat("1 + ", 900) + "1",
	} {
		server, p := generic(t, field("f", value))
		_, err := p.Build(partner.Env{Roots: server.Roots()})
		if err == nil {
			t.Errorf("%.60s is taken", value)
		} else if !strings.Contains(err.Error(), "partner somebody: mapping.f") {
			t.Errorf("%.60s: %v does not say where", value, err)
		}
	}
	for _, rule := range []string{`status`, `body.status + 1 == status ? 1 : 2`, `item.x == 1`, `event.value == 1`, `"text"`} {
		server, p := generic(t)
		p.Success = rule
		if _, err := p.Build(partner.Env{Roots: server.Roots()}); err == nil {
			t.Errorf("success %s is taken", rule)
		}
	}
}

// Texts do not grow beyond bounds, in any expression.
func TestTextsThatWouldGrow(t *testing.T) {
	server, p := generic(t, field("f", `replace(replace(replace(replace(event.coupon, "x", event.coupon), "x", event.coupon), "x", event.coupon), "x", event.coupon)`))
	b := build(t, p, server, nil)
	err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "1", Payload: []byte(`{"coupon":"` + strings.Repeat("x", 1000) + `"}`)}})
	if tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), "64 KiB") {
		t.Error(err)
	}
}

func TestWithoutMappingTheEventGoesOutAsItCame(t *testing.T) {
	server, p := generic(t)
	p.Preset = "generic"
	b := build(t, p, server, nil)
	const payload = "{\"a\" : 1.10,\n \"a\":12345678901234567890, \"\xff\": 1}"
	if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: "1", Payload: []byte(payload)}}); err != nil {
		t.Fatal(err)
	}
	if got := string(server.Requests()[0].Body); got != payload {
		t.Errorf("sent %q", got)
	}
}

func TestMappingsAreSharedByGoroutines(t *testing.T) {
	server, p := generic(t, field("id", "event.eventId"), field("items", `pick(event.items, {"x": "id"})`))
	b := build(t, p, server, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 25 {
				id := fmt.Sprintf("%d-%d", i, n)
				if err := b.Sink.Write(t.Context(), []*tidemill.Message{{ID: id, Payload: []byte(`{"eventId":"` + id + `","items":[{"id":"` + id + `"}]}`)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, r := range server.Requests() {
		key := r.Header.Get("Idempotency-Key")
		if want := fmt.Sprintf(`{"id":%q,"items":[{"x":%q}]}`, key, key); string(r.Body) != want {
			t.Fatalf("sent %s, want %s", r.Body, want)
		}
	}
}

func BenchmarkMapping(b *testing.B) {
	preset, err := partner.Preset("tradedesk")
	if err != nil {
		b.Fatal(err)
	}
	encode, err := partner.Encoder(preset, map[string]string{"advertiserId": "adv1", "trackingTag": "trk1", "universalPixelId": ""})
	if err != nil {
		b.Fatal(err)
	}
	m := event("1", user)
	b.ReportAllocs()
	for b.Loop() {
		if err := encode(m); err != nil {
			b.Fatal(err)
		}
	}
}
