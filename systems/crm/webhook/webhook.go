// Package webhook is the handler that calls an HTTP endpoint: for handlers that are not written
// in Go, or are not part of this process.
//
// An event is one POST, signed by the Standard Webhooks specification (standardwebhooks.com).
// webhook-id is the same for all attempts, so a receiver recognises one that it has seen; a
// replay has another. Tidemill-Token is greater in a later attempt, so a receiver recognises a
// late one.
//
//	{"event":{…as it was received…},"profile":{"id":"0198…","isNew":true}}
//
// An answer 2xx means that it is done. Otherwise a "code" in the answer says what follows,
// whatever the status; without a code the status does:
//
//	ValidationError, InvalidEventError    400, 422        logged and skipped
//	BusinessLogicError                    409             dead at once
//	ProfileNotFound                       404             tried again, with growing waits
//	                                      all else        tried again, with growing waits
//
// If the endpoint's name resolves to a forbidden address nothing is sent, and that is a
// ValidationError, too.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Headers of a request, in addition to those of Standard Webhooks.
const (
	AttemptHeader = "Tidemill-Attempt" // from 1
	ReplayHeader  = "Tidemill-Replay"  // the replay that asked for it; not sent without one
	TokenHeader   = "Tidemill-Token"   // a number that grows each time the event is taken up: a request with an older one is late
)

// Options describe an endpoint. URL and Secrets are required.
type Options struct {
	Name    string            // in errors; empty: the URL's host
	URL     string            // https
	Secrets []tidemill.Secret // each "whsec_" and base64 of 24 to 64 bytes; all sign, so that one can be replaced
	Header  map[string]string // of every request
	Hidden  []tidemill.Secret // blotted out of answers and errors, in addition to Secrets and the secret parts of URL and Header
	Timeout time.Duration     // of one request, its answer included; 0: 10s. The handler's Spec needs more

	Allow       []netip.Prefix    // private networks that may be reached
	Plain       bool              // http is allowed too
	Roots       *x509.CertPool    // trusted certificate authorities; nil: the system's
	Connections int               // open at once; 0: 100
	Via         http.RoundTripper // sends the requests instead of the guarded network: for simulation
	Now         func() time.Time  // nil: time.Now
	Tracer      tidemill.Tracer   // takes a span of each request; nil: they have none
}

// Endpoint is a handler.Handler. It is safe for concurrent use.
type Endpoint struct {
	sink  *httpsink.Sink
	guard *httpguard.Guard
}

var _ handler.Handler = (*Endpoint)(nil)

// New checks the options and makes an Endpoint. It connects to nothing.
func New(o Options) (*Endpoint, error) {
	e, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", o.Name, err)
	}
	return e, nil
}

func open(o Options) (*Endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("its URL is none, such as https://app.example.com/events")
	}
	guard, err := httpguard.New(httpguard.Options{Allow: o.Allow, Plain: o.Plain, Roots: o.Roots, Connections: o.Connections})
	if err != nil {
		return nil, err
	}
	if err := guard.CheckURL(u); err != nil {
		return nil, err
	}
	sign, err := httpsink.StandardWebhooks(o.Now, o.Secrets...)
	if err != nil {
		return nil, err
	}
	var via http.RoundTripper = guard
	if o.Via != nil {
		via = o.Via
	}
	sink, err := httpsink.New(via, httpsink.Options{
		Name: o.Name, URL: o.URL, Header: o.Header, Secrets: o.Hidden, Encode: encode, Auth: []httpsink.Auth{sign}, KeyHeader: "-",
		Timeout: cmp.Or(o.Timeout, handler.DefaultTimeout), Idempotent: true, Judge: judge, Now: o.Now, Tracer: o.Tracer,
	})
	if err != nil {
		return nil, err
	}
	return &Endpoint{sink, guard}, nil
}

// Close ends idle connections.
func (e *Endpoint) Close() { e.guard.Close() }

// Handle implements handler.Handler: one request for each event, one after the other.
func (e *Endpoint) Handle(ctx context.Context, calls []*handler.Call) error {
	var p tidemill.Partial
	for i, c := range calls {
		m, err := message(c)
		if err == nil {
			err = e.sink.Write(ctx, []*tidemill.Message{m})
		}
		if err != nil {
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: unsent(err)})
		}
	}
	if p.Failed != nil {
		return &p
	}
	return nil
}

// Show is the request of a call, without its signature and with secrets masked. Nothing is sent.
func (e *Endpoint) Show(c *handler.Call) (*httpsink.Shown, error) {
	m, err := message(c)
	if err != nil {
		return nil, err
	}
	return e.sink.Show(m)
}

// unsent makes a request that was not answered repeatable; but not if the endpoint's name
// resolves to a forbidden address. That is validation, as with a partner: each try would
// resolve the name again, until it leads where it should not.
func unsent(err error) error {
	r, ok := errors.AsType[*httpsink.Refusal](err)
	if ok && r.Status == 0 && r.Reason != httpguard.ReasonBlockedTarget && tidemill.KindOf(err) != tidemill.Timeout {
		return &tidemill.Error{Kind: tidemill.Transient, Err: r}
	}
	return err
}

// message is the request of a call. Its ID becomes the webhook-id.
func message(c *handler.Call) (*tidemill.Message, error) {
	about, err := json.Marshal(struct {
		ID  uuid.UUID `json:"id"`
		New bool      `json:"isNew"`
	}{c.Profile, c.New})
	if err != nil {
		return nil, tidemill.Fail(tidemill.Internal, "write the request of an event: %w", err)
	}
	body := append(make([]byte, 0, len(c.Event.Raw)+len(about)+24), `{"event":`...)
	body = append(append(body, c.Event.Raw...), `,"profile":`...)
	body = append(append(body, about...), '}')
	m := &tidemill.Message{ID: c.Key(), Payload: body, Tries: c.Attempt - 1, Trace: c.Trace}
	if c.Replay != "" {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(ReplayHeader), Value: []byte(c.Replay)})
	}
	if token := c.Token(); token != 0 {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(TokenHeader), Value: strconv.AppendUint(nil, token, 10)})
	}
	return m, nil
}

// encode is an httpsink.Options.Encode.
func encode(m *tidemill.Message, r *httpsink.Request) error {
	r.Body = append(r.Body, m.Payload...)
	r.Header = map[string]string{AttemptHeader: strconv.Itoa(m.Tries + 1)}
	for _, name := range []string{ReplayHeader, TokenHeader} {
		if value := m.Get(name); value != nil {
			r.Header[name] = string(value)
		}
	}
	return nil
}

// codes that an answer may have, and their kinds.
var codes = map[string]tidemill.Kind{
	"ValidationError":    tidemill.Validation,
	"InvalidEventError":  tidemill.Validation,
	"BusinessLogicError": tidemill.Business,
	"ProfileNotFound":    tidemill.NotFound,
}

var statuses = map[int]tidemill.Kind{
	http.StatusBadRequest:          tidemill.Validation,
	http.StatusUnprocessableEntity: tidemill.Validation,
	http.StatusNotFound:            tidemill.NotFound,
	http.StatusConflict:            tidemill.Business,
}

// judge is an httpsink.Options.Judge.
func judge(a *httpsink.Answer) (httpsink.Verdict, bool) {
	var said struct {
		Code string `json:"code"`
	}
	if body := bytes.TrimLeft(a.Body, " \t\r\n"); a.Whole && len(body) > 0 && body[0] == '{' && json.Unmarshal(body, &said) == nil {
		if kind, ok := codes[said.Code]; ok {
			return httpsink.Verdict{Kind: kind, Why: said.Code}, true
		}
	}
	if a.Status >= 200 && a.Status < 300 {
		return httpsink.Verdict{}, true
	}
	return httpsink.Verdict{Kind: cmp.Or(statuses[a.Status], tidemill.Transient)}, true
}
