package event_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/crm/event"
)

const good = `{"id":"evt-1","type":"member.created","tenantId":"club-7","identity":{"externalId":"m-1","email":"ann@example.com","phone":"+49 30 1234"},"occurredAt":"2026-01-15T10:00:00.123+01:00","payload":{"a":12345678901234567890}, "more":[1]}`

func TestDecode(t *testing.T) {
	var e event.Event
	if err := event.Decode([]byte(good), &e); err != nil {
		t.Fatal(err)
	}
	if e.ID != "evt-1" || e.Type != "member.created" || e.Tenant != "club-7" || e.Identity.External != "m-1" || e.Identity.Email != "ann@example.com" ||
		e.Identity.Phone != "+49 30 1234" || !e.Time.Equal(time.Date(2026, 1, 15, 9, 0, 0, 123e6, time.UTC)) || string(e.Payload) != `{"a":12345678901234567890}` || string(e.Raw) != good {
		t.Errorf("read %+v", e)
	}
}

// with is the good event with one part replaced.
func with(old, new string) string {
	if strings.Count(good, old) != 1 {
		panic(old)
	}
	return strings.Replace(good, old, new, 1)
}

func TestWhatIsRefused(t *testing.T) {
	id, typ, tenant, when := `"id":"evt-1"`, `"type":"member.created"`, `"tenantId":"club-7"`, `"occurredAt":"2026-01-15T10:00:00.123+01:00"`
	ids := `{"externalId":"m-1","email":"ann@example.com","phone":"+49 30 1234"}`
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", ``, "malformed"},
		{"no object", `[1]`, " is an array"},
		{"cut off", good[:len(good)-1], "malformed"},
		{"two events", good + good, "malformed"},
		{"a name twice", with(id, `"id":"a","id":"b"`), "malformed"},
		{"a name twice within", with(`{"a":12345678901234567890}`, `{"a":1,"a":2}`), "malformed"},
		{"no UTF-8", with("evt-1", "\xff"), "malformed"},
		{"too large", with(`[1]`, `"`+strings.Repeat("x", event.MaxSize)+`"`), " has 262"},
		{"empty", `{}`, "id is missing, type is missing, tenantId is missing, identity is missing, occurredAt is missing"},
		{"null is absent", with(id, `"id":null`), "id is missing"},
		{"id: a number", with(id, `"id":1`), "id is a number"},
		{"id: empty", with(id, `"id":""`), "id is a text"},
		{"id: too long", with("evt-1", strings.Repeat("x", 256)), "id is a text"},
		{"id: control", with("evt-1", `a\u0000b`), "id is a text"},
		{"type: a space", with(typ, `"type":"a b"`), "type is a text"},
		{"type: too long", with("member.created", strings.Repeat("x", 101)), "type is a text"},
		{"type: a pattern", with("member.created", "member.*"), "type is a text"},
		{"tenant: a slash", with(tenant, `"tenantId":"a/b"`), "tenantId is a text"},
		{"tenant: an object", with(tenant, `"tenantId":{}`), "tenantId is an object"},
		{"time: none", with(when, `"occurredAt":"yesterday"`), "occurredAt is a text that"},
		{"time: no zone", with(when, `"occurredAt":"2026-01-15T10:00:00"`), "occurredAt is a text that"},
		{"time: a number", with(when, `"occurredAt":1768471200000`), "occurredAt is a number"},
		{"identity: a text", with(ids, `"ann@example.com"`), "identity is a text"},
		{"identity: of nobody", with(ids, `{"email":null,"name":"Ann"}`), "identity names nobody"},
		{"identity: of spaces", with(ids, `{"email":"  "}`), "identity names nobody"},
		{"identity: a number", with(ids, `{"externalId":7}`), "identity.externalId is a number"},
		{"identity: no address", with(ids, `{"email":"ann"}`), "identity.email cannot be one"},
		{"identity: no phone", with(ids, `{"phone":"call me"}`), "identity.phone cannot be one"},
		{"payload: an array", with(`{"a":12345678901234567890}`, `[]`), "payload is an array"},
	} {
		var e event.Event
		err := event.Decode([]byte(c.raw), &e)
		bad, ok := errors.AsType[*event.Invalid](err)
		if !ok || tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var all []string
		for _, p := range bad.Problems {
			all = append(all, p.Path+" "+p.Wrong)
			if p.Allowed == "" {
				t.Errorf("%s: nothing is said about what is allowed", c.name)
			}
		}
		got := strings.Join(all, ", ")
		if bad.Malformed {
			got = "malformed"
		}
		if !strings.HasPrefix(got, c.want) || c.want == "malformed" != bad.Malformed {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatIsTaken(t *testing.T) {
	for _, c := range []struct{ name, raw string }{
		{"one identity", with(`{"externalId":"m-1","email":"ann@example.com","phone":"+49 30 1234"}`, `{"email":"ann@example.com","loyaltyId":7}`)},
		{"no payload", with(`"payload":{"a":12345678901234567890}, `, "")},
		{"payload null", with(`{"a":12345678901234567890}`, "null")},
		{"escapes", with(`"type"`, `"\u0074ype"`)},
		{"spaces", " " + good + "\n"},
	} {
		var e event.Event
		if err := event.Decode([]byte(c.raw), &e); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestProblemsNeverQuoteValues(t *testing.T) {
	var e event.Event
	err := event.Decode([]byte(with(`"ann@example.com"`, `"secret person"`)), &e)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"identity":{"email":"a@b"},"payload":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		var e event.Event
		err := event.Decode(raw, &e)
		if !bytes.Equal(raw, before) {
			t.Error("the bytes were changed")
		}
		if err != nil {
			return
		}
		if e.ID == "" || !event.ValidType(e.Type) || !event.ValidTenant(e.Tenant) || e.Time.IsZero() && !bytes.Contains(raw, []byte("0001")) {
			t.Errorf("%q was read as %+v", raw, e)
		}
		if e.Payload != nil && (e.Payload[0] != '{' || !bytes.Contains(raw, e.Payload)) {
			t.Errorf("payload %q of %q", e.Payload, raw)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw := []byte(good)
	b.ReportAllocs()
	for b.Loop() {
		var e event.Event
		if err := event.Decode(raw, &e); err != nil {
			b.Fatal(err)
		}
	}
}
