package handler_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// known makes a profile of tenant club.
func known(t *testing.T, p profile.Resolver) uuid.UUID {
	t.Helper()
	answers := make([]profile.Answer, 1)
	if err := p.Resolve(t.Context(), []profile.Ask{{Tenant: "club", Identities: profile.Identities{Email: "a@b"}, Create: true}}, answers); err != nil || answers[0].Err != nil {
		t.Fatal(err, answers[0].Err)
	}
	return answers[0].Profile
}

func shown(t *testing.T, p profile.Directory, id uuid.UUID) string {
	t.Helper()
	is, err := p.Get(t.Context(), "club", id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for k, v := range is.Attributes {
		all = append(all, k+"="+string(v))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestAttributes(t *testing.T) {
	const event = `{"id":%q,"type":"member.updated","tenantId":"club","identity":{"email":"a@b"},"occurredAt":"2026-01-15T10:00:%02dZ","payload":%s}`
	payload := `{"name":"Ann", "n":12345678901234567890, "address":{"city":"Berlin","geo":[52.50, 13.4]}, "tags":["a","b"]}`
	for _, c := range []struct {
		name    string
		mapping handler.Mapping
		second  string // the payload of a later event
		want    string
	}{
		{"by path, byte for byte", handler.Mapping{{Attribute: "first", From: "payload.name"}, {Attribute: "big", From: "payload.n"}, {Attribute: "city", From: "payload.address.city"},
			{Attribute: "lat", From: "payload.address.geo.0"}, {Attribute: "mail", From: "identity.email"}, {Attribute: "none", From: "payload.no.such"}, {Attribute: "deep", From: "payload.name.first"}}, "",
			`big=12345678901234567890 city="Berlin" first="Ann" lat=52.50 mail="a@b"`},
		{"all of an object, named ones first", handler.Mapping{{Attribute: "*", From: "payload.address"}, {Attribute: "city", Value: `"fixed"`}}, "", `city="fixed" geo=[52.50, 13.4]`},
		{"with a prefix", handler.Mapping{{Attribute: "crm_*", From: "payload"}}, `{"name":"Bea"}`, `crm_address={"city":"Berlin","geo":[52.50, 13.4]} crm_n=12345678901234567890 crm_name="Bea" crm_tags=["a","b"]`},
		{"once", handler.Mapping{{Attribute: "first", From: "payload.name", Op: "set_once"}}, `{"name":"Bea"}`, `first="Ann"`},
		{"null removes", handler.Mapping{{Attribute: "first", From: "payload.name"}}, `{"name":null}`, ``},
		{"unset", handler.Mapping{{Attribute: "first", From: "payload.name"}, {Attribute: "tag", Op: "unset"}}, `{}`, `first="Ann"`},
		{"nothing at all", handler.Mapping{}, ``, ``},
	} {
		p, err := tableprofile.Memory(profile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		id := known(t, p)
		h, err := handler.Attributes(p, c.mapping)
		if err != nil {
			t.Fatal(c.name, err)
		}
		spec := handler.Spec{Name: "profile", Types: []string{"*"}, Handler: h, Many: 100}
		for i, second := range []string{payload, c.second} {
			if second == "" {
				continue
			}
			out, err := handler.Try(t.Context(), spec, fmt.Appendf(nil, event, fmt.Sprint("e", i), i, second), handler.Who{Profile: id})
			if err != nil || out.Err != nil {
				t.Errorf("%s: %v, %v", c.name, err, out.Err)
			}
		}
		if got := shown(t, p, id); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		out, err := handler.Try(t.Context(), spec, fmt.Appendf(nil, event, "e9", 9, payload), handler.Who{Profile: uuid.New()})
		if err != nil || len(c.mapping) > 0 && out.Kind != tidemill.NotFound {
			t.Errorf("%s: of a profile that is not there: %v, %v", c.name, err, out.Err)
		}
	}
}

func TestMappingsThatAreNone(t *testing.T) {
	for _, m := range []handler.Mapping{
		{{Attribute: "", From: "id"}},
		{{Attribute: "a"}},
		{{Attribute: "a", From: "id", Value: "1"}},
		{{Attribute: "a", From: "payload..b"}},
		{{Attribute: "a", From: "id"}, {Attribute: "a", From: "type"}},
		{{Attribute: "a", Value: "gold"}},
		{{Attribute: "*", Value: "1"}},
		{{Attribute: "a", From: "id", Op: "multiply"}},
		{{Attribute: "a", From: "id", Op: "increment"}}, // it would count each time
	} {
		if _, err := handler.Attributes(nil, m); err == nil {
			t.Errorf("%+v was taken", m)
		}
	}
}

// C4: an increment and the event's COMPLETED are committed together: once, or not at all.
func TestAttributesInTheTransaction(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	entries, err := sqlitetable.New(t.Context(), db, tableledger.Spec(""))
	if err != nil {
		t.Fatal(err)
	}
	log := tableledger.New(entries, tableledger.Options{})
	profiles, err := sqlitetable.New(t.Context(), db, tableprofile.Spec())
	if err != nil {
		t.Fatal(err)
	}
	p, err := tableprofile.New(profiles, profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := known(t, p)
	h, err := handler.AttributesIn(log, p, handler.Mapping{{Attribute: "visits", Value: "1", Op: "increment"}, {Attribute: "points", From: "payload.points", Op: "increment"}})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(key string) *handler.Call {
		e := &ledger.Entry{Key: key, Holder: "h"}
		if err := log.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil || e.State != ledger.Fresh {
			t.Fatal(err, e.State)
		}
		c := &handler.Call{Profile: id, Entry: e}
		c.Event.Tenant, c.Event.ID, c.Event.Raw = "club", key, fmt.Appendf(nil, `{"payload":{"points":%s}}`, map[bool]string{true: `"no number"`, false: "2.5"}[key == "bad"])
		return c
	}
	a, b, bad, taken := begin("a"), begin("b"), begin("bad"), begin("taken")
	begin("taken") // by the same holder once more: the first has lost it
	run := func(all ...*handler.Call) []error {
		var r handler.Runner
		return r.Run(context.Background(), &handler.Spec{Name: "p", Handler: h, Many: 10, Timeout: handler.DefaultTimeout}, all)
	}
	errs := run(a, b, bad)
	if errs == nil || errs[0] != nil || errs[1] != nil || tidemill.KindOf(errs[2]) != tidemill.Validation || !a.Committed || !b.Committed || bad.Committed {
		t.Errorf("%v; committed %v %v %v", errs, a.Committed, b.Committed, bad.Committed)
	}
	if errs := run(a); errs != nil { // its answer was lost: the same again
		t.Errorf("once more: %v", errs)
	}
	if errs := run(taken); errs == nil || taken.Committed {
		t.Error("what somebody else has was committed")
	}
	if got := shown(t, p, id); got != `points=5.0 visits=2` {
		t.Errorf("attributes %s", got)
	}
	for key, want := range map[string]ledger.State{"a": ledger.Done, "b": ledger.Done, "bad": ledger.Running, "taken": ledger.Running} {
		e := &ledger.Entry{Key: key}
		if err := log.Find(t.Context(), []*ledger.Entry{e}); err != nil || e.State != want {
			t.Errorf("%s is %v, want %v (%v)", key, e.State, want, err)
		}
	}
	if errs := run(&handler.Call{}); tidemill.KindOf(errs[0]) != tidemill.Internal {
		t.Errorf("without an entry: %v", errs)
	}
}
