package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/operate"
	"github.com/tidemill/tidemill/state/bulk"
)

const (
	countedMost = 10_000 // things that a preview looks at
	countedFor  = time.Second
	sampled     = 20
	namedMost   = 100 // kinds, and owners, of a preview
	others      = "(others)"

	longestScope = 200 // bytes
)

// preview shows what an operation would change, and keeps it to be started.
func (a *API) preview(ctx context.Context, q *api.OperationAsked) (out api.OperationPreview, err error) {
	rate, err := rateOf(q.Rate)
	if err != nil {
		return out, err
	}
	now := bulk.Millis(a.Now())
	q.Span = q.Fixed(now)
	of, err := a.manyOf(ctx, q.What, &q.OperationThings)
	if err != nil {
		return out, err
	}
	of.until(now)
	v := verbs[q.What]
	out = api.OperationPreview{What: q.What, Filter: q.OperationThings, AsOf: now, Expires: now.Add(bulk.PreviewFor), Kinds: map[string]int{}, Owners: map[string]int{}, Sample: []api.OperationItem{},
		Does: v.does, Undo: v.undo, Rate: rate.String()}
	if err := a.look(ctx, of, &out, q.Max); err != nil {
		return out, err
	}
	systems := a.systemsOf(ctx, &q.OperationThings)
	out.Systems = strings.Fields(systems)
	o := &bulk.Operation{Kind: q.What, Scope: scopeOf(&q.OperationThings, systems), Systems: systems, Instant: now, By: caller.From(ctx).Name, State: bulk.Previewed, Rate: rate, Most: q.Max, Total: out.Count, AtLeast: out.AtLeast, Made: now}
	if o.Filter, err = json.Marshal(&q.OperationThings); err != nil {
		return out, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return out, err
	}
	o.ID = id.String()
	if err := a.Bulk.Add(ctx, o); err != nil {
		return out, operationError(err)
	}
	out.ID, out.After = o.ID, int(undoFor(o).Seconds())
	out.Takes, err = a.takes(ctx, &q.OperationThings, rate, out.Count)
	out.Command, out.Request = a.commandOf(q), "POST "+operation.Prefix+api.StartOperation.Path+"?"+a.requestOf(q, out.Count)
	return out, err
}

// scopeOf is where one operation of a kind is active at a time: a queue, a pipeline, a partner, a
// system or several, or the one thing that is named.
func scopeOf(q *api.OperationThings, systems string) string {
	scope := cmp.Or(q.Queue, q.Pipeline, q.Partner, q.System, systems, "all")
	if len(scope) > longestScope { // a name that somebody typed
		scope = fmt.Sprintf("%x", sha256.Sum256([]byte(scope)))
	}
	if len(q.Seq)+len(q.IDs) == 1 { // one thing holds up no other
		scope += fmt.Sprintf("/%x", sha256.Sum256(fmt.Append(nil, q.Seq, q.IDs, q.Tenant)))
	}
	return scope
}

// look counts things, and looks at the first; most: at most so many are meant, 0: all.
func (a *API) look(ctx context.Context, of many, out *api.OperationPreview, most int) error {
	within, stop := context.WithTimeout(ctx, countedFor)
	defer stop()
	limit := countedMost
	if most > 0 {
		limit = min(limit, most)
	}
	whole, err := a.lookAt(within, of, out, limit)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return answer.Answerable(err)
	}
	if out.Count = out.Looked; whole || out.Count == most && most > 0 {
		return nil
	}
	out.AtLeast = true
	if n, err := moveMany(within, of, most, true); err == nil { // there are counters, or it is quick
		out.Count, out.AtLeast = max(n, out.Looked), false
	}
	return nil
}

// lookAt looks at the first things, and says whether there are no others.
func (a *API) lookAt(ctx context.Context, of many, out *api.OperationPreview, most int) (whole bool, err error) {
	for after := (operate.Key{}); out.Looked < most; {
		n := 0
		for t, err := range of.List(ctx, after, min(500, most-out.Looked)) {
			if err != nil {
				return false, err
			}
			tally(out.Kinds, t.Sort)
			tally(out.Owners, t.Owner)
			if len(out.Sample) < sampled {
				out.Sample = append(out.Sample, api.OperationItem{ID: t.ID, Owner: t.Owner, Kind: t.Sort, Group: t.Group, Cause: t.Cause, At: t.At.UTC(), Why: t.Refused})
			}
			out.Looked, n, after = out.Looked+1, n+1, t.Key
		}
		if n == 0 {
			return true, nil
		}
	}
	return false, nil
}

// tally counts a name, of so many that the answer stays small.
func tally(of map[string]int, name string) {
	if _, known := of[name]; !known && len(of) >= namedMost {
		name = others
	}
	of[name]++
}

// takes is how long so many take in seconds: at a rate, or under the limit of the queue; 0: nothing
// limits it.
func (a *API) takes(ctx context.Context, q *api.OperationThings, rate bulk.Rate, n int) (float64, error) {
	if rate > 0 {
		return rate.Takes(n).Seconds(), nil
	}
	name := q.Queue
	switch {
	case name == "" && q.Partner != "":
		name = a.queueOf(q.Partner)
	case name == "":
		name = q.Pipeline
	}
	if name == "" || a.Queues == nil {
		return 0, nil
	}
	s, err := a.Queues.Settings(ctx, name)
	if err != nil || s.Limit.PerSecond == 0 {
		return 0, answer.Answerable(err)
	}
	return float64(n) / s.Limit.PerSecond, nil
}

// queryOf are the parameters of a request for an operation.
func (a *API) queryOf(q *api.OperationAsked) map[string][]string {
	return api.PreviewOperation.Query(q)
}

// requestOf are the parameters of the request that starts what was asked for.
func (a *API) requestOf(q *api.OperationAsked, n int) string {
	return api.StartOperation.Query(&api.OperationStart{What: q.What, OperationThings: q.OperationThings, Rate: q.Rate, ExpectAtMost: max(n, 1)}).Encode()
}

// commandOf is the command that does what was asked for.
func (a *API) commandOf(q *api.OperationAsked) string {
	b := &strings.Builder{}
	b.WriteString("tidemill operations start " + q.What)
	given := a.queryOf(q)
	for _, p := range api.PreviewOperation.Params {
		switch p.Name {
		case "what":
			continue
		case "all":
			if q.All {
				b.WriteString(" --all")
			}
			continue
		}
		for _, text := range given[p.Name] {
			fmt.Fprintf(b, " --%s=%s", p.Name, quoted(text))
		}
	}
	return b.String()
}

// quoted is a word of a command for a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@,+%", c)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
