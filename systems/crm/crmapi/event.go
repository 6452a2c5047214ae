package crmapi

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
)

// crmEvent explains where an event is.
func (a *API) crmEvent(ctx context.Context, q *OneCRMEvent) (out CRMEvent, err error) {
	if err := a.crmNamed(q); err != nil {
		return out, err
	}
	e, err := a.CRM.Event(ctx, q.Tenant, q.Event)
	if err != nil {
		return out, answer.Answerable(err)
	}
	out = whereIs(e)
	out.Tenant, out.ID, out.State, out.Others = q.Tenant, q.Event, crmingest.StateOf(e), []api.Job{}
	others, err := a.otherJobs(ctx, q.Tenant, q.Event, e)
	if err != nil {
		return out, err
	}
	for _, j := range others {
		out.Others = append(out.Others, answer.ShowJob(j, true))
	}
	if len(others) > 0 && (out.State == crmingest.Failed || out.State == crmingest.Dead) {
		out.State = crmingest.Retrying
	}
	out.Attempts = attemptsOf(e, others)
	out.Covered = operation.Covers(ctx, ofCRM, out.bytes())
	return out, nil
}

// whereIs shows what has an event: its dead letter, its job, its record.
func whereIs(e *crm.EventStatus) (out CRMEvent) {
	if l := e.Dead; l != nil {
		shown := answer.DeadLetter(l, true)
		shown.Tenant = l.Tenant
		out.Letter, out.Type = &shown, l.Type
	}
	if j := e.Job; j != nil {
		shown := answer.ShowJob(j, true)
		out.Job, out.Type, out.Received = &shown, j.Type, answer.When(j.Added)
	}
	if rec := e.Record; rec != nil {
		shown := showRecord(rec, true)
		out.Record, out.Type = &shown, rec.Type
		if out.Received == nil {
			out.Received = answer.When(rec.Created)
		}
	}
	return out
}

// Payload is the event as received or edited, of whatever still has it: as text, or in base64 where it is none.
func (e *CRMEvent) Payload() (text, base string) {
	switch {
	case e.Letter != nil:
		return e.Letter.Payload, e.Letter.PayloadBase64
	case e.Job != nil:
		return e.Job.Payload, e.Job.PayloadBase64
	case e.Record != nil:
		return e.Record.Payload, e.Record.PayloadBase64
	}
	return "", ""
}

// bytes are the same, as they came.
func (e *CRMEvent) bytes() []byte { return answer.Bytes(e.Payload()) }

// ofCRM is an answer of the system.
var ofCRM = api.Job{System: crm.Name}

// crmPayload is an event as received.
func (a *API) crmPayload(ctx context.Context, q *OneCRMEvent) (out operation.Payload, err error) {
	if err := a.crmNamed(q); err != nil {
		return out, err
	}
	e, err := a.CRM.Event(ctx, q.Tenant, q.Event)
	if err != nil {
		return out, answer.Answerable(err)
	}
	is := whereIs(e)
	payload := is.bytes()
	return operation.PayloadOf(ctx, ofCRM, q.Event, wire.Fingerprint([]byte(q.Tenant), []byte(q.Event), payload), payload)
}

// othersTried is how many jobs of a tenant and type are looked at for those of one event.
const othersTried = 10_000

// otherJobs are those of an event beside its first: of retries and replays. Only what was
// taken up has any.
func (a *API) otherJobs(ctx context.Context, tenant, id string, e *crm.EventStatus) (found []*queue.Job, err error) {
	if a.Queues == nil || e.Record == nil && e.Dead == nil {
		return nil, nil
	}
	f := queue.Filter{Queue: crm.Queue, Tenant: tenant, Max: othersTried}
	if e.Record != nil {
		f.Type = e.Record.Type
	} else {
		f.Type = e.Dead.Type
	}
	for j, err := range a.Queues.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		if j.ID != id && crm.EventOf(&j.Message) == id {
			found = append(found, j)
		}
	}
	return found, nil
}

// attemptsOf are all failed tries of an event that somebody still knows, once each.
func attemptsOf(e *crm.EventStatus, others []*queue.Job) []api.Attempt {
	all := []api.Attempt{}
	add := func(more ...api.Attempt) {
		for _, m := range more {
			if !slices.ContainsFunc(all, func(k api.Attempt) bool { return k.At.Equal(m.At) && k.Cause == m.Cause }) {
				all = append(all, m)
			}
		}
	}
	if e.Job != nil {
		add(answer.Attempts(e.Job.Failures)...)
	}
	for _, j := range others {
		add(answer.Attempts(j.Failures)...)
	}
	if e.Dead != nil {
		add(answer.Attempts(queue.FailuresOf(&e.Dead.Message))...)
		for _, f := range e.Dead.History {
			add(answer.Last(f))
		}
	}
	slices.SortStableFunc(all, func(a, b api.Attempt) int { return a.At.Compare(b.At) })
	if r := e.Record; r != nil && r.State == crm.IsFailed && (len(all) == 0 || all[len(all)-1].At.Before(r.Started)) {
		all = append(all, api.Attempt{At: r.Failed.UTC(), Kind: r.Kind, Cause: r.Error}) // a failure that was no try of a job, or of one that is forgotten
	}
	return all
}
