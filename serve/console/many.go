package console

import (
	"net/http"
	"slices"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// chosenFor is an action of an operation on what the address chooses.
func chosenFor(path, what string, around func(*page.Visit, *page.Question)) *page.Action {
	return page.Operating(path, func(v *page.Visit) (*api.OperationAsked, error) {
		q := v.Query()
		if q.Has("chosen") && !q.Has("seq") && !q.Has("id") { // what else the form has would choose all of it
			return nil, operation.Refuse(http.StatusBadRequest, "Nothing was chosen, and nothing is changed. Tick on the list what is meant.")
		}
		q.Set("what", what)
		if name := v.R.PathValue("queue"); name != "" {
			q.Set("queue", name)
		}
		asked := &api.OperationAsked{}
		return asked, page.Given(q, api.PreviewOperation.Description, asked)
	}, around)
}

// oneEach asks again for a choice of which more things match than were chosen.
func oneEach(q *page.Question, chosen []string, why string) {
	chosen = slices.Compact(slices.Sorted(slices.Values(chosen)))
	if len(chosen) > 0 && q.Many.Count > len(chosen) {
		q.Title, q.Nothing = "Nothing is changed", why
	}
}

func aroundDead(v *page.Visit, q *page.Question) {
	oneEach(q, v.Query()["seq"], "Dead letters of several systems have the numbers that were chosen. Filter the list by a system, and choose again.")
	q.Section, q.Crumbs, q.Back = "dead", []page.Link{{Text: "Dead letters", Href: page.Address("dead")}}, v.Back(page.Address("dead"))
}

func aroundJobs(v *page.Visit, q *page.Question) {
	name := v.R.PathValue("queue")
	oneEach(q, v.Query()["id"], "Jobs of several tenants have the ids that were chosen. Filter the list by a tenant, and choose again.")
	q.Section, q.Crumbs, q.Back = "queues", queueCrumbs(name), v.Back(page.Address("queues", name, "jobs"))
}

var (
	replayDead  = chosenFor("dead/replay", api.DeadReplay, aroundDead)
	discardDead = chosenFor("dead/delete", api.DeadDelete, aroundDead)
	retryJobs   = chosenFor("queues/{queue}/retry", api.JobsRetry, aroundJobs)
	promoteJobs = chosenFor("queues/{queue}/promote", api.JobsPromote, aroundJobs)
	removeJobs  = chosenFor("queues/{queue}/remove", api.JobsRemove, aroundJobs)
	cleanJobs   = chosenFor("queues/{queue}/clean", api.JobsClean, aroundJobs)

	// againOperation does the same for what an operation could not change.
	againOperation = page.Operating("operations/{id}/again", func(v *page.Visit) (*api.OperationAsked, error) {
		o, err := page.Call(v, api.GetOperation, &api.OneOperation{ID: v.R.PathValue("id")})
		if err != nil {
			return nil, err
		}
		if o.Again == nil {
			return nil, operation.Refuse(http.StatusConflict, "Nothing failed in this operation: there is nothing to do again.")
		}
		return &api.OperationAsked{What: o.What, OperationThings: *o.Again, Rate: o.Rate}, nil
	}, func(v *page.Visit, q *page.Question) {
		q.Section, q.Crumbs, q.Back = "operations", operationCrumbs, page.Address("operations", v.R.PathValue("id"))
	})
)
