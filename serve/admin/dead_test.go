package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// day is when the letters of these tests died.
var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dead is a desk over letters: of two partners, two sites, a route and analytics.
func dead(t *testing.T) (*desk, deadletter.Store) {
	t.Helper()
	s, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ls []tidemill.DeadLetter
	for i, c := range []struct {
		pipeline, tenant, id string
		kind                 tidemill.Kind
	}{
		{"s2s.dv360", "shop", "e1/dv360", tidemill.Timeout},
		{"s2s.dv360", "blog", "e2/dv360", tidemill.Partner},
		{"s2s.yahoo", "shop", "e1/yahoo", tidemill.RateLimit},
		{"route.high", "shop", "e3", tidemill.Validation},
		{"analytics", "33333333-3333-4333-8333-333333333333", "e4", tidemill.Transient},
	} {
		m := &tidemill.Message{ID: c.id, Tenant: c.tenant, Type: "purchase", To: strings.Replace(c.pipeline, "route.", "ingest.", 1), Payload: fmt.Appendf(nil, `{ "n": %d }`, i),
			Header: []tidemill.Field{{Name: []byte("gpc"), Value: []byte("1")}}, Mark: tidemill.Mark{Lo: uint64(i)}}
		if i == 0 {
			for k := range 2 {
				f := queue.Failure{At: day.Add(time.Duration(k-2) * time.Minute), Kind: tidemill.Partner, Cause: fmt.Sprint("answered 50", k)}
				m.Header = append(m.Header, tidemill.Field{Name: []byte(queue.FailuresHeader), Value: f.Append(nil)})
			}
		}
		ls = append(ls, tidemill.DeadLetter{Pipeline: c.pipeline, Message: m, Kind: c.kind, Cause: "it <failed>", Tries: 3, At: day.Add(time.Duration(i) * time.Hour),
			Row: []byte(`{"status":503,"body":"try \"later\""}`)})
	}
	if err := s.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	return newDesk(t, admin.Parts{Letters: s}), s
}

func TestAPartnerThatThereNeverWasIsATypingError(t *testing.T) {
	_, s := dead(t)
	cfg := loaded(t)
	deliveryconfig.Of(cfg).Partners = []partner.Partner{{Name: "dv360"}, {Name: "tradedesk"}}
	d := newDesk(t, admin.Parts{Letters: s, Config: constant(cfg)})
	for query, want := range map[string]int{"dead?partner=dv360": 2, "dead?partner=tradedesk": 0, "dead?partner=yahoo": 1} { // yahoo was one
		if got := lines(d.get(query)); len(got) != want {
			t.Errorf("%s lists %q, want %d", query, got, want)
		}
	}
	for method, query := range map[string]string{"GET": "dead?partner=dv630", "POST": "dead/replay?partner=dv630&dry_run=true"} {
		refused(t, d.ask(method, query, ""), http.StatusNotFound, `there is no partner "dv630", and no letter of one that was called so; there are dv360, tradedesk`)
	}
}

func TestLettersAreChosenByEveryFilter(t *testing.T) {
	d, s := dead(t)
	if _, err := s.Replay(t.Context(), deadletter.Filter{IDs: []string{"e3"}}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                                    "1 2 3 4 5",
		"partner=dv360":                       "1 2",
		"partner=dv360&pipeline=s2s.dv360":    "1 2",
		"pipeline=route.high":                 "4",
		"site=shop":                           "1 3 4",
		"site=shop&partner=yahoo":             "3",
		"reason=timeout":                      "1",
		"reason=rate_limit":                   "3",
		"reason=validation":                   "4",
		"reason=partner_error":                "2 5",
		"reason=timeout&reason=validation":    "1 4",
		"reason=partner_error&kind=transient": "5",
		"kind=partner_error":                  "2",
		"since=2026-03-01T14:00:00Z":          "3 4 5",
		"until=2026-03-01T14:00:00Z":          "1 2",
		"since=2026-03-01T13:00:00Z&until=2026-03-01T15:00:00Z": "2 3",
		"state=replaying":      "4",
		"state=held&site=shop": "1 3",
		"seq=2&seq=5":          "2 5",
		"id=e1/dv360&id=e4":    "1 5",
		"max=2":                "1 2",
	} {
		var got []string
		for _, l := range lines(d.get("dead?" + query)) {
			got = append(got, fmt.Sprint(d.field(l, "seq")))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("dead?%s lists %v, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"reason=late":                      "want one of",
		"reason=timeout&kind=validation":   "no failure of the kinds",
		"partner=dv360&pipeline=s2s.yahoo": "leave one out",
		"site=shop&project=shop":           "leave one out",
		"state=gone":                       "want held or replaying",
		"seq=first":                        `seq="first" is no number`,
		"since=soon":                       `since="soon" is no time`,
		"format=xml":                       `format="xml"`,
	} {
		refused(t, d.ask("GET", "dead?"+query, ""), http.StatusBadRequest, want)
	}
	refused(t, d.ask("GET", "dead?project=shop", ""), http.StatusNotFound, "site=shop chooses by site")
}

func TestALetterIsShownWithEveryAttempt(t *testing.T) {
	d, _ := dead(t)
	for _, name := range []string{"1", url.PathEscape("e1/dv360")} {
		got := d.get("dead/" + name)
		want := `{"seq":1,"id":"e1/dv360","pipeline":"s2s.dv360","system":"delivery","partner":"dv360","site":"shop","type":"purchase","state":"held","reason":"timeout","kind":"timeout",` +
			`"cause":"it \u003cfailed\u003e","tries":3,"replays":0,"first_failed_at":"2026-03-01T11:58:00Z","last_failed_at":"2026-03-01T12:00:00Z","etag":"d71df146357b375548a11d7a3cf152f2","payload":"{ \"n\": 0 }",` +
			`"fields":[{"name":"gpc","value":"1"}],"row":{"status":503,"body":"try \"later\""},` +
			`"attempts":[{"at":"2026-03-01T11:58:00Z","kind":"partner_error","cause":"answered 500"},{"at":"2026-03-01T11:59:00Z","kind":"partner_error","cause":"answered 501"}],` +
			`"history":[{"at":"2026-03-01T12:00:00Z","kind":"timeout","cause":"it \u003cfailed\u003e","tries":3}]}` + "\n"
		if got != want {
			t.Errorf("dead/%s is\n%swant\n%s", name, got, want)
		}
	}
	if l := d.get("dead/5"); d.field(l, "project_id") != "33333333-3333-4333-8333-333333333333" || d.field(l, "site") != nil || d.field(l, "partner") != nil {
		t.Errorf("a letter of analytics is %s", l)
	}
	refused(t, d.ask("GET", "dead/99", ""), http.StatusNotFound, "there is no dead letter 99")
}

func TestTheExportIsTheFormOfProgramsOutside(t *testing.T) {
	d, _ := dead(t)
	got := lines(d.get("dead?format=export"))
	want := `{"originalPayload":"{ \"n\": 0 }","error":"it \u003cfailed\u003e","attempts":3,"firstFailure":"2026-03-01T11:58:00Z","lastFailure":"2026-03-01T12:00:00Z",` +
		`"queue":"s2s.dv360","reason":"timeout","id":"e1/dv360","kind":"timeout","partner":"dv360","site":"shop","response":{"status":503,"body":"try \"later\""}}`
	if len(got) != 5 || got[0] != want {
		t.Errorf("exported %d as\n%s\nwant 5, the first\n%s", len(got), got[0], want)
	}
	if q := d.field(got[3], "queue"); q != "ingest.high" {
		t.Errorf("the queue of a letter of routing is %v, want the one that it came from", q)
	}
	d.put("dead/1/payload", `{"n":"mended"}`)
	d.put("dead/2/payload", "\xff")
	got = lines(d.get("dead?format=export&partner=dv360"))
	if d.field(got[0], "originalPayload") != `{ "n": 0 }` || d.field(got[0], "editedPayload") != `{"n":"mended"}` {
		t.Errorf("an edited letter is exported as %s", got[0])
	}
	if d.field(got[1], "originalPayload") != `{ "n": 1 }` || d.field(got[1], "editedPayloadBase64") != "/w==" || d.field(got[1], "editedPayload") != nil {
		t.Errorf("a letter that was edited to no text is exported as %s", got[1])
	}
}

func TestALetterIsEdited(t *testing.T) {
	d, s := dead(t)
	got := d.put("dead/"+url.PathEscape("e1/dv360")+"/payload", "mended\n")
	if d.field(got, "payload") != "mended\n" || d.field(got, "original_payload") != `{ "n": 0 }` || d.field(got, "edited_at") == nil {
		t.Errorf("answered %s", got)
	}
	d.logged("dead letter edited by hand", "seq=1", "bytes=7")
	if strings.Contains(d.log.String(), "mended") {
		t.Errorf("the log has the payload: %s", d.log.String())
	}
	refused(t, d.ask("PUT", "dead/1/payload", ""), http.StatusBadRequest, "no body")
	refused(t, d.ask("PUT", "dead/1/payload", strings.Repeat("x", 4<<20+1)), http.StatusRequestEntityTooLarge, "larger than 4 MiB")
	refused(t, d.ask("PUT", "dead/99/payload", "x"), http.StatusNotFound, "there is no dead letter 99")
	d.post("dead/replay?seq=1", "")
	refused(t, d.ask("PUT", "dead/1/payload", "x"), http.StatusConflict, "is being replayed")
	twin := tidemill.DeadLetter{Pipeline: "other", Message: &tidemill.Message{ID: "e4"}, At: day}
	if err := s.Put(t.Context(), []tidemill.DeadLetter{twin}); err != nil {
		t.Fatal(err)
	}
	refused(t, d.ask("PUT", "dead/e4/payload", "x"), http.StatusConflict, "several letters have the id e4: say which pipeline")
	d.put("dead/6/payload", "x")
	if l := d.get("dead/e4?pipeline=analytics"); d.field(l, "seq") != 5.0 {
		t.Errorf("of analytics the letter is %s", l)
	}
	if l := d.put("dead/e4/payload?pipeline=other", "y"); d.field(l, "seq") != 6.0 {
		t.Errorf("edited is %s", l)
	}
	refused(t, d.ask("GET", "dead/e4?pipeline=nix", ""), http.StatusNotFound, "there is no dead letter e4 of pipeline nix")
	refused(t, d.ask("GET", "dead/5?pipeline=other", ""), http.StatusNotFound, "there is no dead letter 5 of pipeline other")
}

func TestALetterThatNoReplayCouldReadIsNotEdited(t *testing.T) {
	_, s := dead(t)
	var asked []string
	d := newDesk(t, admin.Parts{Letters: s, Systems: []admin.System{
		{Name: "another", Decodes: func(string, *tidemill.Message) error { return tidemill.Fail(tidemill.Validation, "it is not asked") }},
		{Name: delivery.Name, Decodes: func(pipeline string, m *tidemill.Message) error {
			asked = append(asked, fmt.Sprintf("%s %s %s %s", pipeline, m.ID, m.Tenant, m.Payload))
			if string(m.Payload) != "good" {
				return tidemill.Fail(tidemill.Validation, "it has no type")
			}
			return nil
		}},
	}})
	refused(t, d.ask("PUT", "dead/1/payload", "bad"), http.StatusUnprocessableEntity, "a replay could not read the new payload, nothing is changed: it has no type")
	if l := d.get("dead/1"); d.field(l, "payload") != `{ "n": 0 }` || d.field(l, "edited_at") != nil {
		t.Errorf("it is %s", l)
	}
	if l := d.put("dead/1/payload", "good"); d.field(l, "payload") != "good" {
		t.Errorf("edited it is %s", l)
	}
	if want := []string{"s2s.dv360 e1/dv360 shop bad", "s2s.dv360 e1/dv360 shop good"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

func TestLettersAreMovedByFilterAndCountedBefore(t *testing.T) {
	d, s := dead(t)
	d.post("dead/replay?seq=3", "")
	before := time.Now()
	got := d.post("dead/replay?site=shop&dry_run=true", "")
	if d.field(got, "count") != 2.0 {
		t.Errorf("a dry run says %s, want the 2 that are held", got)
	}
	if at, err := time.Parse(time.RFC3339, d.field(got, "as_of").(string)); err != nil || at.Before(before.Add(-time.Second)) || at.After(time.Now()) {
		t.Errorf("as of %v, %v", at, err)
	}
	for _, c := range []struct {
		path string
		want float64
	}{
		{"dead/replay?reason=timeout", 1},
		{"dead/replay?reason=timeout", 0},
		{"dead/delete?partner=dv360&since=2026-03-01T13:00:00Z&until=2026-03-01T14:00:00Z", 1},
		{"dead/delete?all=true&dry_run=true", 2},
		{"dead/delete?all=true", 2},
	} {
		if got := d.post(c.path, ""); d.field(got, "count") != c.want {
			t.Errorf("%s: %s, want %v", c.path, got, c.want)
		}
	}
	d.logged("dead letters moved by hand", "what=delete", "count=2", "dry_run=false")
	if n, err := s.Count(t.Context(), deadletter.Filter{}); n != 2 || err != nil {
		t.Errorf("left: %d, %v; want the 2 that are replaying", n, err)
	}
	refused(t, d.ask("POST", "dead/replay", ""), http.StatusBadRequest, "say which letters")
	refused(t, d.ask("POST", "dead/replay?state=held", ""), http.StatusBadRequest, "say which letters")
	refused(t, d.ask("POST", "dead/delete?state=replaying&all=true", ""), http.StatusBadRequest, "cannot be moved")
}

// TestASystemChoosesItsLettersInTheStoreOfAll has two systems in one embedded database.
func TestASystemChoosesItsLettersInTheStoreOfAll(t *testing.T) {
	s, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"crm-events", "s2s.dv360", "ingest.high", "nobody's"} {
		if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: p, At: day, Message: &tidemill.Message{ID: "of " + p, Payload: []byte("{}")}}}); err != nil {
			t.Fatal(err)
		}
	}
	d := newDesk(t, admin.Parts{Letters: s, Systems: []admin.System{{Name: "crm"}, {Name: "delivery"}}})
	if got := lines(d.get("dead?system=crm")); len(got) != 1 || d.field(got[0], "id") != "of crm-events" {
		t.Errorf("the letters of crm are %q", got)
	}
	refused(t, d.ask("GET", "dead/2?system=crm", ""), http.StatusNotFound, "there is no dead letter 2")
	for _, c := range []struct {
		path string
		want float64
	}{{"dead/replay?system=crm&all=true&dry_run=true", 1}, {"dead/delete?system=crm&all=true", 1}, {"dead/delete?system=crm&all=true", 0}, {"dead/delete?system=delivery&all=true", 2}, {"dead/delete?all=true", 1}} {
		if got := d.post(c.path, ""); d.field(got, "count") != c.want {
			t.Errorf("%s: %s, want %v", c.path, got, c.want)
		}
	}
}

// Two systems on two servers have two stores, each with numbers of its own.
func TestLettersOfDeliveryMayLieInAStoreOfTheirOwn(t *testing.T) {
	store := func(pipelines ...string) deadletter.Store {
		s, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pipelines {
			if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: p, At: day, Message: &tidemill.Message{ID: "of " + p, Payload: []byte("{}")}}}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	main, own := store("analytics", "analytics.more"), store("s2s.dv360", "ingest.high", "s2s.yahoo")
	d := newDesk(t, admin.Parts{Letters: main, OwnLetters: []admin.OwnLetters{{System: delivery.Name, Store: own}}, Systems: []admin.System{{Name: "analytics"}, {Name: "delivery"}},
		Owners: []admin.Owner{{System: "analytics", Owns: func(pipeline string) bool { return strings.HasPrefix(pipeline, "analytics") }}}})
	for query, want := range map[string]string{
		"":                      "of analytics, of analytics.more, of s2s.dv360, of ingest.high, of s2s.yahoo",
		"max=1":                 "of analytics",
		"max=3":                 "of analytics, of analytics.more, of s2s.dv360",
		"system=delivery&max=2": "of s2s.dv360, of ingest.high",
		"system=analytics":      "of analytics, of analytics.more",
		"partner=yahoo":         "of s2s.yahoo",
		"pipeline=ingest.high":  "of ingest.high",
		"pipeline=analytics":    "of analytics",
		"seq=1":                 "of analytics, of s2s.dv360",
	} {
		var got []string
		for _, l := range lines(d.get("dead?" + query)) {
			got = append(got, d.field(l, "id").(string))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("dead?%s lists %q, want %s", query, got, want)
		}
	}
	refused(t, d.ask("GET", "dead?system=nix", ""), http.StatusNotFound, `no system "nix" runs here`)
	refused(t, d.ask("GET", "dead/1", ""), http.StatusConflict, "of the pipelines analytics and s2s.dv360: say which pipeline")
	refused(t, d.ask("PUT", "dead/1/payload", "x"), http.StatusConflict, "say which pipeline")
	if l := d.get("dead/3"); d.field(l, "pipeline") != "s2s.yahoo" {
		t.Errorf("letter 3 is %s", l)
	}
	if l := d.put("dead/1/payload?system=delivery", "x"); d.field(l, "pipeline") != "s2s.dv360" || d.field(l, "payload") != "x" {
		t.Errorf("edited: %s", l)
	}
	for _, c := range []struct {
		path string
		want float64
	}{{"dead/replay?all=true&dry_run=true", 5}, {"dead/replay?max=3", 3}, {"dead/delete?system=delivery&all=true", 2}, {"dead/delete?all=true", 0}} {
		if got := d.post(c.path, ""); d.field(got, "count") != c.want {
			t.Errorf("%s: %s, want %v", c.path, got, c.want)
		}
	}
}
