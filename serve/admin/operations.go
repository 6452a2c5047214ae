package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/operate"
	"github.com/tidemill/tidemill/state/bulk"
)

// operations is what the API does of operations.
func (a *API) operations() Room {
	return Room{Missing: in(a.Bulk != nil, "this instance has no database that keeps operations"), Does: []operation.Handler{
		api.PreviewOperation.By(a.preview),
		api.StartOperation.By(a.start),
		api.ListOperations.By(a.listOperations),
		api.GetOperation.By(a.getOperation),
		api.StopOperation.By(a.stopOperation),
	}}
}

// Operations that cannot be taken back begin so long after they were started.
const (
	undoOne  = 10 * time.Second
	undoMany = time.Minute
)

// verb is what an operation does.
type verb struct {
	final      bool // it cannot be taken back
	dead       bool // it is for dead letters, else for jobs
	does, undo string
}

var verbs = map[string]verb{
	api.DeadReplay: {false, true, "Each dead letter is processed again from the start. If that succeeds it is gone, else it is held again, with one more replay in its history.",
		"A stop leaves the dead letters that are already being replayed; what they delivered stays delivered."},
	api.DeadDelete: {true, true, "Each dead letter is discarded, with its payload and its history. The books count it as discarded.", "It cannot be taken back once it has begun."},
	api.JobsRetry: {false, false, "Each failed job waits again as if it was added now. The books count it as accepted once more. A dead letter of it stays.",
		"A stop leaves the jobs that wait again; jobs.remove takes out those that have not run."},
	api.JobsPromote: {false, false, "Each delayed job is due at once.", "A stop leaves the jobs that are due; the times that they were due at are gone."},
	api.JobsRemove:  {true, false, "Each job that is waiting or delayed is taken out and never runs. The books count it as skipped.", "It cannot be taken back once it has begun."},
	api.JobsClean:   {true, false, "Each job that has ended is forgotten; those that have not, where state names them, are taken out and never run.", "It cannot be taken back once it has begun."},
}

// manyOf are the things that somebody chooses. To mean all that there are is to say so.
func (a *API) manyOf(ctx context.Context, what string, q *api.OperationThings) (many, error) {
	v, ok := verbs[what]
	if !ok {
		return nil, operation.Refuse(http.StatusBadRequest, "say what the operation does: what=dead.replay, dead.delete, jobs.retry, jobs.promote, jobs.remove or jobs.clean")
	}
	if names := misplaced(q, v.dead); len(names) > 0 {
		return nil, operation.Refuse(http.StatusBadRequest, "%s chooses nothing that %s is for: leave it out", strings.Join(names, ", "), what)
	}
	if v.dead {
		if a.Letters == nil && len(a.OwnLetters) == 0 {
			return nil, operation.Refuse(http.StatusNotFound, "this instance keeps no dead letters")
		}
		return a.someDead(ctx, what, q)
	}
	if a.Queues == nil {
		return nil, operation.Refuse(http.StatusNotFound, "this instance has no queues to show")
	}
	return a.someJobs(ctx, what, q)
}

// misplaced are the parameters that are given and are not for dead letters, or not for jobs.
func misplaced(q *api.OperationThings, dead bool) (names []string) {
	given := map[string]bool{"queue": q.Queue != "", "type": q.Type != ""}
	if !dead {
		given = map[string]bool{"seq": len(q.Seq) > 0, "pipeline": q.Pipeline != "", "partner": q.Partner != "", "system": q.System != "", "project": q.Project != "",
			"site": q.Site != "", "kind": len(q.Kind) > 0, "reason": len(q.Reason) > 0, "cause": q.Cause != "", "since": q.Since != ""}
	}
	for name, is := range given {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// start starts the operation of a preview, or one of its own.
func (a *API) start(ctx context.Context, q *api.OperationStart) (out api.Operation, err error) {
	rate, err := rateOf(q.Rate)
	if err != nil {
		return out, err
	}
	id := q.Preview
	if id == "" {
		if id, err = a.unseen(ctx, q); err != nil {
			return out, err
		}
	} else if q.What != "" || q.ExpectAtMost > 0 || len(a.queryOf(&api.OperationAsked{OperationThings: q.OperationThings})) > 0 {
		return out, operation.Refuse(http.StatusBadRequest, "a preview says what is changed: leave everything out but preview and rate")
	}
	now := a.Now()
	may := sightOf(ctx)
	o, err := a.Bulk.Change(ctx, id, func(o *bulk.Operation) error {
		if err := may.operated(o); err != nil {
			return err
		}
		if rate == 0 {
			rate = o.Rate
		}
		if verbs[o.Kind].final && (o.Total > manyDiscards || o.AtLeast) {
			if err := a.fresh(ctx); err != nil {
				return err
			}
		}
		return o.Start(caller.From(ctx).Name, rate, bulk.Millis(now.Add(undoFor(o))), now)
	})
	if err != nil {
		return out, operationError(err)
	}
	operation.Note(ctx, nil, started{o.ID, o.Kind, o.Filter, o.Systems, o.Total, o.AtLeast})
	// Logged when somebody started an operation on many things.
	a.Log.InfoContext(ctx, "operation started", "operation", o.ID, "what", o.Kind, "by", o.By, "count", o.Total, "filter", string(o.Filter), "starts", o.Starts)
	return a.shown(o), nil
}

// started is what the audit trail has of an operation, which it outlives: what it was for, as it was previewed.
type started struct {
	ID      string          `json:"operation"`
	What    string          `json:"what"`
	Filter  json.RawMessage `json:"filter"`
	Systems string          `json:"systems,omitempty"`
	Count   int             `json:"count"`
	AtLeast bool            `json:"at_least,omitempty"`
}

// manyDiscards are so many things that discarding more needs a fresh login.
const manyDiscards = 10_000

// fresh refuses to discard that many to whose login is not fresh.
func (a *API) fresh(ctx context.Context) error {
	if caller.From(ctx).Fresh(a.now(), operation.FreshFor) {
		return nil
	}
	return operation.NeedLogin("discarding more than 10,000 things")
}

// freshFor is fresh where what is done, to at most most things (0: all), discards more than that.
func (a *API) freshFor(ctx context.Context, what string, of many, most int) error {
	err := a.fresh(ctx)
	if err == nil || !verbs[what].final || most > 0 && most <= manyDiscards {
		return nil
	}
	if n, err := moveMany(ctx, of, manyDiscards+1, true); err != nil || n <= manyDiscards {
		return err
	}
	return err
}

// undoFor is how long an operation can be stopped before it changes anything.
func undoFor(o *bulk.Operation) time.Duration {
	switch {
	case !verbs[o.Kind].final:
		return 0
	case o.Total <= 1 && !o.AtLeast:
		return undoOne
	}
	return undoMany
}

// unseen previews an operation that is started without a preview; the count that is expected takes
// its place.
func (a *API) unseen(ctx context.Context, q *api.OperationStart) (string, error) {
	if q.ExpectAtMost == 0 {
		return "", operation.Refuse(http.StatusBadRequest, "name a preview, or say with expect_at_most how many may be changed")
	}
	p, err := a.preview(ctx, &api.OperationAsked{What: q.What, OperationThings: q.OperationThings, Rate: q.Rate})
	if err != nil {
		return "", err
	}
	if p.Count > q.ExpectAtMost || p.AtLeast && (q.Max == 0 || q.Max > q.ExpectAtMost) { // or nobody knows
		more := ""
		if p.AtLeast {
			more = " or more"
		}
		return "", operation.Refuse(http.StatusConflict, "%d%s match, and %d are expected at most: nothing is changed; look at a preview", p.Count, more, q.ExpectAtMost)
	}
	return p.ID, nil
}

// operationError gives an error of the store its status.
func operationError(err error) error {
	switch {
	case errors.Is(err, bulk.ErrNotFound):
		return operation.Refuse(http.StatusNotFound, "there is no such operation or preview; previews are kept for 10 minutes, and `tidemill operations list` shows operations")
	case errors.Is(err, bulk.ErrBusy), errors.Is(err, bulk.ErrState), errors.Is(err, bulk.ErrTooOld):
		return operation.Refuse(http.StatusConflict, "%v", err)
	}
	return answer.Answerable(err)
}

func rateOf(text string) (r bulk.Rate, err error) {
	if text != "" {
		if err := r.UnmarshalText([]byte(text)); err != nil {
			return 0, operation.Refuse(http.StatusBadRequest, "rate=%v", err)
		}
	}
	return r, nil
}

// listOperations lists those that were started.
func (a *API) listOperations(ctx context.Context, q *api.OperationFilter) (iter.Seq2[api.Operation, error], error) {
	most, err := q.Most(0)
	if err != nil {
		return nil, err
	}
	may := sightOf(ctx)
	f := bulk.Filter{Sees: may.over, Back: q.Back(), States: []bulk.State{bulk.Scheduled, bulk.Running, bulk.Done, bulk.Stopped, bulk.Failed}}
	switch q.State {
	case "":
	case "active":
		f.States = f.States[:2]
	default:
		f.States = []bulk.State{bulk.State(q.State)}
	}
	if made, id, ok := strings.Cut(q.After(), "/"); ok {
		ms, _ := strconv.ParseInt(made, 10, 64) // it was written so
		f.After = &bulk.Operation{ID: id, Made: time.UnixMilli(ms).UTC()}
	}
	return func(yield func(api.Operation, error) bool) {
		for n := 0; most == 0 || n < most; {
			if f.Max = 500; most > 0 {
				f.Max = min(f.Max, most-n)
			}
			page, err := a.Bulk.List(ctx, f)
			if err != nil {
				yield(api.Operation{}, err)
				return
			}
			for _, o := range page {
				if n++; !yield(a.shown(o), nil) {
					return
				}
				f.After = o
			}
			if len(page) < f.Max {
				return
			}
		}
	}, nil
}

func (a *API) getOperation(ctx context.Context, q *api.OneOperation) (out api.Operation, err error) {
	o, err := a.Bulk.Get(ctx, q.ID)
	if err == nil && o.State == bulk.Previewed {
		err = bulk.ErrNotFound
	}
	if err == nil {
		err = sightOf(ctx).operated(o)
	}
	if err != nil {
		return out, operationError(err)
	}
	return a.shown(o), nil
}

func (a *API) stopOperation(ctx context.Context, q *api.OneOperation) (out api.Operation, err error) {
	may := sightOf(ctx)
	o, err := a.Bulk.Change(ctx, q.ID, func(o *bulk.Operation) error {
		if err := may.operated(o); err != nil {
			return err
		}
		return o.Stop(caller.From(ctx).Name, bulk.Millis(a.Now()))
	})
	if err != nil {
		return out, operationError(err)
	}
	// Logged when somebody stopped an operation.
	a.Log.InfoContext(ctx, "operation stopped", "operation", o.ID, "what", o.Kind, "state", o.State, "by", o.StoppedBy, "changed", o.Changed)
	return a.shown(o), nil
}

// shown is an operation as the API shows it.
func (a *API) shown(o *bulk.Operation) api.Operation {
	out := api.Operation{ID: o.ID, What: o.Kind, State: string(o.State), By: o.By, Systems: strings.Fields(o.Systems), AsOf: o.Instant, Count: o.Total, AtLeast: o.AtLeast, Changed: o.Changed, Failed: map[string]int{}, Gone: o.Gone,
		Uncertain: o.Slice.N, Rate: o.Rate.String(), Waits: o.Waits, Why: o.Why, StoppedBy: o.StoppedBy, Instance: o.Owner, Made: o.Made, Starts: o.Starts,
		Begun: answer.When(o.Begun), Ended: answer.When(o.Ended), Position: fmt.Sprintf("%d/%s", o.Made.UnixMilli(), o.ID)}
	_ = json.Unmarshal(o.Filter, &out.Filter) // it was written so
	for reason, n := range o.Failed {
		out.Failed[reason] = n
	}
	for _, f := range o.Failures {
		out.Failures = append(out.Failures, api.OperationFailure{ID: f.ID, Owner: f.Owner, Reason: f.Reason})
	}
	out.Again = again(o, &out.Filter)
	until := a.Now()
	if !o.Ended.IsZero() {
		until = o.Ended
	}
	if took := until.Sub(o.Begun).Seconds(); !o.Begun.IsZero() && took > 0 {
		out.PerSecond = float64(o.Changed) / took
	}
	return out
}

// again is the filter of those that could not be changed, as far as they are named; nil: none are.
func again(o *bulk.Operation, was *api.OperationThings) *api.OperationThings {
	if len(o.Failures) == 0 {
		return nil
	}
	f := &api.OperationThings{Queue: was.Queue, State: was.State}
	for _, one := range o.Failures {
		if key := operate.ParseKey(one.Key); verbs[o.Kind].dead {
			f.System, f.Seq = key.Part, append(f.Seq, int64(key.Lo))
		} else {
			f.IDs = append(f.IDs, one.ID)
		}
	}
	return f
}

// Operate runs operations in this instance while it is called again and again.
func (a *API) Operate() func(context.Context) error {
	return operate.New(a.Bulk, a.This.ID, a.thingsOf, operate.Options{Now: a.Now, Log: a.Log}).Run
}

// sightFor is what an operation may change: what its starter might when it was asked for. A queue, a
// pipeline or a partner that it names was looked at then.
func sightFor(o *bulk.Operation, q *api.OperationThings) sight {
	if o.Systems == "" || q.Queue != "" || q.Pipeline != "" || q.Partner != "" {
		return sight{o.By, caller.All(caller.Operator), caller.Operator}
	}
	return sight{o.By, caller.For(caller.Operator, strings.Fields(o.Systems)...), caller.Operator}
}

// systemsOf are whose things an operation changes, as it keeps them: of what it names, else of all
// systems for which its caller may.
func (a *API) systemsOf(ctx context.Context, q *api.OperationThings) string {
	switch {
	case q.Queue != "":
		return a.systemOf(q.Queue)
	case q.Pipeline != "":
		return a.systemOf(q.Pipeline)
	case q.Partner != "":
		return a.systemOf(a.queueOf(q.Partner))
	case q.System != "":
		return q.System
	}
	return strings.TrimSpace(sightOf(ctx).some())
}

// thingsOf are those of an operation, as they were chosen then.
func (a *API) thingsOf(ctx context.Context, o *bulk.Operation) (operate.Things, error) {
	var q api.OperationThings
	if err := json.Unmarshal(o.Filter, &q); err != nil {
		return nil, &operate.Invalid{Err: err}
	}
	of, err := a.manyOf(withSight(ctx, sightFor(o, &q)), o.Kind, &q)
	if p, ok := errors.AsType[*operation.Problem](err); ok && p.Status/100 == 4 {
		return nil, &operate.Invalid{Err: p}
	}
	if err != nil {
		return nil, err
	}
	of.until(o.Instant)
	return of, nil
}
