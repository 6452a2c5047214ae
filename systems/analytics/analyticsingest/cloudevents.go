package analyticsingest

import (
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// cloudEvents serves CloudEvents 1.0 over HTTP: structured, batched or binary, which the
// beginning of the content type says.
func (x *exchange) cloudEvents() *request.Problem {
	key := request.Key(x.R)
	if key == "" { // as the web hook specification allows
		key = x.R.URL.Query().Get("access_token")
	}
	if p := x.authenticate(key); p != nil {
		return p
	}
	contentType := x.R.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		return request.Unsupported("Content-Type %.60q is none", contentType)
	}
	binary := !strings.HasPrefix(media, "application/cloudevents")
	if !binary && media != "application/cloudevents+json" && media != "application/cloudevents-batch+json" {
		return request.Unsupported("Content-Type %.60q: of CloudEvents only the JSON format is taken", contentType)
	}
	if p := x.open(x.h.o.Limits.Native, request.Gzip); p != nil {
		return p
	}
	if binary {
		if p := x.structure(contentType, media); p != nil {
			return p
		}
	}
	if p := x.events(x.h.o.Limits.Events); p != nil {
		return p
	}
	v := &x.batch.envelope
	switch {
	case media == "application/cloudevents-batch+json" && v.list != "[":
		return request.BadRequest("a batch of CloudEvents is an array")
	case media == "application/cloudevents+json" && v.list != "":
		return request.BadRequest("a structured CloudEvent is an object")
	}
	return x.cloudEventsTake()
}

func (x *exchange) cloudEventsTake() *request.Problem {
	a, p := x.admit(true, http.StatusTooManyRequests)
	switch {
	case p != nil:
		return p
	case a == OverQuota:
		x.json(http.StatusAccepted, `{"ok":true,"quota_limited":true}`)
		return nil
	}
	m := x.meta(event.CloudEvents)
	m.Whose = strings.Join(x.h.o.CloudEventsID, ",")
	x.judge(m, 0)
	b := x.batch
	if len(b.jobs) == 0 && b.refused > 0 {
		x.warn()
		return x.noneGood()
	}
	if p := x.add(true); p != nil {
		return p
	}
	x.json(http.StatusAccepted, `{"ok":true,"count":`+strconv.Itoa(b.kept)+`,"dropped":`+strconv.Itoa(b.refused)+`}`)
	return nil
}

// structure writes a binary CloudEvent as a structured one: attributes from the headers,
// in the order of their names, and the body as data: JSON as it is, other bytes in base64.
func (x *exchange) structure(contentType, media string) *request.Problem {
	var names []string
	for name := range x.R.Header {
		if len(name) > 3 && strings.HasPrefix(name, "Ce-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	size := 64 + len(contentType)*6 + len(x.Body.Bytes)*4/3
	for _, name := range names {
		size += len(name) + 6*len(x.R.Header.Get(name)) + 8
	}
	out := x.Body.Get(size)
	if out == nil {
		return request.NoRoom()
	}
	var quoted [3]bool
	for _, name := range names {
		attribute := strings.ToLower(name[3:])
		switch attribute {
		case "id":
			quoted[0] = true
		case "source":
			quoted[1] = true
		case "type":
			quoted[2] = true
		case "data", "data_base64", "datacontenttype":
			continue // not for headers
		}
		value := x.R.Header.Get(name)
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if !utf8.ValidString(value) { // the SDK for JavaScript encodes nothing: then it is HTTP's old ISO 8859-1
			value = latin1(value)
		}
		out = append(out, ',')
		out, _ = jsontext.AppendQuote(out, attribute)
		out = append(out, ':')
		out, _ = jsontext.AppendQuote(out, value)
	}
	if quoted != [3]bool{true, true, true} {
		x.Body.Put(out)
		return request.BadRequest("a binary CloudEvent has the headers ce-id, ce-source, ce-type and ce-specversion")
	}
	out[0] = '{'
	if contentType != "" {
		out = append(out, `,"datacontenttype":`...)
		out, _ = jsontext.AppendQuote(out, contentType)
	}
	isJSON := media == "" || media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
	switch {
	case len(x.Body.Bytes) == 0:
	case isJSON && jsontext.Value(x.Body.Bytes).IsValid(lenient...):
		out = append(append(out, `,"data":`...), x.Body.Bytes...)
	case isJSON && media != "":
		x.Body.Put(out)
		return request.BadRequest("the data is no JSON, though its content type says so")
	default:
		out = append(out, `,"data_base64":"`...)
		out = base64.StdEncoding.AppendEncode(out, x.Body.Bytes)
		out = append(out, '"')
	}
	x.Body.Use(append(out, '}'))
	return nil
}

// latin1 is a text of ISO 8859-1, in which a byte is a character.
func latin1(s string) string {
	runes := make([]rune, 0, len(s))
	for i := range len(s) {
		runes = append(runes, rune(s[i]))
	}
	return string(runes)
}
