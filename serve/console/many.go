package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// deed is what an operation does, in words.
type deed struct {
	Name   string // of what is done: Replay of dead letters
	button string // Replay
	thing  string // dead letter
	final  bool   // it cannot be taken back, and begins after a while
}

var deeds = map[string]deed{
	api.DeadReplay:  {"Replay of dead letters", "Replay", "dead letter", false},
	api.DeadDelete:  {"Discard of dead letters", "Discard", "dead letter", true},
	api.JobsRetry:   {"Retry of jobs", "Retry", "job", false},
	api.JobsPromote: {"Jobs made due", "Make due", "job", false},
	api.JobsRemove:  {"Removal of jobs", "Remove", "job", true},
	api.JobsClean:   {"Jobs forgotten", "Forget", "job", true},
}

// Deed is what an operation does, in words.
func (v *view) Deed(what string) string { return cmp.Or(deeds[what].Name, what) }

// manyThings are what an operation is about to change.
type manyThings struct {
	api.OperationPreview
	Rate  bool // one may be asked for
	Given string
}

// operating is an action that starts an operation, of one thing or many: its page is a preview, and its
// form starts what was shown.
func operating(path string, read func(*visit) (*api.OperationAsked, error), around func(*visit, *question)) *action {
	return &action{path: path, op: api.StartOperation.ID, do: startOperation,
		ask: func(v *visit) (*question, error) {
			asked, err := read(v)
			if err != nil {
				return nil, err
			}
			p, err := call(v, api.PreviewOperation, asked)
			if err != nil {
				return nil, err
			}
			q := previewed(v, &p)
			around(v, q)
			return q, nil
		}}
}

// previewed is the question of a preview.
func previewed(v *visit, p *api.OperationPreview) *question {
	does, n := deeds[p.What], many(p.Count, deeds[p.What].thing)
	if p.AtLeast {
		n += " or more"
	}
	q := &question{Title: does.button + " " + n + "?", Button: does.button + " " + n, Careful: does.final, Word: v.wordFor(p.Count), CLI: p.Command, Request: p.Request,
		Texts: []string{p.Does, p.Undo, "What comes from now on is no part of it."}, Many: &manyThings{*p, !does.final && p.Count > 1, v.r.PostFormValue("rate")}}
	if p.After > 0 {
		q.Texts = append(q.Texts, fmt.Sprintf("It begins %d seconds after it is asked for. Until then it can be stopped on every page, and nothing is changed.", p.After))
	}
	if p.Takes > 0 {
		q.Texts = append(q.Texts, "It takes about "+span(&p.Takes)+".")
	}
	for _, i := range p.Sample {
		at := query(address("dead"), url.Values{"id": {i.ID}, "pipeline": {i.Group}})
		if does.thing == "job" {
			at = jobAddress(&api.Job{Queue: i.Group, ID: i.ID, Tenant: i.Owner})
		}
		q.Sample = append(q.Sample, link{fmt.Sprintf("%s · %s · %s", i.Group, cut(i.ID), cut(cmp.Or(i.Cause, i.Kind))), at})
	}
	if p.Count == 0 {
		q.Title, q.Nothing = "Nothing is changed", "No "+does.thing+" that this can be done to matches now."
	}
	return q
}

// startOperation starts what a page showed.
func startOperation(v *visit) (string, error) {
	id, n := v.r.PostFormValue("preview"), v.r.PostFormValue("count")
	count, err := strconv.Atoi(n)
	if id == "" || err != nil {
		return "", &wrong{"Nothing was changed. Look at what is meant, and send the form."}
	}
	if word := v.wordFor(count); word != "" {
		if err := v.typed(word); err != nil {
			return "", err
		}
	}
	o, err := change(v, api.StartOperation, &api.OperationStart{Preview: id, Rate: v.r.PostFormValue("rate")})
	if p := problemOf(err); p != nil && p.Status == http.StatusBadRequest {
		return "", &wrong{p.Detail}
	}
	return done(address("operations", o.ID), "started"), err
}

// chosenFor is an action of an operation on what the address chooses.
func chosenFor(path, what string, around func(*visit, *question)) *action {
	return operating(path, func(v *visit) (*api.OperationAsked, error) {
		q := v.query()
		q.Set("what", what)
		if name := v.r.PathValue("queue"); name != "" {
			q.Set("queue", name)
		}
		asked := &api.OperationAsked{}
		return asked, api.PreviewOperation.Parse(q, asked)
	}, around)
}

func aroundDead(v *visit, q *question) {
	q.Section, q.Crumbs, q.Back = "dead", []link{{"Dead letters", address("dead")}}, v.back(address("dead"))
}

func aroundJobs(v *visit, q *question) {
	name := v.r.PathValue("queue")
	q.Section, q.Crumbs, q.Back = "queues", queueCrumbs(name), v.back(address("queues", name, "jobs"))
}

var (
	replayDead  = chosenFor("dead/replay", api.DeadReplay, aroundDead)
	discardDead = chosenFor("dead/delete", api.DeadDelete, aroundDead)
	retryJobs   = chosenFor("queues/{queue}/retry", api.JobsRetry, aroundJobs)
	promoteJobs = chosenFor("queues/{queue}/promote", api.JobsPromote, aroundJobs)
	removeJobs  = chosenFor("queues/{queue}/remove", api.JobsRemove, aroundJobs)
	cleanJobs   = chosenFor("queues/{queue}/clean", api.JobsClean, aroundJobs)

	// againOperation does the same for what an operation could not change.
	againOperation = operating("operations/{id}/again", func(v *visit) (*api.OperationAsked, error) {
		o, err := call(v, api.GetOperation, &api.OneOperation{ID: v.r.PathValue("id")})
		if err != nil {
			return nil, err
		}
		if o.Again == nil {
			return nil, operation.Refuse(http.StatusConflict, "Nothing failed in this operation: there is nothing to do again.")
		}
		return &api.OperationAsked{What: o.What, OperationThings: *o.Again, Rate: o.Rate}, nil
	}, func(v *visit, q *question) {
		q.Section, q.Crumbs, q.Back = "operations", operationCrumbs, address("operations", v.r.PathValue("id"))
	})
)

// tallied are the counts of a preview, the largest first.
func tallied(of map[string]int) (all []setting) {
	names := slices.SortedFunc(keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		all = append(all, setting{Name: cut(cmp.Or(name, "(none)")), Value: number(of[name])})
	}
	return all
}

// ByKind are the things that were looked at, by kind.
func (m *manyThings) ByKind() []setting { return tallied(m.Kinds) }

// ByOwner are the things that were looked at, by owner.
func (m *manyThings) ByOwner() []setting { return tallied(m.Owners) }
