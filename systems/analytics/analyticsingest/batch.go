package analyticsingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// batch is what is made of one request's events, in memory that is used again.
type batch struct {
	envelope envelope
	scanner  scanner
	received time.Time // with milliseconds
	event    event.Event
	verdicts []verdict
	jobs     []tidemill.Message
	refs     []*tidemill.Message // to jobs
	fields   []tidemill.Field    // a job's header each
	added    []queue.Added
	names    []uuid.UUID       // a job's each
	times    []event.Timing    // a job's each
	bytes    []byte            // keys and metas
	ids      []byte            // all ids as text, 36 bytes each
	traces   []*tidemill.Trace // a job's each, where it has one of its own; empty: they are the request's
	seen     map[[sha256.Size]byte]uint64
	hash     [sha256.Size]byte // of the body, once hashed
	hashed   bool

	kept, known, refused, full int // events, by verdict; kept includes known
}

// verdict is what becomes of one event.
type verdict struct {
	state  state
	reason string // refused: by which it is counted
	detail string // refused: in words
	name   string // refused: of the event, as far as it is known
	whose  string // refused: its distinct id
}

type state uint8

const (
	taken   state = iota // durable, once it is added
	refused              // wrong, and always will be
	unkept               // the queue is full: send it again
)

const (
	maxKeep       = 1 << 20 // bytes of a batch's memory that are used again
	maxKeepEvents = 1000    // and events: a batch that had more leaves all its memory
)

// reset empties the batch for the next request.
func (b *batch) reset() {
	if cap(b.jobs) > maxKeepEvents || cap(b.envelope.events) > maxKeepEvents || cap(b.verdicts) > maxKeepEvents {
		*b = batch{}
		return
	}
	clear(b.jobs)
	clear(b.refs)
	clear(b.fields)
	clear(b.verdicts)
	clear(b.seen)
	clear(b.envelope.events)
	if cap(b.bytes) > maxKeep {
		b.bytes = nil
	}
	b.verdicts, b.jobs, b.refs, b.fields = b.verdicts[:0], b.jobs[:0], b.refs[:0], b.fields[:0]
	clear(b.traces)
	b.names, b.times, b.traces = b.names[:0], b.times[:0], b.traces[:0]
	b.bytes, b.ids, b.hashed = b.bytes[:0], b.ids[:0], false
	b.kept, b.known, b.refused, b.full = 0, 0, 0, 0
}

// authenticate finds whose key it is.
func (x *exchange) authenticate(key string) *request.Problem {
	if key == "" {
		return request.Unauthorized("an API key is needed")
	}
	return x.Authenticate(key)
}

// authenticateBody finds whose the events are: the key of the header counts, else the
// envelope's, else what all events agree on.
func (x *exchange) authenticateBody(fromHeader string) *request.Problem {
	if fromHeader != "" {
		return nil // it was looked at before the body was read
	}
	v := &x.batch.envelope
	if v.key == "" {
		v.findKey()
	}
	if v.mixed {
		return request.Unauthorized("the body has several API keys; all events of one request belong to one project")
	}
	return x.authenticate(v.key)
}

// admit asks whether the project may send its events now. A Limited one is a problem.
func (x *exchange) admit(billed bool, limitedStatus int) (Admission, *request.Problem) {
	n := len(x.batch.envelope.events)
	a, err := x.h.o.Meter.Admit(x.R.Context(), x.Owner.Project.ID, n, billed)
	if err != nil {
		// Logged when what is left of a project's limit cannot be asked.
		// To do: see whether the Redis of limits is well; limits do not hold meanwhile.
		x.h.o.Log.WarnContext(x.R.Context(), "limits of events cannot be asked, events are let in", "error", err)
		return Admitted, nil
	}
	switch a {
	case Limited:
		x.Count("rate_limited", n)
		return a, &request.Problem{Status: limitedStatus, Reason: "rate_limited", Text: "the project sends too many events a minute, please retry later", After: retryLimited}
	case OverQuota:
		x.Count("quota_limited", n)
		x.h.o.Warn(x.R.Context(), x.Owner.Project.ID, "quota_limited", "", "", "the month's quota of events is used up; events are dropped")
	}
	return a, nil
}

// judge decodes every event and makes a job of each good one. The events that m is of
// are at most most bytes large; 0: any size that a body may have.
func (x *exchange) judge(m event.Meta, most int) {
	m.Project, m.Received, m.Clock = x.Owner.Project.ID, x.batch.received, x.h.o.Clock
	b := x.batch
	for i, raw := range b.envelope.events {
		m.Event = uuid.Nil
		b.verdicts = append(b.verdicts, x.judgeOne(&m, i, raw, most))
	}
	m.Clock.Together(b.times, x.batch.received)
	for i, t := range b.times {
		m.Event, m.At, m.Order, m.Beyond = b.names[i], t.At, t.Order, t.Beyond != ""
		m.Sum = event.SumOf(b.jobs[i].Payload)
		at := len(b.bytes)
		b.bytes = m.Append(b.bytes)
		b.fields = append(b.fields, tidemill.Field{Name: x.h.metaHeader, Value: b.bytes[at:len(b.bytes):len(b.bytes)]})
	}
	ids := string(b.ids)
	for i := range b.jobs {
		j := &b.jobs[i]
		j.ID = ids[36*i : 36*i+36]
		trace := x.Trace
		if len(b.traces) > 0 {
			trace = b.traces[i]
		}
		j.Header = trace.Put(b.fields[i : i+1 : i+1])
		b.refs = append(b.refs, j)
	}
	b.refused = len(b.verdicts) - len(b.jobs)
}

func (x *exchange) judgeOne(m *event.Meta, index int, raw []byte, most int) verdict {
	b, e := x.batch, &x.batch.event
	e.Reset()
	if most > 0 && len(raw)+len(m.Context) > most {
		return verdict{state: refused, reason: "too_large", detail: "the event has, with the context of its batch, more than " + kilobytes(most)}
	}
	if r := x.h.decode(m, raw, e); r != nil {
		return verdict{state: refused, reason: r.Reason, detail: r.Detail, name: e.Name, whose: e.DistinctID}
	}
	name := e.ID
	if e.Derived {
		name = x.nameless(index, raw, m.Sent)
	}
	b.names, b.times = append(b.names, name), append(b.times, e.Timing())
	var id [36]byte
	encodeUUID(&id, name)
	b.ids = append(b.ids, id[:]...)
	at := len(b.bytes)
	b.bytes = append(b.bytes, e.DistinctID...)
	b.jobs = append(b.jobs, tidemill.Message{Tenant: x.Owner.Tenant, Type: e.Name, To: x.h.queueOf(x.Owner.Project.ID),
		Key: b.bytes[at:len(b.bytes):len(b.bytes)], Payload: raw, Time: x.batch.received})
	if x.Trace != nil && m.Format == event.CloudEvents {
		b.traces = append(b.traces, x.own(raw))
	}
	return verdict{}
}

// own is the trace of a CloudEvent: that in which it happened, or the request's, where it names none or
// the request is of the same trace.
func (x *exchange) own(raw []byte) *tidemill.Trace {
	t, ok := event.TraceOfCloudEvent(raw)
	if !ok || t.ID == x.Trace.ID {
		return x.Trace
	}
	return &t
}

// decode reads and checks one event, and says why it is not taken; e then holds what was
// read until then.
func (h *Handler) decode(m *event.Meta, raw []byte, e *event.Event) *event.Refusal {
	if e.Reset(); deeper(raw, h.o.Limits.Depth) {
		return &event.Refusal{Reason: event.Invalid, Detail: "event: objects and arrays are nested too deep"}
	}
	err := event.Decode(m, raw, e)
	if err == nil {
		err = event.Validate(e)
	}
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*event.Refusal](err); ok {
		return r
	}
	return &event.Refusal{Reason: event.Invalid, Detail: err.Error()}
}

// add makes the good events durable. With nothing half, a full queue is a problem though
// some events may be in it: sent again, they are known.
func (x *exchange) add(billed bool) *request.Problem {
	b := x.batch
	if len(b.jobs) > 0 {
		if cap(b.added) < len(b.jobs) {
			b.added = make([]queue.Added, cap(b.jobs))
		}
		b.added = b.added[:len(b.jobs)]
		clear(b.added)
		// Not ended by a client that hangs up: it will send the same again, and under load
		// nothing would ever be kept if each try were dropped half-way.
		ctx, done := x.Urgent(context.WithoutCancel(x.R.Context()), len(b.jobs))
		defer done()
		ctx, cancel := context.WithTimeout(ctx, addTimeout)
		err := x.h.o.Intake.Add(ctx, b.refs, b.added)
		cancel()
		if err != nil {
			x.Count("failed", len(b.jobs))
			x.Unkept(x.Owner.Tenant, len(b.jobs), err)
			return request.Busy("unkept", "events cannot be kept now, please retry")
		}
	}
	x.count(billed)
	if b.full > 0 {
		return request.Busy("full", "the queue is full, please retry later")
	}
	return nil
}

// count notes what became of the events.
func (x *exchange) count(billed bool) {
	b := x.batch
	next := 0
	for i := range b.verdicts {
		v := &b.verdicts[i]
		if v.state == refused {
			continue
		}
		switch b.added[next] {
		case queue.New:
			b.kept++
		case queue.Known:
			b.kept++
			b.known++
		default:
			v.state = unkept
			b.full++
		}
		next++
	}
	x.Count("accepted", b.kept-b.known)
	x.Count("known", b.known)
	x.Count("full", b.full)
	if b.full == 0 || x.Path == postHogV1 {
		x.warn()
	}
	if n := b.kept - b.known; billed && n > 0 {
		if err := x.h.o.Meter.Bill(x.R.Context(), x.Owner.Project.ID, n); err != nil {
			// Logged when events were taken in, and the project's limit could not be told.
			// To do: see whether the Redis of limits is well; the project may send more than its limit
			// meanwhile.
			x.h.o.Log.WarnContext(x.R.Context(), "events cannot be counted for their project's limit", "count", n, "tenant", x.Owner.Tenant, "error", err)
		}
	}
}

// warn counts the refused events and says why they are, and which times were beyond the
// bounds.
func (x *exchange) warn() {
	x.h.warnBeyond(x.R.Context(), x.Owner.Project.ID, x.batch.times, x.batch.refs)
	if x.batch.refused == 0 {
		return
	}
	for i := range x.batch.verdicts {
		if v := &x.batch.verdicts[i]; v.state == refused {
			x.Count(v.reason, 1)
			x.h.o.Warn(x.R.Context(), x.Owner.Project.ID, v.reason, cut(v.name), cut(v.whose), v.detail)
		}
	}
}

// firstRefusal is the reason in words of the first event that was refused.
func (x *exchange) firstRefusal() string {
	for i := range x.batch.verdicts {
		if v := &x.batch.verdicts[i]; v.state == refused {
			return v.detail
		}
	}
	return ""
}

// noneGood is the problem of a batch of which every event was refused.
func (x *exchange) noneGood() *request.Problem {
	return &request.Problem{Status: http.StatusBadRequest, Reason: "none_good", Text: "no event of the batch can be taken; the first: " + x.firstRefusal()}
}
