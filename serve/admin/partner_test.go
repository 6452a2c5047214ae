package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// trials is a partner that can be tried.
type trials struct {
	away bool // the store
	sent int
}

func (p *trials) has(name string) error {
	if name != "dv360" {
		return fmt.Errorf("partner %q: %w; there are: dv360", name, delivery.ErrNoPartner)
	}
	return nil
}

func (p *trials) Describe(_ context.Context, name string) (*delivery.Description, error) {
	if p.away {
		return nil, &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the store is away")}
	}
	if err := p.has(name); err != nil {
		return nil, err
	}
	d := &delivery.Description{Partner: partner.Partner{Name: name, Endpoint: "https://ads.test/", Auth: partner.Auth{Type: "bearer", Credentials: "DV360_TOKEN"}, Mapping: []partner.Field{{Field: "order", Value: "event.orderId", Required: true}}},
		Credentials: "set", Health: delivery.PartnerHealth{Partner: name, SuccessRate: -1, Dead: 3}, Failures: []delivery.Failure{{At: day, Took: time.Second, Status: 401, Kind: tidemill.Credentials, Cause: "answered 401"}}}
	return d, nil
}

func (p *trials) Try(name, site string, raw []byte) (*delivery.Trial, error) {
	if err := p.has(name); err != nil {
		return nil, err
	}
	if string(raw) == "[]" {
		return nil, tidemill.Fail(tidemill.Validation, "the event is no object")
	}
	return &delivery.Trial{ID: "e1", Site: site, Takes: true, Request: &httpsink.Shown{Method: "POST", URL: "https://ads.test/", Header: http.Header{"X-A": {"b"}}, Body: []byte(`{"email":"ada@example.com"}`), Signed: true}}, nil
}

func (p *trials) SendTest(_ context.Context, name, site string, raw []byte) (*delivery.Trial, error) {
	t, err := p.Try(name, site, raw)
	if err == nil {
		p.sent++
		t.Sent = &partner.Attempt{At: day, Took: 20 * time.Millisecond, Status: 422, Body: []byte("\xff ada"), Err: tidemill.Fail(tidemill.Validation, "answered 422")}
	}
	return t, err
}

func TestAPartnerIsShownAndTried(t *testing.T) {
	p := &trials{}
	d := deliveryDesk(t, &deliveryapi.API{Delivery: newPartners(), Trials: p})
	got := d.get("partners/dv360")
	want := `{"partner":"dv360","circuitState":"closed","successRate":null,"latencyP50":null,"latencyP99":null,"queueDepth":0,"lastError":null,"lastSuccessAt":null,"deadLetters":3,"endpoint":"https://ads.test/","auth":"bearer","variable":"DV360_TOKEN","credentials":"refused",` +
		`"mapping":[{"field":"order","from":"event.orderId","required":true}],"failures":[{"at":"2026-03-01T12:00:00Z","took_seconds":1,"status":401,"kind":"credentials","cause":"answered 401"}]}` + "\n"
	if got != want {
		t.Errorf("the partner is\n%swant\n%s", got, want)
	}
	refused(t, d.ask("GET", "partners/nix", ""), http.StatusNotFound, "there are: dv360")
	refused(t, d.ask("GET", "partners/dv360?x=1", ""), http.StatusBadRequest, "is no parameter")
	send := func(path, body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+path, body)
		r.Header.Set("Content-Type", "application/json")
		d.api.ServeHTTP(w, r)
		asDescribed(t, r, w)
		return w
	}
	tried := `{"partner":"dv360","event":"e1","site":"shop","takes":true,"request":{"method":"POST","url":"https://ads.test/","headers":[{"name":"X-A","value":"b"}],"signed":true,"body":"{\"email\":\"ada@example.com\"}"}`
	if w := send("partners/dv360/try?site=shop", "{}"); w.Code != http.StatusOK || w.Body.String() != tried+"}\n" || p.sent != 0 {
		t.Errorf("tried: %d %s, sent %d", w.Code, w.Body, p.sent)
	}
	if w := send("partners/dv360/test?site=shop", "{}"); w.Code != http.StatusOK || w.Body.String() != tried+`,"sent":{"at":"2026-03-01T12:00:00Z","took_seconds":0.02,"status":422,"delivered":false,"kind":"validation","cause":"answered 422","answer_base64":"/yBhZGE="}}`+"\n" || p.sent != 1 {
		t.Errorf("sent: %d %s", w.Code, w.Body)
	}
	d.logged("test event sent by hand", "partner=dv360", "status=422")
	for _, verb := range []string{"try", "test"} {
		refused(t, send("partners/nix/"+verb, "{}"), http.StatusNotFound, "there are: dv360")
		refused(t, send("partners/dv360/"+verb, "[]"), http.StatusBadRequest, "the event is no object")
		refused(t, send("partners/dv360/"+verb+"?side=x", "{}"), http.StatusBadRequest, "is no parameter")
	}
	p.away = true
	refused(t, d.ask("GET", "partners/dv360", ""), http.StatusServiceUnavailable, "the store is away")
}

// TestWhoMayNotSeePayloadsSeesTheRequestAlone: a body that was made of an event is a payload.
func TestWhoMayNotSeePayloadsSeesTheRequestAlone(t *testing.T) {
	d := deliveryDesk(t, &deliveryapi.API{Delivery: newPartners(), Trials: &trials{}})
	client := operation.Inside(d.api.Inside())
	ask := &deliveryapi.PartnerTrial{OnePartner: deliveryapi.OnePartner{Partner: "dv360"}, Body: []byte("{}")}
	got, err := deliveryapi.TryMapping.Call(caller.With(t.Context(), caller.Caller{Name: "eve", Rights: caller.All(caller.Operator)}), client, ask)
	if err != nil || strings.Contains(got.Request.Body, "ada@") || got.Request.URL == "" {
		t.Errorf("it is shown %+v %v", got.Request, err)
	}
	if _, err = deliveryapi.TestPartner.Call(caller.With(t.Context(), caller.Caller{Name: "eve", Rights: caller.All(caller.Viewer)}), client, ask); err == nil || !strings.Contains(err.Error(), "operator") {
		t.Errorf("a viewer sends: %v", err)
	}
}
