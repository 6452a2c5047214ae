package deliveryingest

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// ofServer reads and judges what comes with a site's key, and returns its idempotency key.
func (x *exchange) ofServer(conversion bool) (key string, p *request.Problem) {
	if p := x.authenticate(request.Key(x.R)); p != nil {
		return "", p
	}
	if key, p = x.idempotencyKey(); p != nil {
		return "", p
	}
	if p := x.read(); p != nil {
		return "", p
	}
	if p := x.judge(x.given(conversion)); p != nil {
		return "", p
	}
	return key, x.checkSite()
}

// post takes the events of a site that shows its key.
func (x *exchange) post() *request.Problem {
	key, p := x.ofServer(false)
	if p != nil {
		return p
	}
	if p := x.checkOrigin(); p != nil {
		return p
	}
	if p := x.checkKeys(key); p != nil {
		return p
	}
	a, p := x.accept("", key)
	if p != nil {
		return p
	}
	x.accepted(a.Results)
	return nil
}

// collect takes an event that a page sends, without a key where the site allows that.
func (x *exchange) collect() *request.Problem {
	if x.R.Method == http.MethodGet {
		return x.pixel()
	}
	if key := request.Key(x.R); key != "" {
		if p := x.authenticate(key); p != nil {
			return p
		}
	} else if p := x.admitAddress(); p != nil {
		return p
	}
	key, p := x.idempotencyKey()
	if p != nil {
		return p
	}
	if p := x.read("text/plain"); p != nil { // what a page may send without asking first
		return p
	}
	if x.many {
		return request.BadRequest("one event is wanted here, not an array; arrays go to /v1/events")
	}
	if p := x.judge(x.given(false)); p != nil {
		return p
	}
	e := &x.items[0].Event
	if x.site == "" {
		if p := x.publicSite(e.Site); p != nil {
			return p
		}
	}
	if p := x.checkSite(); p != nil {
		return p
	}
	if p := x.checkOrigin(); p != nil {
		return p
	}
	if key = cmp.Or(key, e.Key, e.ID); key == "" && x.items[0].Refused == nil {
		return noKey("X-Idempotency-Key is missing, and so are the event's idempotencyKey and eventId: one of them is needed")
	}
	a, p := x.accept("collect", key)
	if p != nil {
		return p
	}
	x.accepted(a.Results)
	return nil
}

// authenticate finds whose key it is.
func (x *exchange) authenticate(key string) *request.Problem {
	p := x.Authenticate(key)
	if p == nil {
		x.site = x.Owner.Project.Name
		x.set, _ = x.h.o.Sites(x.site)
	}
	return p
}

// publicSite finds the site of an event that comes without a key.
func (x *exchange) publicSite(site string) *request.Problem {
	if site == "" { // what is wrong with it is said later
		return nil
	}
	set, ok := x.h.o.Sites(site)
	if !ok || !set.Public {
		return request.Refuse(http.StatusForbidden, "forbidden", "the site does not take events without a key, or there is no such site")
	}
	x.site, x.set = site, set
	return nil
}

// checkOrigin refuses a page that the site does not allow to send.
func (x *exchange) checkOrigin() *request.Problem {
	if x.set.allows(x.Said("Origin")) {
		return nil
	}
	x.TakeBack()
	return request.Refuse(http.StatusForbidden, "origin_not_allowed", "the site takes no events from pages of this origin")
}

// checkSite refuses events of another site than the key's.
func (x *exchange) checkSite() *request.Problem {
	for i := range x.items {
		if site := x.items[i].Event.Site; site != "" && site != x.site {
			return request.Refuse(http.StatusForbidden, "wrong_site", "event %d has another siteId than the key's", i)
		}
	}
	return nil
}

// idempotencyKey is that of the header; empty: there is none.
func (x *exchange) idempotencyKey() (string, *request.Problem) {
	switch said := x.R.Header["X-Idempotency-Key"]; {
	case len(said) == 0:
		return "", nil
	case len(said) > 1:
		return "", request.Refuse(http.StatusBadRequest, "bad_idempotency_key", "X-Idempotency-Key is given more than once")
	case !event.CheckKey(said[0]):
		return "", request.Refuse(http.StatusBadRequest, "bad_idempotency_key", "X-Idempotency-Key: 1 to 255 printable characters are wanted")
	default:
		return said[0], nil
	}
}

func noKey(text string, args ...any) *request.Problem {
	return request.Refuse(http.StatusBadRequest, "missing_idempotency_key", text, args...)
}

// checkKeys wants a key for all, or one for each.
func (x *exchange) checkKeys(key string) *request.Problem {
	if key != "" {
		return nil
	}
	for i := range x.items {
		if it := &x.items[i]; it.Event.Key == "" && it.Refused == nil {
			return noKey("X-Idempotency-Key is missing, and event %d has no idempotencyKey of its own", i)
		}
	}
	return nil
}

// given is what the request says of its events.
func (x *exchange) given(conversion bool) event.Given {
	return event.Given{Version: x.Said("X-Schema-Version"), Conversion: conversion}
}

// Names of a job's headers.
var (
	gpcHeader      = []byte("gpc")
	versionHeader  = []byte("schema-version")
	agentHeader    = []byte("user-agent")
	receivedHeader = []byte("received")
	yes            = []byte("1")
)

// maxAgent is how many bytes of a User-Agent are kept.
const maxAgent = 512

// gpc is whether the request opts out of sharing (Global Privacy Control).
func (x *exchange) gpc() bool {
	said := x.R.Header["Sec-Gpc"]
	return len(said) > 0 && strings.TrimSpace(said[0]) == "1"
}

// jobHeader is what every job of the request carries.
func (x *exchange) jobHeader() []tidemill.Field {
	f := x.fields[:0]
	if x.gpc() {
		f = append(f, tidemill.Field{Name: gpcHeader, Value: yes})
	}
	if v := x.Said("X-Schema-Version"); v != "" {
		f = append(f, tidemill.Field{Name: versionHeader, Value: []byte(v)})
	}
	if agent := x.Said("User-Agent"); agent != "" {
		x.agent = append(x.agent[:0], strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], "")...)
		f = append(f, tidemill.Field{Name: agentHeader, Value: x.agent})
	}
	return x.Trace.Put(append(f, tidemill.Field{Name: receivedHeader, Value: appendMillis(x.stamp[:0], x.At.UTC())}))
}

// appendMillis appends a time in UTC as RFC 3339 has it, to the millisecond.
func appendMillis(b []byte, t time.Time) []byte {
	b = t.AppendFormat(b, time.RFC3339) // for which there is a fast way
	ms := t.Nanosecond() / 1e6
	return append(b[:len(b)-1], '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

// errOver says that a site has no events left for its day.
var errOver = errors.New("the site's events of this day are used up")

// accept makes the events durable. Where all of them are wrong that is a problem.
func (x *exchange) accept(scope, key string) (*accept.Answer, *request.Problem) {
	good := 0
	for i := range x.items {
		if x.items[i].Refused == nil {
			good++
		}
	}
	if good == 0 {
		x.Count(rejected, len(x.items))
		return nil, x.noneGood()
	}
	x.ask = accept.Request{Site: x.site, Scope: scope, Key: key, Body: x.Body.Bytes, Items: x.items,
		Low: x.Said("X-Priority") == "low", Header: x.jobHeader()}
	var over *request.Problem
	if x.set.PerDay > 0 {
		x.ask.Admit = func(n int) error {
			if over = x.admitDay(n); over != nil {
				return errOver
			}
			return nil
		}
		x.ask.Return = x.returnDay
	}
	ctx, done := x.Urgent(x.R.Context(), len(x.ask.Items))
	defer done()
	a, err := x.h.o.Acceptor.Accept(ctx, &x.ask)
	switch {
	case errors.Is(err, errOver):
		x.Count(limited, good)
		return nil, over
	case err != nil:
		x.returnDay()
		return nil, x.notAccepted(err, good)
	}
	x.Count(accepted, a.Accepted)
	x.Count(duplicate, a.Duplicate)
	x.Count(rejected, a.Rejected)
	if a.Again {
		x.Count(repeated, len(x.items))
	}
	return a, nil
}

// notAccepted is why the ingest API's rules did not take a request.
func (x *exchange) notAccepted(err error, n int) *request.Problem {
	switch {
	case errors.Is(err, accept.ErrRunning):
		return &request.Problem{Status: http.StatusConflict, Reason: "request_in_progress", Text: err.Error(), After: 1}
	case errors.Is(err, accept.ErrReused):
		x.Count(rejected, n)
		return request.Refuse(http.StatusUnprocessableEntity, accept.ErrorReused, "%v", err)
	}
	x.Count(unkept, n)
	if errors.Is(err, accept.ErrFull) {
		return request.Busy("unkept", accept.ErrFull.Error())
	}
	x.Unkept(x.site, n, err)
	return request.Busy("unkept", "events cannot be kept now, please retry")
}

// noneGood is the problem of a request of which every event is wrong: of a single one its
// fields, of several all of them.
func (x *exchange) noneGood() *request.Problem {
	p := request.Refuse(http.StatusUnprocessableEntity, accept.ErrorInvalid, "no event of the array is valid")
	if !x.many {
		bad := x.items[0].Refused
		p.Text = "the event is not valid"
		if len(x.items[0].Raw) > event.MaxSize {
			p.Status, p.Reason = http.StatusRequestEntityTooLarge, "too_large"
		}
		p.More = func(b []byte) []byte { return bad.AppendJSON(append(b, `,"details":`...)) }
		return p
	}
	p.More = func(b []byte) []byte { return accept.AppendRefused(append(b, `,"results":`...), x.items) }
	return p
}

func invalid(err error) *event.Invalid {
	if bad, ok := errors.AsType[*event.Invalid](err); ok {
		return bad
	}
	return &event.Invalid{Problems: []event.Problem{{Wrong: err.Error()}}}
}

// accepted answers with what became of each event: of a single one alone, of an array all.
func (x *exchange) accepted(results []byte) {
	if !x.many {
		x.JSON(http.StatusAccepted, results[1:len(results)-1])
		return
	}
	b := append(make([]byte, 0, len(results)+16), `{"results":`...)
	x.JSON(http.StatusAccepted, append(append(b, results...), '}'))
}
