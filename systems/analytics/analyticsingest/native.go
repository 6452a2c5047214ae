package analyticsingest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

const (
	maxNative = 500   // events of a batch
	maxImport = 5_000 // events of an import
)

// sharedBatch serves the one path that two families of SDKs use: native bodies have
// "events", Segment's have "batch".
func (x *exchange) sharedBatch() *request.Problem { return x.shared(false) }

func (x *exchange) sharedImport() *request.Problem { return x.shared(true) }

func (x *exchange) shared(imported bool) *request.Problem {
	if strings.HasPrefix(x.R.Header.Get("Authorization"), "Basic ") {
		x.Path = segment // until the body says otherwise
	}
	if p := x.open(x.h.o.Limits.Native, request.Gzip); p != nil {
		return p
	}
	p := x.events(maxImport, "events", "batch")
	switch list := x.batch.envelope.list; {
	case list == "events":
		x.Path = native
	case list == "batch":
		x.Path = segment
	case p == nil:
		return request.BadRequest(`the body has neither "events" (native SDKs) nor "batch" (Segment)`)
	}
	if p != nil {
		if p.Reason == "too_large" {
			p.Status = http.StatusBadRequest // as the protocols have it for a number of events
		}
		return p
	}
	if p := x.authenticateBody(request.Key(x.R)); p != nil {
		return p
	}
	if x.Path == segment {
		return x.segmentEvents(imported)
	}
	return x.nativeEvents(imported)
}

// open reads and inflates a body, after a look at the key that the header brings: who
// has a wrong one sends nothing.
func (x *exchange) open(limit int, allowed request.Encodings) *request.Problem {
	if key := request.Key(x.R); key != "" {
		if p := x.authenticate(key); p != nil {
			return p
		}
	}
	return x.Read(allowed, limit)
}

// nativeEvents takes the events of a native SDK.
func (x *exchange) nativeEvents(imported bool) *request.Problem {
	v := &x.batch.envelope
	most := maxNative
	if imported {
		most = maxImport
	}
	if n := len(v.events); n == 0 || n > most {
		return request.BadRequest("the body has %d events; 1 to %d are allowed", n, most)
	}
	a, p := x.admit(!imported, x.h.over.Load().status)
	switch {
	case p != nil:
		return p
	case a == OverQuota:
		x.success(http.StatusOK, `{"ok":true,"quota_limited":true}`)
		return nil
	}
	m := x.meta(event.Native)
	if m.Import = imported; imported {
		m.Batch = "import-" + hashID("import", x.Owner.Project.ID, sha256.Sum256(x.Body.Bytes), 0, 0).String()
	}
	x.judge(m, 0)
	b := x.batch
	if len(b.jobs) == 0 || imported && b.refused > 0 {
		x.warn()
		return x.noneGood()
	}
	if p := x.add(!imported); p != nil {
		return p
	}
	if imported {
		x.success(http.StatusAccepted, fmt.Sprintf(`{"ok":true,"count":%d,"dropped":0,"batch_id":%q}`, b.kept, m.Batch))
		return nil
	}
	x.success(http.StatusAccepted, `{"ok":true,"count":`+strconv.Itoa(b.kept)+`,"dropped":`+strconv.Itoa(b.refused)+`}`)
	return nil
}

// meta is what the ingest API knows of all events of the request. Address and User-Agent are
// left out where they are a server's; of PostHog's libraries the events themselves say it.
func (x *exchange) meta(f event.Format) event.Meta {
	m := event.Meta{Format: f, Checked: f != event.CloudEvents, Sent: x.batch.envelope.sent, Agent: cutAgent(x.R.UserAgent())}
	if f == event.Segment && x.batch.envelope.list != "" {
		m.Context = string(x.batch.envelope.context)
	}
	switch {
	case f == event.CloudEvents, f != event.PostHog && fromServer(m.Agent):
		m.Agent = ""
	default:
		m.IP = address(x.R, x.h.o.TrustProxy)
	}
	return m
}

// success answers what went well, without a body where the client wants none.
func (x *exchange) success(status int, body string) {
	if x.beacon() {
		x.answer(http.StatusNoContent, "", "")
		return
	}
	x.json(status, body)
}

// failNative answers as native SDKs, and all that have no words of their own, expect.
func (x *exchange) failNative(p *request.Problem) {
	quoted, _ := jsontext.AppendQuote(nil, p.Text)
	switch {
	case p.Reason == "rate_limited" && p.Status == http.StatusTooManyRequests:
		x.json(p.Status, fmt.Sprintf(`{"ok":false,"error":%s,"retry_after":%d}`, quoted, p.After))
	case p.Reason == "rate_limited":
		x.json(p.Status, fmt.Sprintf(`{"retryable":true,"retry_after":%d}`, p.After))
	case p.Status == http.StatusServiceUnavailable:
		x.json(p.Status, `{"retryable":true}`)
	case p.Reason == "none_good":
		x.json(p.Status, fmt.Sprintf(`{"ok":false,"error":%s,"dropped":%d}`, quoted, len(x.batch.verdicts)))
	default:
		x.json(p.Status, fmt.Sprintf(`{"ok":false,"error":%s}`, quoted))
	}
}
