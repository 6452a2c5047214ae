package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/trail"
)

const (
	lookupWithin   = 500 * time.Millisecond // each look-up
	findWithin     = 2 * time.Second        // all of them
	lookupsAtOnce  = 8
	findMost       = 100  // hits of a look-up
	requestsLooked = 2000 // entries of the audit trail that are looked at for a request
)

// finding is what the API does of any one thing.
func (a *API) finding() Room {
	return Room{Does: []operation.Handler{api.Find.By(a.find), api.Explain.By(a.explain), api.Scan.By(a.scan)}}
}

// systemic is a look-up of a system; "": of none.
type systemic struct {
	answer.Lookup
	system string
}

// found is what a look-up found.
type found struct {
	hits []api.Thing
	err  error
}

// find looks everywhere at once.
func (a *API) find(ctx context.Context, q *api.FindQuery) (out api.FoundThings, err error) {
	if q.ID == "" {
		return out, operation.Refuse(http.StatusBadRequest, "say what to look for: q=…")
	}
	all, err := a.lookups(ctx, q)
	if err != nil {
		return out, err
	}
	out = api.FoundThings{ID: q.ID, Hits: []api.Thing{}, Looked: []api.Looked{}, Missed: []api.Looked{}, AsOf: time.Now().UTC()}
	for i, f := range lookUp(ctx, all) {
		for _, h := range f.hits { // several places may know one thing
			if !slices.ContainsFunc(out.Hits, func(o api.Thing) bool {
				return o.Kind == h.Kind && o.System == h.System && o.Owner == h.Owner && o.ID == h.ID
			}) {
				out.Hits = append(out.Hits, h)
			}
		}
		at := api.Looked{System: all[i].system, Where: all[i].Where}
		switch {
		case all[i].Do == nil:
			at.Why = all[i].Not
		case f.err != nil && tidemill.KindOf(f.err) != tidemill.NotFound:
			at.Why = answer.Away(f.err)
		}
		if at.Why != "" {
			out.Missed = append(out.Missed, at)
			continue
		}
		out.Looked = append(out.Looked, at)
	}
	likely := hinted(q.ID)
	slices.SortStableFunc(out.Hits, func(x, y api.Thing) int { return cmp.Compare(rank(likely, x.Kind), rank(likely, y.Kind)) })
	return out, ctx.Err()
}

// hinted are the kinds that the form of an id hints at.
func hinted(id string) []string {
	switch _, err := strconv.ParseInt(id, 10, 64); {
	case err == nil:
		return []string{"dead_letter", "event", "order"}
	case uuid.Validate(id) == nil:
		return []string{"event", "person"}
	case strings.Contains(id, "/"):
		return []string{"window", "event", "job"}
	}
	return []string{"event", "person", "order", "window"}
}

func rank(kinds []string, kind string) int {
	if i := slices.Index(kinds, kind); i >= 0 {
		return i
	}
	return len(kinds)
}

// lookUp does look-ups, a few at once, each within its time. It waits for all of them.
func lookUp(ctx context.Context, all []systemic) []found {
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	out, slots := make([]found, len(all)), make(chan struct{}, lookupsAtOnce)
	var done sync.WaitGroup
	for i := range all {
		if all[i].Do == nil {
			continue
		}
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, lookupWithin)
			defer cancel()
			if out[i].err = ctx.Err(); out[i].err == nil {
				out[i].hits, out[i].err = all[i].Do(ctx)
			}
		})
	}
	done.Wait()
	return out
}

// lookups are those of what is of all systems, which are quick, and of the systems that are meant.
func (a *API) lookups(ctx context.Context, q *api.FindQuery) (all []systemic, err error) {
	all = append(all, systemic{a.lookForLetters(q), ""})
	if q.System == "" {
		for _, l := range []answer.Lookup{a.lookForJobs(q), a.lookForQueue(q), a.lookForOwner(q), a.lookForOperation(q),
			a.lookForRequest(ctx, q)} {
			all = append(all, systemic{l, ""})
		}
	}
	known := q.System == ""
	finds := a.findsFor(ctx)
	for _, f := range finds {
		if q.System != "" && q.System != f.System {
			continue
		}
		known = true
		if f.Finder == nil {
			all = append(all, systemic{answer.Lookup{Where: f.System, Not: f.Missing}, f.System})
			continue
		}
		for _, l := range f.Finder.Lookups(q.ID, q.Owner) {
			all = append(all, systemic{l, f.System})
		}
	}
	if !known {
		return nil, noSystem(q.System, finds)
	}
	return all, nil
}

// findsFor are how things are found of the systems that a request may look at.
func (a *API) findsFor(ctx context.Context) []answer.Finds {
	may := sightOf(ctx)
	return slices.DeleteFunc(slices.Clone(a.Finds), func(f answer.Finds) bool { return !may.of(f.System) })
}

// noSystem refuses the name of a system that there is not.
func noSystem(name string, finds []answer.Finds) error {
	var names []string
	for _, f := range finds {
		names = append(names, f.System)
	}
	return operation.Refuse(http.StatusNotFound, "there is no system %q; there are %s", name, answer.Named(name, names))
}

// lookForLetters looks for a dead letter by its number, or by its message's id.
func (a *API) lookForLetters(q *api.FindQuery) answer.Lookup {
	const where = "dead letters"
	if a.Letters == nil && len(a.OwnLetters) == 0 {
		return answer.Lookup{Where: where, Not: "this instance keeps no dead letters"}
	}
	return answer.Lookup{Where: where, Do: func(ctx context.Context) (hits []api.Thing, err error) {
		only := a.pipelines(sightOf(ctx))
		filters := []deadletter.Filter{{Only: only, IDs: []string{q.ID}, Max: findMost}}
		if n, err := strconv.ParseInt(q.ID, 10, 64); err == nil {
			filters = append(filters, deadletter.Filter{Only: only, Seqs: []int64{n}, Max: findMost})
		}
		owner := q.Owner
		if id, err := a.projectNamed(ctx, q.Owner); err == nil && id != uuid.Nil {
			owner = id.String()
		}
		stores, err := a.stores("", deadletter.Filter{})
		for _, s := range stores {
			for _, f := range filters {
				for l, err := range s.List(ctx, f) {
					if err != nil {
						return nil, err
					}
					of := a.systemOf(l.Pipeline)
					if (owner == "" || l.Tenant == owner || l.Tenant == q.Owner) && (q.System == "" || q.System == of) {
						hits = append(hits, answer.LetterHit(of, l))
					}
				}
			}
		}
		return hits, err
	}}
}

// projectNamed is the project of a name or id; zero: there is none.
func (a *API) projectNamed(ctx context.Context, name string) (uuid.UUID, error) {
	if name == "" || a.Projects == nil {
		return uuid.Nil, nil
	}
	return a.Find(ctx, name)
}

// lookForJobs looks for jobs in the queues that no system here explains.
func (a *API) lookForJobs(q *api.FindQuery) answer.Lookup {
	const where = "queues of no system"
	if a.Queues == nil {
		return answer.Lookup{Where: where, Not: "this instance has no queues to show"}
	}
	return answer.Lookup{Where: where, Do: func(ctx context.Context) (hits []api.Thing, err error) {
		names, err := a.queueNames(ctx, sightOf(ctx))
		if err != nil {
			return nil, err
		}
		var jobs []queue.Name
		for _, name := range names {
			if a.systemOf(name) != "" {
				continue
			}
			owners, err := a.ownersOf(ctx, name, q.Owner)
			if err != nil {
				return nil, err
			}
			for _, owner := range owners {
				jobs = append(jobs, queue.Name{Queue: name, Tenant: owner, ID: q.ID})
			}
		}
		return a.jobsNamed(ctx, jobs)
	}}
}

// ownersOf are the tenants for which a queue is looked through: the one that is named, or nobody, the
// projects, and the deepest.
func (a *API) ownersOf(ctx context.Context, name, owner string) ([]string, error) {
	if owner != "" {
		return []string{owner}, nil
	}
	owners := []string{""}
	if a.Projects != nil {
		all, err := a.Projects.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			owners = append(owners, p.Name, p.ID.String())
		}
	}
	depths, _, err := latest(ctx, a.standing.deepest.Of(name))
	for _, d := range depths {
		owners = append(owners, d.Tenant)
	}
	slices.Sort(owners)
	return slices.Compact(owners), err
}

// jobsNamed are the jobs of these names that there are.
func (a *API) jobsNamed(ctx context.Context, names []queue.Name) (hits []api.Thing, err error) {
	known := make([]bool, len(names))
	if err := a.Queues.Knows(ctx, names, known); err != nil {
		return nil, err
	}
	for i, n := range names {
		if !known[i] {
			continue
		}
		text := fmt.Sprintf("job of queue %s, which has ended and is not kept", n.Queue)
		j, err := a.Queues.Look(ctx, n)
		if err != nil && tidemill.KindOf(err) != tidemill.NotFound {
			return nil, err
		} else if err == nil {
			text = fmt.Sprintf("job of queue %s, %s, added %s", n.Queue, j.State, j.Added.UTC().Format(time.RFC3339))
		}
		hits = append(hits, answer.JobHit("", n.Queue, n.Tenant, n.ID, text))
	}
	return hits, nil
}

// lookForQueue looks for a queue of that name.
func (a *API) lookForQueue(q *api.FindQuery) answer.Lookup {
	if a.Queues == nil {
		return answer.Lookup{Where: "names of queues", Not: "this instance has no queues to show"}
	}
	return answer.Lookup{Where: "names of queues", Do: func(ctx context.Context) ([]api.Thing, error) {
		names, err := a.queueNames(ctx, sightOf(ctx))
		if err != nil || !slices.Contains(names, q.ID) {
			return nil, err
		}
		return []api.Thing{{Kind: "queue", System: a.systemOf(q.ID), ID: q.ID, Text: "queue " + q.ID, Operation: api.GetQueue.ID, Parameters: map[string]string{"name": q.ID}}}, nil
	}}
}

// lookForOwner looks for a project of that name or id.
func (a *API) lookForOwner(q *api.FindQuery) answer.Lookup {
	if a.Projects == nil {
		return answer.Lookup{Where: "projects", Not: "this instance has no projects"}
	}
	return answer.Lookup{Where: "projects", Do: func(ctx context.Context) ([]api.Thing, error) {
		all, err := a.Projects.List(ctx)
		i := slices.IndexFunc(all, func(p project.Project) bool { return p.Name == q.ID || p.ID.String() == q.ID })
		if err != nil || i < 0 {
			return nil, err
		}
		p := all[i]
		return []api.Thing{{Kind: "owner", Owner: p.Name, ID: p.ID.String(), Text: "project " + p.Name, Operation: api.ListProjects.ID, Parameters: map[string]string{}}}, nil
	}}
}

// lookForRequest looks for what the audit trail has of a request of that id. The trail is not found by it: its newest
// entries are looked at.
func (a *API) lookForRequest(ctx context.Context, q *api.FindQuery) answer.Lookup {
	const where = "requests"
	switch {
	case a.Trail == nil:
		return answer.Lookup{Where: where, Not: "this instance has no database that keeps an audit trail: the log has the ids of requests"}
	case !api.ListAuditTrail.May(caller.From(ctx).Rights):
		return answer.Lookup{Where: where, Not: "the audit trail is for admins: the log has the ids of requests"}
	}
	return answer.Lookup{Where: fmt.Sprintf("requests, in the newest %d entries of the audit trail", requestsLooked), Do: func(ctx context.Context) (hits []api.Thing, err error) {
		_, err = a.newest(ctx, trail.Filter{}, requestsLooked, func(e *trail.Entry) bool {
			if e.Request == q.ID && len(hits) < findMost {
				hits = append(hits, entryHit(e))
			}
			return true
		})
		return hits, err
	}}
}

// entryHit is an entry of the audit trail as a thing that is found.
func entryHit(e *trail.Entry) api.Thing {
	text := fmt.Sprintf("%s of %s by %s, %s", e.Operation, e.Thing, e.Who, e.Outcome)
	if e.Thing == "" {
		text = fmt.Sprintf("%s by %s, %s", e.Operation, e.Who, e.Outcome)
	}
	at := e.At.UTC()
	return api.Thing{Kind: "audit_entry", ID: strconv.FormatUint(e.Seq, 10), Text: text, Operation: api.ListAuditTrail.ID,
		Parameters: map[string]string{"operation": e.Operation, "since": at.Format(time.RFC3339Nano), "until": at.Add(time.Millisecond).Format(time.RFC3339Nano)}}
}

// lookForOperation looks for an operation of that id.
func (a *API) lookForOperation(q *api.FindQuery) answer.Lookup {
	const where = "operations"
	if a.Bulk == nil {
		return answer.Lookup{Where: where, Not: "this instance has no database that keeps operations"}
	}
	return answer.Lookup{Where: where, Do: func(ctx context.Context) ([]api.Thing, error) {
		o, err := a.getOperation(ctx, &api.OneOperation{ID: q.ID})
		if p, refused := errors.AsType[*operation.Problem](err); refused && p.Status == http.StatusNotFound {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		return []api.Thing{{Kind: "operation", ID: o.ID, Text: fmt.Sprintf("operation %s of %s, %s", o.What, o.By, o.State), Operation: api.GetOperation.ID, Parameters: map[string]string{"id": o.ID}}}, nil
	}}
}
