package delivery_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestAnEventGoesToEachPartnerThatIsToHaveIt(t *testing.T) {
	ps := []partner.Partner{to("all"),
		to("buyers", func(p *partner.Partner) { p.When = `event.eventType == "purchase" && event.value > 10` }),
		to("other", func(p *partner.Partner) { p.Sites = []string{"elsewhere"} })}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.add(delivery.High, "shop", "e1", "purchase", `,"value":12.5`)
		w.add(delivery.Standard, "shop", "e2", "page_view", "")
		w.add(delivery.Low, "shop", "e3", "purchase", `,"value":3`)
		rest(time.Second)
		for name, want := range map[string]string{"all": "e1 e2 e3", "buyers": "e1", "other": ""} {
			var keys []string
			for _, r := range w.requests(name) {
				keys = append(keys, r.key)
			}
			slices.Sort(keys)
			if got := strings.Join(keys, " "); got != want {
				t.Errorf("%s got %q, want %q", name, got, want)
			}
		}
		if got := w.event("shop", "e1"); got.State != delivery.StateDone || len(got.Partners) != 2 || got.Type != "purchase" || got.Queue != delivery.High {
			t.Errorf("status %+v", got)
		}
		if want := `{"eventType":"purchase","timestamp":"2026-01-15T10:00:00Z","siteId":"shop","eventId":"e1","value":12.5}`; w.requests("buyers")[0].body != want {
			t.Errorf("sent %s, want it as received", w.requests("buyers")[0].body)
		}
		w.balanced()
	})
}

func TestNobodyWantsIt(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.When = `event.currency == "USD"` })}, func(w *world) {
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(time.Second)
		if e := w.event("shop", "e1"); e.State != delivery.StateSkipped || e.Why != delivery.NoRoute {
			t.Errorf("status %+v", e)
		}
		w.balanced()
	})
}

func TestConsent(t *testing.T) {
	gpc := tidemill.Field{Name: []byte(delivery.GPCHeader), Value: []byte("1")}
	for _, c := range []struct {
		name, consent string
		header        []tidemill.Field
		absent        bool // the site's setting
		sent          bool
	}{
		{"nothing is said, and the site sends", "", nil, true, true},
		{"nothing is said, and the site does not", "", nil, false, false},
		{"the browser says no", "", []tidemill.Field{gpc}, true, false},
		{"null", `null`, nil, true, true},
		{"empty", `{}`, nil, true, false},
		{"of another form", `"yes"`, nil, true, false},
		{"only where from", `{"jurisdiction":"EU"}`, nil, true, false},
		{"purposes 1 and 7", `{"tcf":{"version":"2.2","purposes":{"1":true,"7":true}}}`, nil, false, true},
		{"purpose 7 is missing", `{"tcf":{"version":"2.2","purposes":{"1":true}}}`, nil, true, false},
		{"purpose 1 is refused", `{"tcf":{"version":"2.2","purposes":{"1":false,"7":true}}}`, nil, true, false},
		{"purposes of another form", `{"tcf":{"purposes":[1,7]}}`, nil, true, false},
		{"gpc in California", `{"gpc":true,"jurisdiction":"CA","customConsent":{"advertising":true}}`, nil, true, false},
		{"gpc somewhere", `{"gpc":true,"customConsent":{"advertising":true}}`, nil, true, false},
		{"gpc where the law does not know it, and purposes", `{"gpc":true,"jurisdiction":"EU","tcf":{"purposes":{"1":true,"7":true}}}`, nil, true, true},
		{"the browser says no in California", `{"jurisdiction":"CA","customConsent":{"advertising":true}}`, []tidemill.Field{gpc}, true, false},
		{"gpc false", `{"gpc":false,"jurisdiction":"CA"}`, nil, true, true},
		{"gpc false in Europe", `{"gpc":false,"jurisdiction":"EU"}`, nil, true, true},
		{"gpc false in Europe, and the browser says no", `{"gpc":false,"jurisdiction":"EU"}`, []tidemill.Field{gpc}, true, false},
		{"no sale", `{"usp":"1YYN"}`, nil, true, false},
		{"sale", `{"usp":"1YNN"}`, nil, true, true},
		{"advertising", `{"customConsent":{"advertising":true,"marketing":true}}`, nil, true, true},
		{"no advertising", `{"customConsent":{"advertising":false,"marketing":true}}`, nil, true, false},
		{"analytics alone", `{"customConsent":{"analytics":true}}`, nil, true, false},
		{"advertising without marketing", `{"customConsent":{"advertising":true,"marketing":false}}`, nil, true, false},
		{"advertising without analytics", `{"customConsent":{"advertising":true,"analytics":false}}`, nil, true, false},
		{"advertising without personalization", `{"customConsent":{"advertising":true,"marketing":true,"analytics":true,"personalization":false}}`, nil, true, false},
		{"all of it", `{"customConsent":{"advertising":true,"marketing":true,"analytics":true,"personalization":true}}`, nil, true, true},
		{"the vendor is named", `{"tcf":{"purposes":{"1":true,"7":true},"vendorConsent":{"755":true}}}`, nil, true, true},
		{"the vendor is refused", `{"tcf":{"purposes":{"1":true,"7":true},"vendorConsent":{"755":false,"1":true}}}`, nil, true, false},
		{"vendors are named, and not this one", `{"tcf":{"purposes":{"1":true,"7":true},"vendorConsent":{"1":true}}}`, nil, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := delivery.Options{Absent: func(site string) bool { return site == "shop" && c.absent }}
			in(t, o, []partner.Partner{to("p", func(p *partner.Partner) { p.Vendor = "755" })}, func(w *world) {
				more := ""
				if c.consent != "" {
					more = `,"consent":` + c.consent
				}
				w.add(delivery.Standard, "shop", "e1", "page_view", more, c.header...)
				rest(time.Second)
				if sent := len(w.requests("p")) == 1; sent != c.sent {
					t.Errorf("sent: %v, want %v", sent, c.sent)
				}
				e := w.event("shop", "e1")
				if !c.sent && (e.State != delivery.StateSkipped || e.Why != delivery.NoConsent) {
					t.Errorf("status %+v", e)
				}
			})
		})
	}
}

func TestAnEventThatCannotBeReadIsPoison(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		m := &tidemill.Message{ID: "bad", To: delivery.Standard, Tenant: "shop", Payload: []byte(`{"a":`)}
		if err := w.queues.Add(context.Background(), []*tidemill.Message{m}, nil); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if e := w.event("shop", "bad"); e.State != delivery.StateDead || !strings.HasPrefix(e.Why, "validation") {
			t.Errorf("status %+v", e)
		}
		w.balanced()
	})
}
