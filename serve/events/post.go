package events

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// ofServer reads and judges what comes with a site's key, and returns its idempotency key.
func (x *exchange) ofServer(conversion bool) (key string, p *problem) {
	if p := x.authenticate(request.Key(x.r)); p != nil {
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
func (x *exchange) post() *problem {
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
func (x *exchange) collect() *problem {
	if key := request.Key(x.r); key != "" {
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
		return badRequest("bad_request", "one event is wanted here, not an array; arrays go to /v1/events")
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
func (x *exchange) authenticate(key string) *problem {
	if key == "" {
		return &problem{http.StatusUnauthorized, "unauthorized", "an API key is needed, as X-API-Key or Authorization: Bearer", 0, nil}
	}
	o, err := x.h.keys.Find(x.r.Context(), key)
	switch {
	case err == nil:
		x.body.Vouch()
		x.site = o.Project.Name
		x.set, _ = x.h.o.Sites(x.site)
		return nil
	case errors.Is(err, project.ErrUnknown):
		x.h.keys.Refused(x.r.Context(), request.Address(x.r, x.h.o.TrustProxy))
		return &problem{http.StatusUnauthorized, "unauthorized", "the API key is not known", 0, nil}
	}
	x.h.o.Log.WarnContext(x.r.Context(), "projects cannot be asked", "error", err)
	return busy("keys cannot be checked now, please retry")
}

// publicSite finds the site of an event that comes without a key.
func (x *exchange) publicSite(site string) *problem {
	if site == "" { // what is wrong with it is said later
		return nil
	}
	set, ok := x.h.o.Sites(site)
	if !ok || !set.Public {
		return forbidden("forbidden", "the site does not take events without a key, or there is no such site")
	}
	x.site, x.set = site, set
	return nil
}

// checkSite refuses events of another site than the key's.
func (x *exchange) checkSite() *problem {
	for i := range x.items {
		if site := x.items[i].Event.Site; site != "" && site != x.site {
			return forbidden("wrong_site", fmt.Sprintf("event %d has another siteId than the key's", i))
		}
	}
	return nil
}

// idempotencyKey is that of the header; empty: there is none.
func (x *exchange) idempotencyKey() (string, *problem) {
	switch said := x.r.Header["X-Idempotency-Key"]; {
	case len(said) == 0:
		return "", nil
	case len(said) > 1:
		return "", badRequest("bad_idempotency_key", "X-Idempotency-Key is given more than once")
	case !event.CheckKey(said[0]):
		return "", badRequest("bad_idempotency_key", "X-Idempotency-Key: 1 to 255 printable characters are wanted")
	default:
		return said[0], nil
	}
}

func noKey(text string) *problem { return badRequest("missing_idempotency_key", text) }

// checkKeys wants a key for all, or one for each.
func (x *exchange) checkKeys(key string) *problem {
	if key != "" {
		return nil
	}
	for i := range x.items {
		if it := &x.items[i]; it.Event.Key == "" && it.Refused == nil {
			return noKey(fmt.Sprintf("X-Idempotency-Key is missing, and event %d has no idempotencyKey of its own", i))
		}
	}
	return nil
}

// given is what the request says of its events.
func (x *exchange) given(conversion bool) event.Given {
	return event.Given{Version: x.said("X-Schema-Version"), Conversion: conversion}
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
	said := x.r.Header["Sec-Gpc"]
	return len(said) > 0 && strings.TrimSpace(said[0]) == "1"
}

// jobHeader is what every job of the request carries.
func (x *exchange) jobHeader() []tidemill.Field {
	f := x.fields[:0]
	if x.gpc() {
		f = append(f, tidemill.Field{Name: gpcHeader, Value: yes})
	}
	if v := x.said("X-Schema-Version"); v != "" {
		f = append(f, tidemill.Field{Name: versionHeader, Value: []byte(v)})
	}
	if agent := x.said("User-Agent"); agent != "" {
		x.agent = append(x.agent[:0], strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], "")...)
		f = append(f, tidemill.Field{Name: agentHeader, Value: x.agent})
	}
	return append(f, tidemill.Field{Name: receivedHeader, Value: appendMillis(x.stamp[:0], x.at)})
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
func (x *exchange) accept(scope, key string) (*accept.Answer, *problem) {
	good := 0
	for i := range x.items {
		if x.items[i].Refused == nil {
			good++
		}
	}
	if good == 0 {
		x.h.stats.event(x.door, rejected, len(x.items))
		return nil, x.noneGood()
	}
	x.ask = accept.Request{Site: x.site, Scope: scope, Key: key, Body: x.body.Bytes, Items: x.items,
		Low: x.said("X-Priority") == "low", Header: x.jobHeader()}
	var over *problem
	if x.set.PerDay > 0 {
		x.ask.Admit = func(n int) error {
			if over = x.admitDay(n); over != nil {
				return errOver
			}
			return nil
		}
		x.ask.Return = x.returnDay
	}
	a, err := x.h.o.Acceptor.Accept(x.r.Context(), &x.ask)
	switch {
	case errors.Is(err, errOver):
		x.h.stats.event(x.door, limited, good)
		return nil, over
	case err != nil:
		x.returnDay()
		return nil, x.notAccepted(err, good)
	}
	x.h.stats.event(x.door, accepted, a.Accepted)
	x.h.stats.event(x.door, duplicate, a.Duplicate)
	x.h.stats.event(x.door, rejected, a.Rejected)
	if a.Again {
		x.h.stats.event(x.door, repeated, len(x.items))
	}
	return a, nil
}

// notAccepted is why the door's rules did not take a request.
func (x *exchange) notAccepted(err error, n int) *problem {
	switch {
	case errors.Is(err, accept.ErrRunning):
		return &problem{http.StatusConflict, "request_in_progress", err.Error(), retryRunning, nil}
	case errors.Is(err, accept.ErrReused):
		x.h.stats.event(x.door, rejected, n)
		return &problem{http.StatusUnprocessableEntity, accept.ErrorReused, err.Error(), 0, nil}
	}
	x.h.stats.event(x.door, unkept, n)
	if errors.Is(err, accept.ErrFull) {
		return busy(accept.ErrFull.Error())
	}
	x.h.o.Log.WarnContext(x.r.Context(), "events cannot be kept", "count", n, "site", x.site, "error", err)
	return busy("events cannot be kept now, please retry")
}

// noneGood is the problem of a request of which every event is wrong: of a single one its
// fields, of several all of them.
func (x *exchange) noneGood() *problem {
	p := &problem{http.StatusUnprocessableEntity, accept.ErrorInvalid, "no event of the array is valid", 0, nil}
	if !x.many {
		bad := x.items[0].Refused
		p.text = "the event is not valid"
		if len(x.items[0].Raw) > event.MaxSize {
			p.code, p.error = http.StatusRequestEntityTooLarge, "too_large"
		}
		p.more = func(b []byte) []byte { return bad.AppendJSON(append(b, `,"details":`...)) }
		return p
	}
	p.more = func(b []byte) []byte { return accept.AppendRefused(append(b, `,"results":`...), x.items) }
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
		x.answer(http.StatusAccepted, results[1:len(results)-1])
		return
	}
	b := append(make([]byte, 0, len(results)+16), `{"results":`...)
	x.answer(http.StatusAccepted, append(append(b, results...), '}'))
}
