package event_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/delivery/event"
)

// with puts a member into an event.
func with(raw, member string) string { return raw[:len(raw)-1] + "," + member + "}" }

func text(n int) string { return strings.Repeat("x", n) }

func list(n int, elem string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(elem+",", n), ",") + "]"
}

func members(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":%s`, i, value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

type bound struct {
	name, raw string
	want      string // the first problem; empty: it is accepted
}

// bounds are cases of each field's limits: just inside and just outside.
func bounds() []bound {
	var all []bound
	add := func(name, raw, want string) { all = append(all, bound{name, raw, want}) }
	in := func(base, path, value, want string) { // a member, perhaps nested: a.b
		parts := strings.Split(path, ".")
		m := `"` + parts[len(parts)-1] + `":` + value
		for i := len(parts) - 2; i >= 0; i-- {
			m = `"` + parts[i] + `":{` + m + "}"
		}
		add(path+" "+value[:min(len(value), 40)], with(base, m), want)
	}
	quoted := func(s string) string { return `"` + s + `"` }
	bare := `{"eventType":"view_item",` + head + `}`
	buy := func(without string) string {
		raw := purchase
		for _, m := range []string{`,"orderId":"o-1"`, `,"value":99.95`, `,"currency":"EUR"`, `,"items":[{"id":"sku","quantity":1,"price":99.95}]`, `,"eventId":"` + id + `"`} {
			if strings.HasPrefix(m, `,"`+without+`"`) {
				raw = strings.Replace(raw, m, "", 1)
			}
		}
		return raw
	}
	atMost := func(base, path string, most int) {
		in(base, path, quoted(text(most)), "")
		in(base, path, quoted(strings.Repeat("ü", most)), "") // characters, not bytes
		in(base, path, quoted(text(most+1)), path+": has ")
		in(base, path, "7", path+": is a number")
		in(base, path, "null", "")
	}
	for path, most := range map[string]int{"sessionId": 100, "deviceId": 100, "context.page.title": 500, "context.page.referrer": 2048, "context.page.path": 1000,
		"context.page.search": 1000, "context.page.hash": 500, "context.page.url": 2048, "context.geo.region": 100, "context.geo.city": 100,
		"context.device.os": 1000, "anything": 1000, "any.thing.else": 1000, "properties.plan": 1000} {
		if path == "anything" || path == "any.thing.else" || path == "context.device.os" || path == "properties.plan" {
			in(bare, path, quoted(text(most)), "")
			in(bare, path, quoted(text(most+1)), path+": has ")
			in(bare, path, "7", "")
			in(bare, path, "null", "")
			continue
		}
		atMost(bare, path, most)
	}
	for path, most := range map[string]int{"coupon": 50, "paymentMethod": 50} {
		atMost(purchase, path, most)
	}
	in(bare, "context.page.url", `""`, "context.page.url: has 0 characters")
	add("a page view without a page", `{"eventType":"page_view",`+head+`}`, "context.page.url: is missing")
	add("a page view without a URL", `{"eventType":"page_view",`+head+`,"context":{"page":{"title":"t"}}}`, "context.page.url: is missing")
	for _, v := range []string{"AT", "US"} {
		in(bare, "context.geo.country", quoted(v), "")
	}
	for _, v := range []string{"at", "AUT", "A", "Ä1"} {
		in(bare, "context.geo.country", quoted(v), "context.geo.country: ")
	}
	in(bare, "context", `[]`, "context: is an array")
	in(bare, "context.page", `"x"`, "context.page: is a text")

	for v, want := range map[string]string{hash: "", strings.ToUpper(hash): "", hash[1:]: "userId: has 63", hash + "a": "userId: has 65", "g" + hash[1:]: "userId: does not"} {
		in(bare, "userId", quoted(v), want)
	}
	for v, want := range map[string]string{id: "", strings.ToUpper(id): "", "1": "eventId: has 1", strings.ReplaceAll(id, "-", "0"): "eventId: does not", "z" + id[1:]: "eventId: does not"} {
		in(bare, "eventId", quoted(v), want)
	}
	for v, want := range map[string]string{"1.0.0": "", "1.9": "", "1": "", "0.3.1": "", "2.0.0": "version: is not supported", "1.0.0.0": "version: does not", "v1": "version: does not", "1.": "version: does not", "": "version: has 0", "1.0.0-rc": "version: does not"} {
		in(bare, "version", quoted(v), want)
	}
	for v, want := range map[string]string{"k": "", text(255): "", strings.Repeat("é", 255): "", "a b": "", text(256): "idempotencyKey: has 256", "": "idempotencyKey: has 0", `a\nb`: "idempotencyKey: does not", `\u0000`: "idempotencyKey: does not"} {
		in(bare, "idempotencyKey", quoted(v), want)
	}
	replace := func(member, value, want string) {
		raw := bare
		switch member {
		case "eventType":
			raw = strings.Replace(raw, `"view_item"`, value, 1)
		case "timestamp":
			raw = strings.Replace(raw, `"2026-11-21T19:00:00.123Z"`, value, 1)
		case "siteId":
			raw = strings.Replace(raw, `"shop-1"`, value, 1)
		}
		add(member+" "+value[:min(len(value), 40)], raw, want)
	}
	for v, want := range map[string]string{`"add_to_cart"`: "", `"custom_event"`: "", `"other"`: "eventType: is no type", `""`: "eventType: has 0", `7`: "eventType: is a number", `null`: "eventType: is missing", `"a b"`: "eventType: does not"} {
		replace("eventType", v, want)
	}
	for v, want := range map[string]string{`"a"`: "", quoted(text(100)): "", `"A-Z_09"`: "", quoted(text(101)): "siteId: has 101", `""`: "siteId: has 0", `"a.b"`: "siteId: does not", `"a b"`: "siteId: does not", `"ä"`: "siteId: does not", `null`: "siteId: is missing", `{}`: "siteId: is an object"} {
		replace("siteId", v, want)
	}
	for v, want := range map[string]string{"2026-11-21T19:00:00Z": "", "2026-11-21T19:00:00.123456789+23:59": "", "2024-02-29T00:00:00-00:00": "", "2016-12-31T23:59:60Z": "", "1970-01-01T00:00:00Z": "", "1969-12-31T23:59:59Z": "timestamp: does not", "0000-01-01T00:00:00Z": "timestamp: does not",
		"2026-11-21T19:00:00": "timestamp: has 19", "2026-11-21 19:00:00Z": "timestamp: does not", "2026-13-01T00:00:00Z": "timestamp: does not", "2026-11-21T24:00:00Z": "timestamp: does not",
		"2026-11-21T19:60:00Z": "timestamp: does not", "2026-11-21T19:00:61Z": "timestamp: does not", "2026-11-21T19:00:00.Z": "timestamp: does not", "2026-11-21T19:00:00+0100": "timestamp: does not",
		"2026-11-21T19:00:00+24:00": "timestamp: does not", "2026-11-21t19:00:00z": "timestamp: does not", "2026-11-00T19:00:00Z": "timestamp: does not", "2026-00-21T19:00:00Z": "timestamp: does not", "2026-11-21T19:00:00,5Z": "timestamp: does not"} {
		replace("timestamp", quoted(v), want)
	}
	replace("timestamp", "1763751600000", "timestamp: is a number")

	for v, want := range map[string]string{"true": "", "false": "", "null": "", "1": "consent.gpc: is a number", `"true"`: "consent.gpc: is a text"} {
		in(bare, "consent.gpc", v, want)
		in(bare, "consent.tcf.purposes.11", v, strings.Replace(want, "gpc", "tcf.purposes.11", 1))
		in(bare, "consent.tcf.vendorConsent.755", v, strings.Replace(want, "gpc", "tcf.vendorConsent.755", 1))
		in(bare, "consent.tcf.vendorLI.1", v, strings.Replace(want, "gpc", "tcf.vendorLI.1", 1))
		in(bare, "consent.tcf.specialFeatures.2", v, strings.Replace(want, "gpc", "tcf.specialFeatures.2", 1))
		in(bare, "consent.customConsent.advertising", v, strings.Replace(want, "gpc", "customConsent.advertising", 1))
	}
	in(bare, "consent.tcf.purposes.12", "true", "consent.tcf.purposes.12: is a name")
	in(bare, "consent.tcf.purposes.0", "true", "consent.tcf.purposes.0: is a name")
	in(bare, "consent.tcf.specialFeatures.3", "true", "consent.tcf.specialFeatures.3: is a name")
	in(bare, "consent.tcf.vendorConsent.acme", "true", "consent.tcf.vendorConsent.acme: is a name")
	in(bare, "consent.tcf.version", `"2.2"`, "")
	in(bare, "consent.tcf.version", `"1.1"`, "consent.tcf.version: does not")
	in(bare, "consent.tcf.publisherCC", `"DE"`, "")
	in(bare, "consent.tcf.publisherCC", `"de"`, "consent.tcf.publisherCC: does not")
	in(bare, "consent.usp", `"1YNN"`, "")
	in(bare, "consent.usp", `"1YN"`, "consent.usp: has 3")
	in(bare, "consent.usp", `"éé"`, "consent.usp: has 2")
	in(bare, "consent.jurisdiction", `"ROW"`, "")
	in(bare, "consent.jurisdiction", `"DE"`, "consent.jurisdiction: is another")
	in(bare, "consent.timestamp", `"2026-11-21T19:00:00Z"`, "")
	in(bare, "consent.timestamp", `"today at seven o'clock"`, "consent.timestamp: does not")
	in(bare, "consent", `true`, "consent: is a boolean")

	add("50 properties", with(bare, `"properties":`+members(50, "1")), "")
	add("51 properties", with(bare, `"properties":`+members(51, "1")), "properties: has 51 members")
	in(bare, "properties", `[]`, "properties: is an array")
	in(bare, "properties.a", `true`, "")
	in(bare, "properties.a", `[1]`, "properties.a: is an array")
	in(bare, "properties.a", `{"b":1}`, "properties.a: is an object")
	in(bare, "properties.a", text(0)+strings.Repeat("1", 100), "")
	in(bare, "properties.a", strings.Repeat("1", 101), "properties.a: is a number of more than 100")
	add("100 elements", with(bare, `"more":`+list(100, "1")), "")
	add("101 elements", with(bare, `"more":`+list(101, "1")), "more: has 101 elements")
	add("10 levels", with(bare, `"more":`+nested(9)), "")
	add("11 levels", with(bare, `"more":`+nested(10)), "more.a.a.a.a.a.a.a.a.a: is nested deeper")
	add("arrays are levels too", with(bare, `"more":`+strings.Repeat("[", 10)+strings.Repeat("]", 10)), "more[0][0][0][0][0][0][0][0][0]: is nested deeper")
	in(bare, text(1000), `1`, "")
	in(bare, text(1001), `1`, ": has a name of more")

	for v, want := range map[string]string{`"o"`: "", quoted(text(100)): "", `""`: "orderId: has 0", quoted(text(101)): "orderId: has 101", "7": "orderId: is a number", "null": "orderId: is missing"} {
		in(buy("orderId"), "orderId", v, want)
	}
	for v, want := range map[string]string{"0": "", "-0": "", "-0.0e5": "", "1000000000": "", "1e9": "", "1000000000.0000000000": "", "0.000000000001": "", "1e-400": "", "10000000000e-1": "",
		"1000000000.0000000001": "is more", "1e10": "is more", "1e400": "is more", "1000000001": "is more", "-0.0000001": "is less", "-1": "is less", `"5"`: "is a text", "true": "is a boolean",
		"0." + strings.Repeat("1", 98): "", "0." + strings.Repeat("1", 99): "is a number of more"} {
		for _, name := range []string{"value", "conversionValue"} {
			w := want
			if w != "" {
				w = name + ": " + w
			}
			in(buy("value"), name, v, w)
		}
	}
	in(buy("value"), "value", "null", "value: is missing")
	in(purchase, "conversionValue", "1", "conversionValue: is there beside value")
	in(purchase, "conversionValue", "null", "")
	for v, want := range map[string]string{`"EUR"`: "", `"eur"`: "currency: does not", `"EURO"`: "currency: has 4", `"EU"`: "currency: has 2", "null": "currency: is missing"} {
		in(buy("currency"), "currency", v, want)
	}
	for _, name := range []string{"tax", "shipping", "discount"} {
		for v, want := range map[string]string{"0": "", "1e12": "", "-0.01": name + ": is less", `"1"`: name + ": is a text"} {
			in(purchase, name, v, want)
		}
	}
	for v, want := range map[string]string{list(1, `{"id":"a"}`): "", list(100, `{"id":"a"}`): "", list(101, `{"id":"a"}`): "items: has 101", "[]": "items: has 0", "{}": "items: is an object", `["a"]`: "items[0]: is a text", "[null]": "items[0]: is null", "null": "items: is missing"} {
		in(buy("items"), "items", v, want)
	}
	item := func(member, value, want string) {
		w := want
		if w != "" {
			w = "items[0]." + member + ": " + want
		}
		m := `{"` + member + `":` + value + `,"id":"a"}`
		if member == "id" {
			m = `{"id":` + value + `}`
		}
		in(buy("items"), "items", "["+m+"]", w)
	}
	item("id", quoted(text(100)), "")
	item("id", quoted(text(101)), "has 101")
	item("id", `""`, "has 0")
	item("id", `null`, "is missing")
	item("id", `7`, "is a number")
	for name, most := range map[string]int{"name": 200, "category": 100, "brand": 100, "variant": 100} {
		item(name, quoted(text(most)), "")
		item(name, quoted(text(most+1)), "has ")
	}
	for v, want := range map[string]string{"1": "", "10000": "", "1.0": "", "1e4": "", "0": "is less", "10001": "is more", "10000.5": "is more", "1.5": "is no whole", "0.5": "is less", `"1"`: "is a text"} {
		item("quantity", v, want)
	}
	for v, want := range map[string]string{"0": "", "1000000": "", "0.005": "", "1000000.01": "is more", "-1": "is less"} {
		item("price", v, want)
	}
	item("image", quoted(text(1000)), "")
	item("image", quoted(text(1001)), "has 1,001")
	for _, name := range []string{"emailHash", "phoneHash", "firstName", "lastName", "addressHash"} {
		in(purchase, "enhancedConversion."+name, quoted(hash), "")
		in(purchase, "enhancedConversion."+name, `"x@example.com"`, "enhancedConversion."+name+": has ")
	}
	return all
}

func TestBoundsOfEveryField(t *testing.T) {
	r := newRules(t, event.Options{})
	for _, c := range bounds() {
		got := problems(t, r, c.raw, event.Given{})
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q, want no problem", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)):
			t.Errorf("%s: %q, want only %q", c.name, got, c.want)
		}
	}
}
