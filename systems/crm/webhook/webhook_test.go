package webhook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/webhook"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

const (
	secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	raw    = `{"id":"e1", "type":"a","tenantId":"club","identity":{"email":"a@b"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"n":12345678901234567890}}`
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func open(t *testing.T, o webhook.Options) *webhook.Endpoint {
	t.Helper()
	o.Name, o.Plain, o.Secrets = "app", true, []tidemill.Secret{tidemill.NewSecret(secret)}
	if o.Allow == nil {
		o.Allow = loopback
	}
	e, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// call sends an event to the endpoint as a system does.
func call(t *testing.T, e *webhook.Endpoint, change func(*handler.Call)) error {
	t.Helper()
	c := &handler.Call{Profile: uuid.MustParse("0198a000-0000-7000-8000-000000000001"), New: true, Attempt: 2}
	if err := event.Decode([]byte(raw), &c.Event); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	var r handler.Runner
	errs := r.Run(t.Context(), &handler.Spec{Name: "app", Handler: e, Many: 1, Timeout: 2 * time.Second}, []*handler.Call{c})
	if errs == nil {
		return nil
	}
	return errs[0]
}

// C6: the event as it was received, its profile, signed; the same id for all attempts, another
// for a replay.
func TestARequest(t *testing.T) {
	var got []*http.Request
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, bodies = append(got, r), append(bodies, string(b))
	}))
	defer server.Close()
	e := open(t, webhook.Options{URL: server.URL, Header: map[string]string{"X-App": "1"}})
	for _, change := range []func(*handler.Call){nil, func(c *handler.Call) { c.Attempt, c.Entry = 3, &ledger.Entry{Token: 77} }, func(c *handler.Call) { c.Replay = "r1" }} {
		if err := call(t, e, change); err != nil {
			t.Fatal(err)
		}
	}
	if want := `{"event":` + raw + `,"profile":{"id":"0198a000-0000-7000-8000-000000000001","isNew":true}}`; bodies[0] != want {
		t.Errorf("body %s\nwant %s", bodies[0], want)
	}
	for i, want := range []struct{ id, attempt, replay, token string }{{"club/e1", "2", "", ""}, {"club/e1", "3", "", "77"}, {"club/e1~r1", "2", "r1", ""}} {
		h := got[i].Header
		if h.Get("webhook-id") != want.id || h.Get(webhook.AttemptHeader) != want.attempt || h.Get(webhook.ReplayHeader) != want.replay || h.Get(webhook.TokenHeader) != want.token || h.Get("X-App") != "1" || h.Get("Content-Type") != "application/json" {
			t.Errorf("request %d: %v", i, h)
		}
	}
	// A receiver that checks signatures accepts it.
	receiver := partnertest.Webhook(t, time.Now, secret)
	if err := call(t, open(t, webhook.Options{URL: receiver.URL, Roots: receiver.Roots()}), nil); err != nil {
		t.Errorf("the signature was refused: %v", err)
	}
}

// C7: what an answer means.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   tidemill.Kind
	}{
		{200, "", tidemill.NoKind},
		{204, "", tidemill.NoKind},
		{200, `{"code":"ok"}`, tidemill.NoKind},
		{200, `{"code":"ValidationError"}`, tidemill.Validation},
		{500, `{"code":"ValidationError"}`, tidemill.Validation},
		{500, ` {"message":"x","code":"InvalidEventError"}`, tidemill.Validation},
		{400, `{"code":"BusinessLogicError"}`, tidemill.Business},
		{400, `{"code":"ProfileNotFound"}`, tidemill.NotFound},
		{400, "no JSON", tidemill.Validation},
		{422, `{"code":"else"}`, tidemill.Validation},
		{404, "", tidemill.NotFound},
		{409, `{"code":7}`, tidemill.Business},
		{401, "", tidemill.Transient},
		{403, "", tidemill.Transient},
		{408, "", tidemill.Transient},
		{410, "", tidemill.Transient},
		{429, "", tidemill.Transient},
		{302, "", tidemill.Transient},
		{500, "", tidemill.Transient},
		{503, "[1]", tidemill.Transient},
		{400, `{"code":"BusinessLogicError","x":"` + strings.Repeat("x", 70<<10) + `"}`, tidemill.Validation}, // too long to be read
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := call(t, open(t, webhook.Options{URL: server.URL}), nil)
		server.Close()
		if c.kind == tidemill.NoKind {
			if err != nil {
				t.Errorf("%d %.40s: %v", c.status, c.body, err)
			}
			continue
		}
		e, ok := errors.AsType[*tidemill.Error](err)
		if !ok || e.Kind != c.kind {
			t.Errorf("%d %.40s: %v, want %v", c.status, c.body, err, c.kind)
			continue
		}
		if c.kind == tidemill.Transient && e.After != 7*time.Second {
			t.Errorf("%d: again after %v, want 7s", c.status, e.After)
		}
		if !strings.Contains(err.Error(), "app") {
			t.Errorf("%v does not name the endpoint", err)
		}
	}
}

// C7: a request without an answer is tried again, unless its target is forbidden.
func TestNoAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	_ = listener.Close()
	held := make(chan struct{})
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-held }))
	defer func() { close(held); cut.Close(); slow.Close() }()
	for _, c := range []struct {
		name string
		o    webhook.Options
		kind tidemill.Kind
	}{
		{"nobody is there", webhook.Options{URL: closed}, tidemill.Transient},
		{"the line is cut", webhook.Options{URL: cut.URL}, tidemill.Transient},
		{"it takes too long", webhook.Options{URL: slow.URL, Timeout: 50 * time.Millisecond}, tidemill.Timeout},
		{"the name leads to where nobody may go", webhook.Options{URL: "http://localhost:1", Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, tidemill.Validation},
	} {
		if err := call(t, open(t, c.o), nil); tidemill.KindOf(err) != c.kind || err == nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := open(t, webhook.Options{URL: slow.URL}).Handle(ctx, []*handler.Call{{}}); err == nil {
		t.Error("it was sent after the end")
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	good := webhook.Options{Name: "app", URL: "https://app.example.com/events", Secrets: []tidemill.Secret{tidemill.NewSecret(secret)}}
	if _, err := webhook.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*webhook.Options){
		"no URL":           func(o *webhook.Options) { o.URL = "app.example.com" },
		"http":             func(o *webhook.Options) { o.URL = "http://app.example.com" },
		"a private target": func(o *webhook.Options) { o.URL = "https://10.0.0.1/x" },
		"no secret":        func(o *webhook.Options) { o.Secrets = nil },
		"a bad secret":     func(o *webhook.Options) { o.Secrets = []tidemill.Secret{tidemill.NewSecret("canary")} },
		"a bad header":     func(o *webhook.Options) { o.Header = map[string]string{"a b": "c"} },
	} {
		o := good
		change(&o)
		if _, err := webhook.New(o); err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "app") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
