package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/trail"
)

const (
	// KeptTrail and MostTrail are how long entries of the audit trail are kept, and how many.
	KeptTrail = 400 * 24 * time.Hour
	MostTrail = 1_000_000

	trailEnd  = 5 * time.Second // that writing an end may take, after the client is gone too
	trailPage = 500             // entries read at once

	opLogin, opLogout = "login", "logout" // what entries are of that no operation made
)

// changes says whether an operation is a person's change, which the trail has.
func changes(d *operation.Description) bool {
	return d.Method != http.MethodGet && !d.Ingest && !d.Reads
}

// entryFor is the entry of a request. Of its parameters it has those that the operation has: others are
// refused, and what is in them is not known.
func (a *API) entryFor(r *http.Request, d *operation.Description) trail.Entry {
	e := a.entryBy(r, caller.From(r.Context()))
	e.Operation = d.ID
	given := r.Form
	if given == nil {
		given = r.URL.Query()
	}
	var things []string
	kept := url.Values{}
	for _, p := range d.Params {
		switch texts, is := given[p.Name]; {
		case p.In == operation.InPath:
			things = append(things, r.PathValue(p.Name))
		case p.In == operation.InQuery && is: // what the operation does not have may be anything: a password
			kept[p.Name] = texts
		}
	}
	e.Thing, e.Filter = strings.Join(things, "/"), kept.Encode()
	for _, name := range []string{"name", "id", "seq"} { // of one that is chosen
		if texts := kept[name]; r.Form != nil && e.Thing == "" && len(texts) == 1 {
			e.Thing = texts[0]
		}
	}
	return e
}

func (a *API) entryBy(r *http.Request, who caller.Caller) trail.Entry {
	e := trail.Entry{At: a.now(), Who: who.Name, Role: who.Rights.String(), Via: who.Via, Session: who.Session}
	if who.From.IsValid() {
		e.From = who.From.String()
	}
	if t := operation.TraceOf(r.Context()); t != nil {
		e.Request, e.Trace = t.ID, t.Whole
	}
	return e
}

// trailed does a change, with what is asked for written before and what came of it after. Without
// the first nothing is done.
func (a *API) trailed(w http.ResponseWriter, r *http.Request, d *operation.Description, do func(http.ResponseWriter, *http.Request) error) error {
	if changes(d) {
		defer a.standing.changed()
	} else if !operation.TakesAway(d, r) {
		return do(w, r)
	}
	if a.Trail == nil {
		return do(w, r)
	}
	if d.Body() == nil {
		if err := operation.ReadForm(w, r); err != nil { // it is said once only
			a.wrote(r, a.entryFor(r, d), endOf(r.Context(), d, 0, err))
			return err
		}
	}
	seq, err := a.Trail.Begin(r.Context(), a.entryFor(r, d))
	if err != nil {
		p := operation.Refuse(http.StatusServiceUnavailable, "nothing was done, as the audit trail cannot be written: %v", err)
		p.After = 5
		return p
	}
	s, ended := &statusWriter{ResponseWriter: w, status: http.StatusOK}, false
	defer func() {
		if !ended { // it panicked
			a.endTrail(r, seq, trail.End{Outcome: trail.Failed})
		}
	}()
	err = do(s, r)
	ended = true
	a.endTrail(r, seq, endOf(r.Context(), d, s.status, err))
	return err
}

// endOf is what came of a change.
func endOf(ctx context.Context, d *operation.Description, status int, err error) trail.End {
	end := trail.End{Outcome: trail.Done, Status: status}
	if t := operation.TraceOf(ctx); t != nil {
		end.Before, end.After = string(t.Before), string(t.After)
	}
	if err == nil {
		return end
	}
	end.Outcome, end.Status, end.Detail = trail.Failed, http.StatusInternalServerError, err.Error()
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		if end.Status = p.Status; p.Status/100 == 4 && p.Done == nil {
			end.Outcome = trail.Refused
		}
	}
	if d.Body() != nil { // an error may quote it
		end.Detail = http.StatusText(end.Status)
	}
	return end
}

func (a *API) endTrail(r *http.Request, seq uint64, end trail.End) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), trailEnd)
	defer cancel()
	end.Ended = a.now()
	if err := a.Trail.End(ctx, seq, end); err != nil {
		// Logged when a change was made or refused, and its entry in the audit trail could not be
		// ended.
		// To do: see whether the store of the audit trail is well; the entry stays without an outcome,
		// which this record has.
		a.Log.ErrorContext(ctx, "the audit trail does not say how a change ended", "path", r.URL.Path, "outcome", end.Outcome, "error", err)
	}
}

// statusWriter knows the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap implements what http.ResponseController asks for.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// refusedBy writes a change that a caller has no right to.
func (a *API) refusedBy(r *http.Request, d *operation.Description, err error) {
	if who := caller.From(r.Context()); a.Trail != nil && (changes(d) || operation.TakesAway(d, r)) && who.Rights != (caller.Rights{}) {
		a.wrote(r, a.entryFor(r, d), endOf(r.Context(), d, 0, err))
	}
}

// loggedIn writes a login, one that was refused, or a logout; and how many more were refused.
func (a *API) loggedIn(r *http.Request, l access.Login) {
	if a.Trail == nil {
		return
	}
	e, end := a.entryBy(r, l.Who), trail.End{Outcome: trail.Done}
	if e.Operation = opLogin; l.Out {
		e.Operation = opLogout
	}
	if p, ok := errors.AsType[*operation.Problem](l.Err); l.Err != nil {
		if end.Outcome, end.Detail = trail.Failed, l.Err.Error(); ok {
			end.Outcome, end.Status = trail.Refused, p.Status
		}
	}
	if l.More > 0 {
		end.Detail = strings.TrimSpace(fmt.Sprintf("%s (%d more from this address were refused since the last one that stands here)", end.Detail, l.More))
	}
	a.wrote(r, e, end)
}

// wrote writes what has ended already.
func (a *API) wrote(r *http.Request, e trail.Entry, end trail.End) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), trailEnd)
	defer cancel()
	seq, err := a.Trail.Begin(ctx, e)
	if err != nil {
		// Logged when something that has happened already, as a login, could not be written to the
		// audit trail.
		// To do: see whether the store of the audit trail is well; the trail lacks what this record
		// has.
		a.Log.ErrorContext(ctx, "the audit trail cannot be written", "what", e.Operation, "by", e.Who, "error", err)
		return
	}
	a.endTrail(r, seq, end)
}

// auditing are the operations of the trail.
func (a *API) auditing() Room {
	return Room{Missing: in(a.Trail != nil, "this instance has no database that keeps an audit trail"), Does: []operation.Handler{
		api.ListAuditTrail.By(a.auditTrail), api.CheckAuditTrail.By(a.checkTrail), api.ListChanges.By(a.lastChanges)}}
}

func (a *API) auditTrail(ctx context.Context, q *api.TrailFilter) (iter.Seq2[api.TrailEntry, error], error) {
	f := trail.Filter{Who: q.Who, Operation: q.Operation, Thing: q.Thing, Outcome: q.Outcome, Back: q.Back()}
	var err error
	if f.After, f.Before, err = answer.Span(q.Span); err != nil {
		return nil, err
	}
	most, err := q.Most(q.Max)
	if err != nil {
		return nil, err
	}
	f.Beyond, _ = strconv.ParseUint(q.After(), 10, 64) // it was written so
	return a.entries(ctx, f, most), nil
}

// entries lists entries, page by page; most 0: all.
func (a *API) entries(ctx context.Context, f trail.Filter, most int) iter.Seq2[api.TrailEntry, error] {
	return func(yield func(api.TrailEntry, error) bool) {
		for left := most; most == 0 || left > 0; {
			if f.Most = trailPage; most > 0 {
				f.Most = min(trailPage, left)
			}
			page, err := a.Trail.List(ctx, f)
			if err != nil {
				yield(api.TrailEntry{}, answer.Busy(err))
				return
			}
			for _, e := range page {
				if !yield(showEntry(&e), nil) {
					return
				}
			}
			if len(page) < f.Most {
				return
			}
			left -= len(page)
			f.Beyond = page[len(page)-1].Seq
		}
	}
}

func showEntry(e *trail.Entry) api.TrailEntry {
	return api.TrailEntry{Seq: e.Seq, At: e.At.UTC(), Who: e.Who, Role: e.Role, Via: e.Via, From: e.From, Session: e.Session, Operation: e.Operation, Thing: e.Thing, Filter: e.Filter, Request: e.Request, Trace: e.Trace,
		Outcome: e.Outcome, Ended: answer.When(e.Ended), Status: e.Status, Detail: e.Detail, Before: noted(e.Before), After: noted(e.After)}
}

// noted is a value that was noted; one that was cut is shown as text.
func noted(s string) json.RawMessage {
	switch {
	case s == "":
		return nil
	case json.Valid([]byte(s)):
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(s)
	return b
}

func (a *API) checkTrail(ctx context.Context, _ *operation.None) (api.TrailCheck, error) {
	c, err := a.Trail.Check(ctx)
	if err != nil {
		return api.TrailCheck{}, answer.Busy(err)
	}
	return api.TrailCheck{Whole: len(c.Wrong) == 0, Entries: c.Entries, First: c.First, Last: c.Last, Head: c.Head, Wrong: slices.Concat([]string{}, c.Wrong)}, nil
}
