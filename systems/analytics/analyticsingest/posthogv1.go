package analyticsingest

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// postHogV1 serves PostHog's new path: a bearer key, headers that must be there, and a
// verdict per event in the answer, of which the client sends again only what it is told.
func (x *exchange) postHogV1() *request.Problem {
	scheme, key, _ := strings.Cut(x.R.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return request.Unauthorized("an API key is needed, as Authorization: Bearer <key>")
	}
	if p := x.authenticate(strings.TrimSpace(key)); p != nil {
		return p
	}
	if p := x.headersV1(); p != nil {
		return p
	}
	if t, _, err := mime.ParseMediaType(x.R.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return request.Unsupported("Content-Type %.60q: only application/json is taken", x.R.Header.Get("Content-Type"))
	}
	if p := x.Read(request.All, x.h.o.Limits.PostHog); p != nil {
		return p
	}
	if p := x.events(x.h.o.Limits.Events, "batch"); p != nil {
		return p
	}
	v := &x.batch.envelope
	if v.list != "batch" || len(v.events) == 0 {
		return request.BadRequest(`the body has no events in "batch"`)
	}
	names, p := x.batch.uuids()
	if p != nil {
		return p
	}
	if t := timeOfHeader(x.R.Header.Get("PostHog-Request-Timestamp")); !t.IsZero() {
		v.sent = t
	}
	return x.eventsV1(names)
}

// headersV1 says which of the headers that must be there is not, or is nonsense.
func (x *exchange) headersV1() *request.Problem {
	for _, name := range [...]string{"PostHog-Sdk-Info", "PostHog-Attempt", "PostHog-Request-Id", "PostHog-Request-Timestamp", "User-Agent"} {
		if x.R.Header.Get(name) == "" {
			return request.BadRequest("the header %s is missing", name)
		}
	}
	if n, err := strconv.Atoi(x.R.Header.Get("PostHog-Attempt")); err != nil || n < 1 {
		return request.BadRequest("the header PostHog-Attempt is a number from 1 on")
	}
	if _, err := uuid.Parse(x.R.Header.Get("PostHog-Request-Id")); err != nil {
		return request.BadRequest("the header PostHog-Request-Id is a UUID")
	}
	if timeOfHeader(x.R.Header.Get("PostHog-Request-Timestamp")).IsZero() {
		return request.BadRequest("the header PostHog-Request-Timestamp is a time (RFC 3339)")
	}
	return nil
}

// uuids are the events' ids as their sender wrote them, with quotes: by these it looks
// for its verdicts. Each event must have one of its own: a client takes an event that the
// answer does not name for delivered.
func (b *batch) uuids() ([][]byte, *request.Problem) {
	events := b.envelope.events
	names := make([][]byte, len(events))
	seen := make(map[uuid.UUID]bool, len(events))
	var text []byte
	for i, raw := range events {
		b.scanner.each(raw, func(name, value []byte) bool {
			if string(name) == "uuid" {
				names[i] = value // of two the last one counts, as it does for Decode
			}
			return true
		})
		if names[i] == nil || names[i][0] != '"' {
			return nil, request.BadRequest("event %d of the batch has no uuid", i)
		}
		text = unquote(text[:0], names[i])
		id, err := uuid.ParseBytes(text)
		if err != nil {
			return nil, request.BadRequest("the uuid of event %d of the batch is none", i)
		}
		if seen[id] {
			return nil, request.BadRequest("the uuid %s is there twice in the batch", id)
		}
		seen[id] = true
	}
	return names, nil
}

func (x *exchange) eventsV1(names [][]byte) *request.Problem {
	a, p := x.admit(true, http.StatusTooManyRequests)
	if p != nil {
		return p
	}
	if a == Admitted {
		m := x.meta(event.PostHog)
		m.Import = x.batch.envelope.historical
		if !strings.HasPrefix(m.Agent, "Mozilla/") {
			m.Agent = cutAgent(x.R.Header.Get("PostHog-Sdk-Info")) // events of this path do not name their library
		}
		x.judge(m, 0)
		// Some of the events may be kept though others are not: this protocol can say so.
		if p := x.add(true); p != nil && (p.Reason != "full" || x.batch.kept == 0) {
			return p
		}
	}
	out := append(make([]byte, 0, 64*len(names)), `{"results":{`...)
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, name...), ':')
		if a == OverQuota {
			out = append(out, `{"result":"drop","details":"billing_limit_exceeded"}`...)
			continue
		}
		switch v := &x.batch.verdicts[i]; v.state {
		case taken:
			out = append(out, `{"result":"ok"}`...)
		case unkept:
			out = append(out, `{"result":"retry","details":"not_persisted"}`...)
		case refused:
			out = append(out, `{"result":"drop","details":`...)
			out, _ = jsontext.AppendQuote(out, v.reason+": "+v.detail)
			out = append(out, '}')
		}
	}
	if x.batch.full > 0 {
		x.RetryAfter(request.Busy("full", ""))
	}
	x.json(http.StatusOK, string(append(out, "}}"...)))
	return nil
}

func (x *exchange) failPostHogV1(p *request.Problem) {
	text, _ := jsontext.AppendQuote(nil, p.Text)
	x.json(p.Status, fmt.Sprintf(`{"error":%q,"error_description":%s,"error_uri":"about:blank"}`, p.Reason, text))
}
