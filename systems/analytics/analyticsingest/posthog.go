package analyticsingest

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// postHogBatch and postHogSingle are the same but for how much may be sent.
func (x *exchange) postHogBatch() *request.Problem { return x.postHog(x.h.o.Limits.PostHog) }

func (x *exchange) postHogSingle() *request.Problem {
	return x.postHog(min(x.h.o.Limits.PostHogSingle, x.h.o.Limits.PostHog))
}

// postHog serves the old paths of PostHog: any of them takes one event, an array, or a
// batch. Keys are in the body only: an Authorization header there is that of the web page
// whose browser adds it.
func (x *exchange) postHog(limit int) *request.Problem {
	var query url.Values
	if x.R.URL.RawQuery != "" {
		query = x.R.URL.Query()
	}
	if x.R.Method == http.MethodGet {
		data := query.Get("data")
		if data == "" {
			return request.BadRequest("a GET request brings its events as ?data=")
		}
		x.Body.Bytes, x.Body.Sent = []byte(data), len(data)
	} else {
		if _, p := request.Encoding(x.R, request.Gzip); p != nil {
			return p
		}
		if p := x.Body.Read(x.W, limit); p != nil {
			return p
		}
		if enc, _ := request.Encoding(x.R, request.Gzip); enc != "" {
			if p := x.Body.Inflate(enc, x.h.o.Limits.PostHog); p != nil {
				return p
			}
		}
	}
	if p := x.unwrap(query.Get("compression"), x.h.o.Limits.PostHog); p != nil {
		return p
	}
	if p := x.events(x.h.o.Limits.Events, "batch"); p != nil {
		return p
	}
	v := &x.batch.envelope
	if len(v.events) == 0 {
		return request.BadRequest("the batch is empty")
	}
	if p := x.authenticateBody(""); p != nil {
		return p
	}
	if ms := query.Get("_"); v.sent.IsZero() && ms != "" {
		if t, err := event.ParseTime(ms); err == nil {
			v.sent = t
		}
	}
	return x.postHogEvents(query.Get("beacon") == "1")
}

func (x *exchange) postHogEvents(beacon bool) *request.Problem {
	a, p := x.admit(true, x.h.over.Load().status)
	if p != nil {
		return p
	}
	if a == Admitted {
		m := x.meta(event.PostHog)
		m.Import = x.batch.envelope.historical
		x.judge(m, 0)
		if len(x.batch.jobs) == 0 {
			x.warn()
			return x.noneGood()
		}
		if p := x.add(true); p != nil {
			return p
		}
	}
	switch { // 200 to the letter: posthog-js sends again what was answered with another 2xx
	case beacon:
		x.answer(http.StatusNoContent, "", "")
	case a == OverQuota:
		x.json(http.StatusOK, `{"status":"Ok","quota_limited":["events"]}`)
	default:
		x.json(http.StatusOK, `{"status":"Ok"}`)
	}
	return nil
}

// maxAgent is how much of a User-Agent is kept, in bytes: real ones are a few hundred.
const maxAgent = 1024

func cutAgent(s string) string {
	if len(s) > maxAgent {
		s = s[:maxAgent]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// timeOfHeader reads a time that a header has; one that cannot be read is none.
func timeOfHeader(s string) time.Time {
	t, err := event.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}
