package delivery_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// secretive is a partner with a mapping, and with secrets wherever there may be some.
func secretive(p *partner.Partner) {
	p.Endpoint = "https://ads.test/{account}/events?api_key={token}"
	p.Settings = map[string]string{"account": "a1", "token": "very-secret-token"}
	p.Headers = map[string]string{"X-Auth-Token": "very-secret-token", "X-Kind": "test"}
	p.When = `event.eventType == "purchase"`
	p.Mapping = []partner.Field{{Field: "order", Value: "event.orderId", Required: true}, {Field: "told", Value: "setting.token"}}
}

const purchased = `{"eventType":"purchase","eventId":"e1","siteId":"shop","orderId":"o-1"}`

func TestAMappingIsTriedWithoutARequest(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("ads", secretive)}, func(w *world) {
		got, err := w.sys.Try("ads", "", []byte(purchased))
		if err != nil {
			t.Fatal(err)
		}
		r := got.Request
		if got.ID != "e1" || got.Site != "shop" || !got.Takes || got.Sent != nil || r == nil || r.Method != http.MethodPost || !strings.HasPrefix(r.URL, "https://ads.test/a1/events") {
			t.Fatalf("it shows %+v %+v", got, r)
		}
		if !strings.Contains(string(r.Body), `"order":"o-1"`) || r.Header.Get("X-Kind") != "test" || keyOf(r.Header) != "e1" {
			t.Errorf("the request is %+v %s", r.Header, r.Body)
		}
		if all := r.URL + string(r.Body) + strings.Join(r.Header["X-Auth-Token"], ""); strings.Contains(all, "very-secret") {
			t.Errorf("it shows a secret: %s", all)
		}
		got, err = w.sys.Try("ads", "blog", []byte(`{"eventType":"page_view"}`))
		if err != nil || got.Takes || got.Why == "" || got.Refused == nil || got.Request != nil || got.Site != "blog" || !strings.HasPrefix(got.ID, "test-") {
			t.Errorf("an event that it does not want: %+v %v", got, err)
		}
		if _, err := w.sys.Try("nix", "", []byte(purchased)); !errors.Is(err, delivery.ErrNoPartner) {
			t.Errorf("no partner: %v", err)
		}
		for _, raw := range []string{"", "[]", "{", `"x"`} {
			if _, err := w.sys.Try("ads", "", []byte(raw)); tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if n := len(w.requests("ads")); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestATestEventIsSentBesideQueueAndBooks(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("ads", secretive)}, func(w *world) {
		ctx := context.Background()
		if err := w.sys.OpenCircuit(ctx, "ads", time.Hour); err != nil {
			t.Fatal(err)
		}
		w.answers("ads", status(200, `{"you":"very-secret-token"}`))
		got, err := w.sys.SendTest(ctx, "ads", "", []byte(purchased))
		if err != nil || got.Sent == nil || got.Sent.Err != nil || got.Sent.Status != 200 || !strings.HasPrefix(string(got.Sent.Body), `{"you":`) || strings.Contains(string(got.Sent.Body), "very-secret") {
			t.Fatalf("sent %+v %v", got.Sent, err)
		}
		if all := w.requests("ads"); len(all) != 1 || all[0].key != "e1" || !strings.Contains(all[0].body, `"told":"very-secret-token"`) {
			t.Errorf("the partner got %+v", all)
		}
		w.answers("ads", status(422, "no such order"))
		got, err = w.sys.SendTest(ctx, "ads", "", []byte(purchased))
		if err != nil || got.Sent.Status != 422 || tidemill.KindOf(got.Sent.Err) != tidemill.Validation || string(got.Sent.Body) != "no such order" {
			t.Errorf("refused: %+v %v", got.Sent, err)
		}
		if got, err = w.sys.SendTest(ctx, "ads", "", []byte(`{"eventType":"purchase"}`)); err != nil || got.Sent != nil || got.Refused == nil {
			t.Errorf("what the mapping refuses: %+v %v", got, err)
		}
		if n := len(w.requests("ads")); n != 2 {
			t.Errorf("%d requests were sent, want 2", n)
		}
		d, err := w.sys.Describe(ctx, "ads")
		if err != nil || len(d.Failures) != 1 || d.Failures[0].Status != 422 || d.Failures[0].Kind != tidemill.Validation || d.Credentials != "none" || d.Health.Depth() != 0 || d.Health.Dead != 0 || strings.Contains(d.Endpoint, "very-secret") || len(d.Mapping) != 2 {
			t.Errorf("it is described as %+v %v", d, err)
		}
		if _, err := w.sys.Describe(ctx, "nix"); !errors.Is(err, delivery.ErrNoPartner) {
			t.Errorf("no partner: %v", err)
		}
		for range 30 {
			if _, err := w.sys.SendTest(ctx, "ads", "", []byte(purchased)); err != nil {
				t.Fatal(err)
			}
		}
		if d, err = w.sys.Describe(ctx, "ads"); err != nil || len(d.Failures) != 20 {
			t.Errorf("it remembers %d failures, %v", len(d.Failures), err)
		}
		w.balanced()
	})
}
