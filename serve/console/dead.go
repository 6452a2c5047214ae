package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/page"
)

// reasons are why messages die, with what each means.
var reasons = []page.Fact{
	{Name: "validation", Value: "Validation", Help: "The message is not what was asked for. The same message fails again: edit it, or discard it."},
	{Name: "timeout", Value: "Timeout", Help: "The destination did not answer in time, at every try. Replay it when the destination is well."},
	{Name: "rate_limit", Value: "Rate limit", Help: "The destination asked for less, at every try. Replay it at a rate that it takes."},
	{Name: "partner_error", Value: "Partner error", Help: "The destination refused the message. Its answer says why."},
	{Name: "unknown", Value: "Unknown", Help: "None of the others. The cause says more."},
}

// deadPage is a list of dead letters.
type deadPage struct {
	Filter api.DeadFilter
	Dead   page.Part[operation.Paged[api.ListedDead]]
	Active []page.Link
	chosen url.Values // the filter with its end: what is on the page and no later one
	All    bool       // no filter is set
	Counts page.Part[books]
	Groups page.Part[api.DeadGroups] // by cause, where no filter is set
	Export string                    // all that match, as a file; empty: the caller may not, or there is nothing
}

// groupsShown is how many groups of dead letters the list shows, the largest.
const groupsShown = 10

func showDeadLetters(v *page.Visit) (*page.View, error) {
	p := &deadPage{}
	if err := v.Filter(api.ListDead.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max, p.Filter.Format = 0, ""
	p.Active = v.Active("system", "pipeline", "partner", "project", "site", "tenant", "kind", "reason", "cause", "text", "since", "until", "state", "id", "seq")
	if p.Filter.Text != "" && len(p.Active) == 1 { // a text is looked for within another filter
		v.Redirect(v.Here("since", "24h"))
		return nil, nil
	}
	v.Paging(&p.Filter.Page)
	p.Dead = page.Look(v, func(ctx context.Context) (operation.Paged[api.ListedDead], error) {
		return api.ListDead.Page(ctx, v.API, &p.Filter)
	})
	p.All = len(p.Active) == 0
	q := v.Query()
	for _, name := range []string{"cursor", "limit", "order", "done", "count", "state", "back"} {
		q.Del(name)
	}
	// What dies from now on is no part of what somebody sees and chooses.
	if s := (api.Span{Since: q.Get("since"), Until: q.Get("until")}); s != (api.Span{}) {
		s = s.Fixed(v.At)
		set(q, "since", s.Since)
		set(q, "until", s.Until)
	}
	if q.Get("until") == "" {
		q.Set("until", v.At.UTC().Format(time.RFC3339Nano))
	}
	if p.All {
		q.Set("all", "true")
	}
	q.Set("back", v.R.URL.RequestURI())
	p.chosen = q
	if len(p.Dead.Has.Items) > 0 && v.Caller.Rights.MayAny(caller.Operator) {
		p.Export = page.Query(page.Address("dead", "export"), v.Unpaged())
	}
	if p.All && len(p.Dead.Has.Items) == 0 && v.May(api.GetAudit.ID) {
		p.Counts = readBooks(v, "", false)
	}
	if p.All && len(p.Dead.Has.Items) > 0 && v.May(api.GroupDead.ID) {
		p.Groups = page.Look(v, func(ctx context.Context) (api.DeadGroups, error) {
			return api.GroupDead.Call(ctx, v.API, &api.GroupsOf{Max: groupsShown})
		})
	}
	return &page.View{File: "dead", Live: v.Newest(), Title: "Dead letters", Section: "dead", Body: p}, nil
}

// exportDead is all dead letters that match, as a file.
func exportDead(v *page.Visit) (*page.View, error) {
	q := &api.DeadFilter{}
	if err := page.Given(v.Unpaged(), api.ListDead.Description, q); err != nil {
		return nil, err
	}
	return nil, page.Lines(v, "dead-letters.jsonl", api.ListDead, q)
}

func set(q url.Values, name, value string) {
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
}

// Choose is the page of an action on all that match.
func (p *deadPage) Choose(verb string) string {
	return page.Query(page.Address("dead", verb), p.chosen)
}

// Ever is how many dead letters there ever were.
func (p *deadPage) Ever() (n uint64) {
	for _, l := range p.Counts.Has.Lines {
		n += l.Letters.Put
	}
	return n
}

// letterPage is one dead letter.
type letterPage struct {
	Letter   api.DeadLetter
	Reason   page.Fact
	Payload  *page.Payload
	Original *page.Payload // as received, where it was edited
	Changed  []page.Changed
	Answer   *page.Payload
	Explain  string          // the page that explains its message
	Moved    []api.Operation // of the newest ones, that chose it by its number or id
	Changes  *page.Part[[]api.Change]
	Queue    string // of its pipeline; empty: it works on none that is there
}

// Move is the page of an action on it.
func (p *letterPage) Move(verb string) string {
	l := &p.Letter
	return page.Query(page.Address("dead", verb), url.Values{"seq": {strconv.FormatInt(l.Seq, 10)}, "pipeline": {l.Pipeline}, "system": {l.System}})
}

func oneDead(v *page.Visit) *api.OneDead {
	q := &api.OneDead{Letter: v.R.PathValue("seq"), System: v.R.PathValue("system")}
	if q.System == page.NoSystem {
		q.System = ""
	}
	return q
}

func showDeadLetter(v *page.Visit) (*page.View, error) {
	l, err := page.Call(v, api.GetDead, oneDead(v))
	if p := page.Problem(err); p != nil && p.Status == http.StatusNotFound {
		return nil, operation.Refuse(http.StatusNotFound, "There is no dead letter %s of %s. It was replayed and delivered, or it was discarded, since the link was made.", v.R.PathValue("seq"), v.R.PathValue("system"))
	} else if err != nil {
		return nil, err
	}
	p := &letterPage{Letter: l, Explain: page.ExplainAddress(l.System, page.OwnerOf(&l), l.ID)}
	p.Changes, p.Moved = page.LastChanges(v, strconv.FormatInt(l.Seq, 10)), movedBy(v, &l)
	if v.May(api.ListQueues.ID) && slices.ContainsFunc(v.Queues().Has, func(q api.Queue) bool { return q.Name == l.Pipeline }) {
		p.Queue = l.Pipeline
	}
	for _, r := range reasons {
		if r.Name == l.Reason {
			p.Reason = r
		}
	}
	p.Payload = page.NewPayload(l.Payload, l.PayloadBase64, page.DeadAddress(&l, "payload")).Covering(l.Covered)
	if l.Edited != nil {
		p.Original = page.NewPayload(l.Original, l.OriginalBase64, page.DeadAddress(&l, "original")).Covering(l.OriginalCovered)
		p.Changed = page.Difference(page.BytesOf(l.Original, l.OriginalBase64), page.BytesOf(l.Payload, l.PayloadBase64))
	}
	if len(l.Row) > 0 {
		p.Answer = page.NewPayload(string(l.Row), "", "")
	}
	return &page.View{File: "letter", Title: "Dead letter " + strconv.FormatInt(l.Seq, 10), Section: "dead", Crumbs: []page.Link{{Text: "Dead letters", Href: page.Address("dead")}}, Body: p}, nil
}

// movedLooked is how many operations are looked at for those that chose a dead letter.
const movedLooked = 50

// movedBy are the operations that chose a dead letter by its number or its message's id: replays that go on, failed or
// were stopped.
func movedBy(v *page.Visit, l *api.DeadLetter) (all []api.Operation) {
	if !v.May(api.ListOperations.ID) {
		return nil
	}
	newest := page.Look(v, func(ctx context.Context) (operation.Paged[api.Operation], error) {
		return api.ListOperations.Page(ctx, v.API, &api.OperationFilter{Page: operation.Page{Order: "newest", Limit: movedLooked}})
	}) // the page of operations says why there are none
	for _, o := range newest.Has.Items {
		if f := &o.Filter; f.Queue == "" && (slices.Contains(f.Seq, l.Seq) || slices.Contains(f.IDs, l.ID)) && (f.System == "" || f.System == l.System) && (f.Pipeline == "" || f.Pipeline == l.Pipeline) {
			all = append(all, o)
		}
	}
	return all
}

func deadPayload(v *page.Visit) (*page.View, error) {
	return nil, page.Download(v, v.R.PathValue("seq"), api.GetDeadPayload, oneDead(v))
}

func deadOriginal(v *page.Visit) (*page.View, error) {
	return nil, page.Download(v, v.R.PathValue("seq")+"-original", api.GetDeadOriginal, oneDead(v))
}

// editDead replaces the payload of a dead letter. The original stays beside it.
var editDead = &page.Action{Path: "dead/{system}/{seq}/edit", Op: api.EditDead.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		l, err := page.Call(v, api.GetDead, oneDead(v))
		if err != nil {
			return nil, err
		}
		q := &page.Question{Title: "Edit the payload of dead letter " + strconv.FormatInt(l.Seq, 10), Button: "Replace the payload", Section: "dead", Back: page.DeadAddress(&l),
			Crumbs: []page.Link{{Text: "Dead letters", Href: page.Address("dead")}, {Text: strconv.FormatInt(l.Seq, 10), Href: page.DeadAddress(&l)}},
			Texts:  []string{"A replay sends what is here. What was received stays beside it. Nothing is sent by saving."},
			CLI:    page.Command("dead", "edit", strconv.FormatInt(l.Seq, 10), "--pipeline", l.Pipeline), Request: page.Request(api.EditDead, &api.DeadEdit{OneDead: *oneDead(v)})}
		q.Edit = page.NewEditing(v, l.ETag, l.Payload, l.PayloadBase64, l.Covered)
		return q, nil
	},
	Do: func(v *page.Visit) (string, error) {
		body, err := v.Replaced()
		if err != nil {
			return "", err
		}
		_, err = page.Change(v, api.EditDead, &api.DeadEdit{OneDead: *oneDead(v), Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}, NewPayload: body})
		return page.Done(page.Address("dead", v.R.PathValue("system"), v.R.PathValue("seq")), "saved"), page.Overtaken(v, err)
	}}
