package deliveryapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/systems/delivery"
)

// Of one partner.
var (
	GetPartner = operation.View[OnePartner, OnePartnerStatus]("getPartner", "partners/{name}",
		"Show one partner: how it stands, what it is sent, whether its secret is there (never the secret), and its last failed requests in this instance.").For(caller.Viewer)
	TryMapping = operation.Act[PartnerTrial, TriedMapping]("tryMapping", "partners/{name}/try",
		"Show the request that an event would make to a partner, with secrets masked, and whether it would be routed there. Nothing is sent.").For(caller.Operator)
	TestPartner = operation.Act[PartnerTrial, TriedMapping]("testPartner", "partners/{name}/test",
		"Send an event to a partner at once, and show its answer. It goes beside queue, circuit and books, and the partner has it: send nothing that must not count there.").For(caller.Operator)
)

// Trials tries what partners make of events.
type Trials interface {
	Describe(ctx context.Context, partner string) (*delivery.Description, error)
	// Try shows a request, and sends nothing.
	Try(partner, site string, raw []byte) (*delivery.Trial, error)
	// SendTest sends it.
	SendTest(ctx context.Context, partner, site string, raw []byte) (*delivery.Trial, error)
}

// PartnerTrial is an event to try.
type PartnerTrial struct {
	OnePartner
	Site string `query:"site" help:"The site that the event is of. Default: its siteId." placeholder:"ID"`
	Body []byte `body:"application/json" mib:"1"`
}

// TriedMapping is what a partner would make of an event, or has made of it.
type TriedMapping struct {
	Partner string         `json:"partner"`
	ID      string         `json:"event"` // that the partner gets; an event without one is given it
	Site    string         `json:"site,omitempty"`
	Takes   bool           `json:"takes"`             // the event would be routed to the partner
	Why     string         `json:"why,omitempty"`     // it would not
	Invalid string         `json:"invalid,omitempty"` // why the mapping refuses it; nothing is sent then
	Request *TriedRequest  `json:"request,omitempty"`
	Sent    *TriedDelivery `json:"sent,omitempty"` // left out: nothing was sent
}

// TriedRequest is a request without its credentials.
type TriedRequest struct {
	Method     string        `json:"method"`
	URL        string        `json:"url"`
	Headers    []TriedHeader `json:"headers"`
	Signed     bool          `json:"signed"` // credentials are added when it is sent
	Body       string        `json:"body,omitempty" covered:"payload"`
	BodyBase64 string        `json:"body_base64,omitempty" covered:"payload"` // where it is no text
}

// TriedHeader is a header of a request.
type TriedHeader struct {
	Name  string `json:"name"`
	Value string `json:"value" covered:"headers" by:"name"`
}

// TriedDelivery is what became of a request that was sent.
type TriedDelivery struct {
	At           time.Time `json:"at"`
	Took         float64   `json:"took_seconds"`
	Status       int       `json:"status,omitempty"` // left out: no answer
	Delivered    bool      `json:"delivered"`
	Kind         string    `json:"kind,omitempty"`                     // of the failure
	Cause        string    `json:"cause,omitempty"`                    // of the failure
	Answer       string    `json:"answer,omitempty" covered:"payload"` // its first 2 KiB, with secrets masked
	AnswerBase64 string    `json:"answer_base64,omitempty" covered:"payload"`
}

// Standing is how a partner stands.
type Standing = Partner

// OnePartnerStatus is a partner with what it is.
type OnePartnerStatus struct {
	Standing
	From        string           `json:"from,omitempty"` // FILE:LINE, or the database, where it is described
	Preset      string           `json:"preset,omitempty"`
	Endpoint    string           `json:"endpoint"` // what may be a secret in it is masked
	When        string           `json:"when,omitempty"`
	Sites       []string         `json:"sites,omitempty"`
	Auth        string           `json:"auth,omitempty"`     // how the partner knows us
	Variable    string           `json:"variable,omitempty"` // that has the secret
	Credentials string           `json:"credentials"`        // none (it needs none), set, not set, refused (its last failure was that)
	Mapping     []PartnerField   `json:"mapping"`            // none: it gets the event, byte for byte
	Failures    []PartnerFailure `json:"failures"`           // of requests of this instance, the newest first
}

// PartnerField is a field of the body.
type PartnerField struct {
	Field    string `json:"field"`
	Value    string `json:"from"` // an expression
	Required bool   `json:"required,omitempty"`
}

// PartnerFailure is a request that failed.
type PartnerFailure struct {
	At     time.Time `json:"at"`
	Took   float64   `json:"took_seconds"`
	Status int       `json:"status,omitempty"` // left out: no answer
	Kind   string    `json:"kind"`
	Cause  string    `json:"cause"`
}

// asked is a problem of what was asked for.
func asked(err error) error {
	switch {
	case errors.Is(err, delivery.ErrNoPartner):
		return operation.Refuse(http.StatusNotFound, "%v", err)
	case tidemill.KindOf(err) == tidemill.Validation:
		return operation.Refuse(http.StatusBadRequest, "%v", err)
	case answer.Passing(err):
		return answer.Busy(err)
	}
	return answer.Answerable(err)
}

func (a *API) partner(ctx context.Context, q *OnePartner) (out OnePartnerStatus, err error) {
	d, err := a.Trials.Describe(ctx, q.Partner)
	if err != nil {
		return out, asked(err)
	}
	out = OnePartnerStatus{Standing: healthOf(&d.Health), Preset: d.Preset, Endpoint: d.Endpoint, When: d.When, Sites: d.Sites, Auth: d.Auth.Type, Variable: d.Auth.Credentials,
		Credentials: d.Credentials, Mapping: []PartnerField{}, Failures: []PartnerFailure{}}
	if a.Config != nil {
		e, _ := a.Config().Named("delivery.partners", q.Partner)
		out.From = e.From
	}
	for _, f := range d.Mapping {
		out.Mapping = append(out.Mapping, PartnerField{f.Field, f.Value, f.Required})
	}
	for _, f := range d.Failures {
		out.Failures = append(out.Failures, PartnerFailure{f.At.UTC(), f.Took.Seconds(), f.Status, f.Kind.String(), f.Cause})
	}
	if len(d.Failures) > 0 && d.Failures[0].Kind == tidemill.Credentials && !d.Health.LastSuccessAt.After(d.Failures[0].At) {
		out.Credentials = "refused"
	}
	return out, nil
}

func (a *API) tryMapping(_ context.Context, q *PartnerTrial) (TriedMapping, error) {
	t, err := a.Trials.Try(q.Partner, q.Site, q.Body)
	if err != nil {
		return TriedMapping{}, asked(err)
	}
	return tried(q.Partner, t), nil
}

func (a *API) testPartner(ctx context.Context, q *PartnerTrial) (TriedMapping, error) {
	t, err := a.Trials.SendTest(ctx, q.Partner, q.Site, q.Body)
	if err != nil {
		return TriedMapping{}, asked(err)
	}
	if t.Sent != nil {
		// Logged when somebody sent a test event to a partner.
		a.Log.InfoContext(ctx, "test event sent by hand", "partner", q.Partner, "event", t.ID, "status", t.Sent.Status)
	}
	return tried(q.Partner, t), nil
}

func tried(partner string, t *delivery.Trial) TriedMapping {
	out := TriedMapping{Partner: partner, ID: t.ID, Site: t.Site, Takes: t.Takes, Why: t.Why}
	if t.Refused != nil {
		out.Invalid = t.Refused.Error()
	}
	if r := t.Request; r != nil {
		out.Request = &TriedRequest{Method: r.Method, URL: r.URL, Signed: r.Signed, Headers: []TriedHeader{}}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			for _, value := range r.Header[name] {
				out.Request.Headers = append(out.Request.Headers, TriedHeader{name, value})
			}
		}
		out.Request.Body, out.Request.BodyBase64 = answer.Text(r.Body)
	}
	if s := t.Sent; s != nil {
		out.Sent = &TriedDelivery{At: s.At.UTC(), Took: s.Took.Seconds(), Status: s.Status, Delivered: s.Err == nil}
		out.Sent.Answer, out.Sent.AnswerBase64 = answer.Text(s.Body)
		if s.Err != nil {
			out.Sent.Kind, out.Sent.Cause = tidemill.KindOf(s.Err).String(), s.Err.Error()
		}
	}
	return out
}
