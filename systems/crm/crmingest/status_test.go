package crmingest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	crmevent "github.com/tidemill/tidemill/systems/crm/event"
)

func invalid(err error) *crmevent.Invalid {
	bad, _ := errors.AsType[*crmevent.Invalid](err)
	return bad
}

// known are events by tenant and id.
type known struct {
	events map[string]*crm.EventStatus
	err    error
}

func (k *known) Event(_ context.Context, tenant, id string) (*crm.EventStatus, error) {
	if k.err != nil {
		return nil, k.err
	}
	if e := k.events[tenant+"/"+id]; e != nil {
		return e, nil
	}
	return nil, tidemill.Fail(tidemill.NotFound, "event: %w", crm.ErrNoEvent)
}

func TestATenantSeesWhereItsOwnEventsAre(t *testing.T) {
	m := tidemill.Message{Type: "member.created"}
	k := &known{events: map[string]*crm.EventStatus{
		"club/a/b c": {Job: &queue.Job{Message: m, State: queue.Waiting, Added: today}},
		"club/failed": {
			Record: &crm.Record{Type: "member.created", State: crm.IsFailed, Kind: "transient", Error: "inner words", Attempts: 2, Created: today.Add(time.Second), Started: today.Add(2 * time.Second), Failed: today.Add(3 * time.Second)},
			Job:    &queue.Job{Message: tidemill.Message{Type: "member.created", At: today.Add(time.Minute)}, State: queue.Delayed, Added: today}},
		"club/dead": {Dead: &deadletter.Letter{Message: m, Kind: tidemill.Business, Cause: "inner words", Last: today, State: deadletter.Held}},
		"other/e":   {Job: &queue.Job{Message: m, State: queue.Waiting, Added: today}},
	}}
	d := newEndpoint(t, func(o *Options) { o.Events = k })
	get := func(id string, h header, code int, body string) {
		t.Helper()
		want(t, d.ask("GET", Path+"/"+id, "", h), code, body)
	}
	get("a%2Fb%20c", nil, 200, `{"id":"a/b c","tenantId":"club","type":"member.created","status":"queued","attempts":0,"receivedAt":"2026-11-21T19:00:20Z"}`)
	get("a/b%20c", nil, 200, `{"id":"a/b c","tenantId":"club","type":"member.created","status":"queued","attempts":0,"receivedAt":"2026-11-21T19:00:20Z"}`)
	get("failed", nil, 200, `{"id":"failed","tenantId":"club","type":"member.created","status":"retrying","reason":"transient","attempts":2,`+
		`"receivedAt":"2026-11-21T19:00:20Z","startedAt":"2026-11-21T19:00:22Z","failedAt":"2026-11-21T19:00:23Z","nextAttemptAt":"2026-11-21T19:01:20Z"}`)
	get("dead", nil, 200, `{"id":"dead","tenantId":"club","type":"member.created","status":"dead","reason":"business","attempts":0,"failedAt":"2026-11-21T19:00:20Z"}`)
	get("e", nil, 404, "not_found")
	get("e", header{"X-API-Key": otherKey}, 200, `{"id":"e","tenantId":"other","type":"member.created","status":"queued","attempts":0,"receivedAt":"2026-11-21T19:00:20Z"}`)
	get("dead", header{"X-API-Key": otherKey}, 404, "not_found")
	get("dead", header{"X-API-Key": "wrong"}, 401, "unauthorized")
	for _, wrong := range []string{"%00", "%ff", "a%0Ab", strings.Repeat("x", 256)} {
		get(wrong, nil, 404, "not_found")
	}
	k.err = tidemill.Fail(tidemill.Transient, "connection refused")
	get("dead", nil, 503, "unavailable")
}

func TestWhereAnEventIsInAWord(t *testing.T) {
	record := func(state, kind string) *crm.Record { return &crm.Record{State: state, Kind: kind} }
	job := func(s queue.State, f tidemill.Fate) *queue.Job { return &queue.Job{State: s, Fate: f} }
	held, again := &deadletter.Letter{State: deadletter.Held}, &deadletter.Letter{State: deadletter.Replaying}
	for _, c := range []struct {
		want string
		e    crm.EventStatus
	}{
		{Queued, crm.EventStatus{Job: job(queue.Waiting, 0)}},
		{Queued, crm.EventStatus{Job: job(queue.Delayed, 0)}},
		{Processing, crm.EventStatus{Job: job(queue.Leased, 0)}},
		{Retrying, crm.EventStatus{Job: &queue.Job{State: queue.Delayed, Failures: make([]queue.Failure, 1)}}},
		{Completed, crm.EventStatus{Job: job(queue.Completed, tidemill.Delivered)}},
		{Skipped, crm.EventStatus{Job: job(queue.Completed, tidemill.Skipped)}},
		{Failed, crm.EventStatus{Job: job(queue.Failed, tidemill.Dead)}},
		{Dead, crm.EventStatus{Job: job(queue.Failed, tidemill.Dead), Dead: held}},
		{Retrying, crm.EventStatus{Dead: again}},
		{Processing, crm.EventStatus{Record: record(crm.Processing, ""), Job: job(queue.Leased, 0)}},
		{Processing, crm.EventStatus{Record: record(crm.Processing, "")}},
		{Processing, crm.EventStatus{Record: record(crm.Processing, ""), Job: job(queue.Completed, tidemill.Delivered)}}, // by a replay
		{Retrying, crm.EventStatus{Record: record(crm.Processing, ""), Job: job(queue.Waiting, 0)}},                      // its worker died
		{Completed, crm.EventStatus{Record: record(crm.IsCompleted, ""), Job: job(queue.Leased, 0)}},
		{Retrying, crm.EventStatus{Record: record(crm.IsFailed, "transient"), Job: job(queue.Delayed, 0)}},
		{Retrying, crm.EventStatus{Record: record(crm.IsFailed, "transient"), Job: job(queue.Failed, tidemill.Dead), Dead: again}},
		{Dead, crm.EventStatus{Record: record(crm.IsFailed, "business"), Job: job(queue.Failed, tidemill.Dead), Dead: held}},
		{Skipped, crm.EventStatus{Record: record(crm.IsFailed, "skipped"), Job: job(queue.Completed, tidemill.Skipped)}},
		{Failed, crm.EventStatus{Record: record(crm.IsFailed, "validation"), Job: job(queue.Completed, tidemill.Skipped)}},
		{Failed, crm.EventStatus{Record: record(crm.IsFailed, "transient")}},
	} {
		if got := StateOf(&c.e); got != c.want {
			t.Errorf("%+v is %s, want %s", c.e, got, c.want)
		}
	}
}
