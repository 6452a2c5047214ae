package console

import (
	"cmp"
	"html/template"
	"net/url"
	"strconv"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
)

// Tables that may be long.

// queuesTable are queues; whole: with all that can be done about them.
func queuesTable(v *page.View, all []api.Queue, whole bool) template.HTML {
	t := page.Table[api.Queue]{Caption: "Queues", Columns: []page.Column[api.Queue]{
		{Name: "Queue", Head: true, Cell: func(c *page.Cell, q *api.Queue) { c.Link(page.Address("queues", q.Name), q.Name) }},
		{Name: "State", Cell: func(c *page.Cell, q *api.Queue) { c.State(page.StateOf(q)) }},
		{Name: "Waiting", Look: page.Numbers, Cell: func(c *page.Cell, q *api.Queue) { c.Count(q.Waiting) }},
		{Name: "Put off", Look: page.Numbers, Cell: func(c *page.Cell, q *api.Queue) { c.Count(q.Delayed) }},
		{Name: "Worked on", Look: page.Numbers, Cell: func(c *page.Cell, q *api.Queue) { c.Count(q.Leased) }},
	}}
	if whole {
		t.Columns = append(t.Columns, page.Column[api.Queue]{Name: "Failed, kept", Look: page.Numbers, Cell: func(c *page.Cell, q *api.Queue) { c.Count(q.Failed) }})
	}
	t.Columns = append(t.Columns, page.Column[api.Queue]{Name: "Oldest", Cell: func(c *page.Cell, q *api.Queue) { c.When(q.Oldest) }})
	if whole {
		pause, resume, back := v.May(api.PauseQueue.ID), v.May(api.ResumeQueue.ID), url.Values{"back": {page.Address("queues")}}
		t.Columns = append(t.Columns, page.Column[api.Queue]{Name: "Actions", Mute: true, Look: "acts", Cell: func(c *page.Cell, q *api.Queue) {
			stopped := q.Paused || q.Closed
			if stopped && resume {
				c.Ask(page.Query(page.Address("queues", q.Name, "resume"), back), "Resume", " "+q.Name)
			} else if !stopped && pause {
				c.Ask(page.Query(page.Address("queues", q.Name, "pause"), back), "Pause", " "+q.Name)
			}
		}})
	}
	return t.HTML(v.Visit, all)
}

// jobsTable are jobs, which can be chosen if all are of one state.
func jobsTable(v *page.View, state string, all []api.Job) template.HTML {
	t := page.Table[api.Job]{Caption: "Jobs"}
	if state != "" {
		t.Columns = append(t.Columns, page.Column[api.Job]{Name: "Choose", Mute: true, Look: "tick", Cell: func(c *page.Cell, j *api.Job) { c.Choose("id", j.ID, j.ID) }})
	}
	t.Columns = append(t.Columns, []page.Column[api.Job]{
		{Name: "Id", Head: true, Look: "id", Cell: func(c *page.Cell, j *api.Job) { c.LinkID(page.JobAddress(j), j.ID) }},
		{Name: "State", Cell: func(c *page.Cell, j *api.Job) { c.State(j.State) }},
		{Name: "Type", Cell: func(c *page.Cell, j *api.Job) { c.Text(j.Type) }},
		{Name: "Tenant", Look: "id", Cell: func(c *page.Cell, j *api.Job) { c.Text(j.Tenant) }},
		{Name: "Failed tries", Look: page.Numbers, Cell: func(c *page.Cell, j *api.Job) { c.Count(j.Tries) }},
		{Name: "Added", Cell: func(c *page.Cell, j *api.Job) { c.When(j.Added) }},
		{Name: "Due or ended", Cell: func(c *page.Cell, j *api.Job) {
			if j.Ended != nil {
				c.When(j.Ended)
			} else {
				c.When(j.Due)
			}
		}},
		{Name: "Cause", Look: "cause wide small", Cell: func(c *page.Cell, j *api.Job) { c.Text(j.Cause) }},
	}...)
	return t.HTML(v.Visit, all)
}

// none stands for an owner that has no name.
const none = "(none)"

// ownersTable are owners whose jobs wait, or who have dead letters.
func ownersTable(v *page.View, all []api.OwnerInList) template.HTML {
	t := page.Table[api.OwnerInList]{Caption: "Owners whose jobs wait, or who have dead letters", Columns: []page.Column[api.OwnerInList]{
		{Name: "Owner", Head: true, Look: "id", Cell: func(c *page.Cell, o *api.OwnerInList) {
			if o.Owner == "" {
				c.Text(none)
			} else {
				c.Link(page.OwnerAddress(o.Owner), o.Owner)
			}
		}},
		{Name: "Waiting", Look: page.Numbers, Cell: func(c *page.Cell, o *api.OwnerInList) { c.Count(o.Waiting) }},
		{Name: "In queues", Look: page.Numbers, Cell: func(c *page.Cell, o *api.OwnerInList) { c.Count(o.Queues) }},
		{Name: "Oldest", Cell: func(c *page.Cell, o *api.OwnerInList) { c.When(o.Oldest) }},
		{Name: "Dead letters", Look: page.Numbers, Cell: func(c *page.Cell, o *api.OwnerInList) {
			if o.Dead == 0 || o.Owner == "" {
				c.Count(o.Dead)
			} else {
				c.Link(page.Query(page.Address("dead"), url.Values{"site": {o.Owner}}), page.Number(o.Dead))
			}
		}},
		{Name: "Limit", Cell: func(c *page.Cell, o *api.OwnerInList) {
			if o.Limited {
				c.Text("limited")
			} else {
				c.Soft("none")
			}
		}},
	}}
	return t.HTML(v.Visit, all)
}

// tenantsTable are tenants whose jobs wait in a queue.
func tenantsTable(v *page.View, queue string, all []api.TenantDepth) template.HTML {
	t := page.Table[api.TenantDepth]{Caption: "What waits, by tenant", Columns: []page.Column[api.TenantDepth]{
		{Name: "Tenant", Head: true, Look: "id", Cell: func(c *page.Cell, d *api.TenantDepth) {
			name := d.Tenant
			if name == "" {
				name = none
			}
			c.Link(page.Address("queues", queue, "jobs")+"?tenant="+url.QueryEscape(d.Tenant), name)
		}},
		{Name: "Waiting", Look: page.Numbers, Cell: func(c *page.Cell, d *api.TenantDepth) { c.Count(d.Waiting) }},
		{Name: "Oldest", Cell: func(c *page.Cell, d *api.TenantDepth) { c.When(d.Oldest) }},
	}}
	return t.HTML(v.Visit, all)
}

// ownedTable are the queues in which jobs of an owner wait.
func ownedTable(v *page.View, owner string, all []api.OwnerQueue) template.HTML {
	t := page.Table[api.OwnerQueue]{Caption: "Jobs and limits of this owner, by queue", Columns: []page.Column[api.OwnerQueue]{
		{Name: "Queue", Head: true, Cell: func(c *page.Cell, q *api.OwnerQueue) { c.Link(page.Address("queues", q.Queue), q.Queue) }},
		{Name: "Waiting", Look: page.Numbers, Cell: func(c *page.Cell, q *api.OwnerQueue) {
			c.Link(page.Query(page.Address("queues", q.Queue, "jobs"), url.Values{"state": {"waiting"}, "tenant": {owner}}), page.Number(q.Waiting))
		}},
		{Name: "Oldest", Cell: func(c *page.Cell, q *api.OwnerQueue) { c.When(q.Oldest) }},
		{Name: "What may hold them back", Cell: func(c *page.Cell, q *api.OwnerQueue) {
			if q.Waiting == 0 {
				c.Soft("none waits")
			} else if q.Holds == "" {
				c.Soft("the turns of others alone")
			} else {
				c.Text(q.Holds)
			}
		}},
		{Name: "Its own limit", Cell: func(c *page.Cell, q *api.OwnerQueue) {
			if q.Limit == nil {
				c.Soft("that of each tenant")
			} else {
				c.Text(limitWords(*q.Limit))
			}
		}},
	}}
	if v.May(api.SetQueue.ID) {
		t.Columns = append(t.Columns, page.Column[api.OwnerQueue]{Name: "Actions", Mute: true, Look: "acts", Cell: func(c *page.Cell, q *api.OwnerQueue) {
			c.Ask(ownerLimitAddress(owner, q.Queue), "Limit", " "+q.Queue)
		}})
	}
	return t.HTML(v.Visit, all)
}

// deadTable are dead letters.
func deadTable(v *page.View, all []api.ListedDead) template.HTML {
	t := page.Table[api.ListedDead]{Caption: "Dead letters", Columns: []page.Column[api.ListedDead]{
		{Name: "Choose", Mute: true, Look: "tick", Cell: func(c *page.Cell, l *api.ListedDead) {
			seq := strconv.FormatInt(l.Seq, 10)
			c.Choose("seq", seq, "dead letter "+seq)
		}},
		{Name: "Cause", Head: true, Look: "cause", Cell: func(c *page.Cell, l *api.ListedDead) {
			cause := l.Cause
			if cause == "" {
				cause = "Dead letter " + strconv.FormatInt(l.Seq, 10)
			}
			c.Link(page.DeadAddress(&l.DeadLetter), cause)
		}},
		{Name: "Reason", Cell: func(c *page.Cell, l *api.ListedDead) {
			c.Link(v.Here("reason", l.Reason), l.Reason)
			if l.State != "held" {
				c.Text(" ")
				c.State(l.State)
			}
		}},
		{Name: "Pipeline", Cell: func(c *page.Cell, l *api.ListedDead) {
			c.Link(v.Here("pipeline", l.Pipeline), l.Pipeline)
			c.Below(page.OwnerOf(&l.DeadLetter), "id")
		}},
		{Name: "Message", Look: "id", Cell: func(c *page.Cell, l *api.ListedDead) {
			c.ID(l.ID)
			c.Below(l.Type, "")
		}},
		{Name: "Tries", Look: page.Numbers, Cell: func(c *page.Cell, l *api.ListedDead) { c.Count(l.Tries) }},
		{Name: "Replays", Look: page.Numbers, Cell: func(c *page.Cell, l *api.ListedDead) { c.Count(l.Replays) }},
		{Name: "Died", Cell: func(c *page.Cell, l *api.ListedDead) { c.When(l.Last) }},
	}}
	return t.HTML(v.Visit, all)
}

// groupsTable are dead letters by cause.
func groupsTable(v *page.View, all []api.DeadGroup) template.HTML {
	t := page.Table[api.DeadGroup]{Caption: "Dead letters by cause", Columns: []page.Column[api.DeadGroup]{
		{Name: "Cause", Head: true, Look: "cause", Cell: func(c *page.Cell, g *api.DeadGroup) { c.Text(g.Cause) }},
		{Name: "Pipeline", Cell: func(c *page.Cell, g *api.DeadGroup) { c.Text(g.Pipeline) }},
		{Name: "Reason", Cell: func(c *page.Cell, g *api.DeadGroup) { c.Text(g.Reason) }},
		{Name: "Dead letters", Look: page.Numbers, Cell: func(c *page.Cell, g *api.DeadGroup) {
			if g.Cause == "" { // which no filter chooses
				c.Count(g.Count)
				return
			}
			c.Link(page.Query(page.Address("dead"), url.Values{"system": {g.System}, "pipeline": {g.Pipeline}, "kind": {g.Kind}, "cause": {g.Cause}}), page.Number(g.Count), " of "+g.Pipeline+", "+g.Reason)
		}},
	}}
	return t.HTML(v.Visit, all)
}

// operationsTable are operations.
func operationsTable(v *page.View, all []api.Operation) template.HTML {
	t := page.Table[api.Operation]{Caption: "Operations", Columns: []page.Column[api.Operation]{
		{Name: "What", Head: true, Cell: func(c *page.Cell, o *api.Operation) { c.Link(page.Address("operations", o.ID), page.Deed(o.What)) }},
		{Name: "Id", Look: "id", Cell: func(c *page.Cell, o *api.Operation) { c.ID(o.ID) }},
		{Name: "State", Cell: func(c *page.Cell, o *api.Operation) { c.State(o.State) }},
		{Name: "Matched", Look: page.Numbers, Cell: func(c *page.Cell, o *api.Operation) {
			if c.Count(o.Count); o.AtLeast {
				c.Text("+")
			}
		}},
		{Name: "Changed", Look: page.Numbers, Cell: func(c *page.Cell, o *api.Operation) { c.Count(o.Changed) }},
		{Name: "Could not", Look: page.Numbers, Cell: func(c *page.Cell, o *api.Operation) {
			if len(o.Failed) == 0 {
				c.Count(0)
			}
			for _, why := range page.Tallied(o.Failed) {
				c.Below(page.Words(why.Name)+" "+why.Value, "")
			}
		}},
		{Name: "By", Cell: func(c *page.Cell, o *api.Operation) { c.Text(o.By) }},
		{Name: "Asked for", Cell: func(c *page.Cell, o *api.Operation) { c.When(o.Made) }},
	}}
	return t.HTML(v.Visit, all)
}

// fatesTable is what became of events.
func fatesTable(v *page.View, all []api.Fate) template.HTML {
	filter := func(c *page.Cell, name, value string) {
		if value == "" {
			c.Soft("–")
		} else {
			c.Link(v.Here(name, value), value)
		}
	}
	t := page.Table[api.Fate]{Caption: "What became of events, the newest first", Columns: []page.Column[api.Fate]{
		{Name: "When", Cell: func(c *page.Cell, f *api.Fate) { c.When(f.At) }},
		{Name: "Outcome", Cell: func(c *page.Cell, f *api.Fate) { c.State(f.Outcome) }},
		{Name: "Event", Look: "id", Cell: func(c *page.Cell, f *api.Fate) {
			if f.ID == "" {
				c.Text(page.Number(f.Count) + " in a request")
			} else {
				c.LinkID(page.ExplainAddress(f.System, f.Owner, f.ID), f.ID)
			}
		}},
		{Name: "Type", Cell: func(c *page.Cell, f *api.Fate) { filter(c, "type", f.Type) }},
		{Name: "Owner", Look: "id", Cell: func(c *page.Cell, f *api.Fate) { filter(c, "owner", f.Owner) }},
		{Name: "Where", Cell: func(c *page.Cell, f *api.Fate) {
			c.Text(f.System + " ")
			c.Soft(cmp.Or(f.Pipeline, "ingest API"))
		}},
		{Name: "Delay", Cell: func(c *page.Cell, f *api.Fate) {
			if f.Delay == nil {
				c.Soft("–")
			} else {
				c.Text(page.Span(f.Delay))
			}
		}},
		{Name: "Why", Look: "cause wide", Cell: func(c *page.Cell, f *api.Fate) { c.Text(f.Why) }},
	}}
	return t.HTML(v.Visit, all)
}
