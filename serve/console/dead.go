package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// reasons are why messages die, with what each means.
var reasons = []setting{
	{"validation", "Validation", "The message is not what was asked for. The same message fails again: edit it, or discard it."},
	{"timeout", "Timeout", "The destination did not answer in time, at every try. Replay it when the destination is well."},
	{"rate_limit", "Rate limit", "The destination asked for less, at every try. Replay it at a rate that it takes."},
	{"partner_error", "Partner error", "The destination refused the message. Its answer says why."},
	{"unknown", "Unknown", "None of the others. The cause says more."},
}

// Reasons are why messages die.
func (v *view) Reasons() []setting { return reasons }

// deadPage is a list of dead letters.
type deadPage struct {
	Filter api.DeadFilter
	Dead   part[operation.Paged[api.ListedDead]]
	Active []link
	chosen url.Values // the filter with its end: what is on the page and no later one
	All    bool       // no filter is set
	Counts part[books]
	Groups part[api.DeadGroups] // by cause, where no filter is set
}

// groupsShown is how many groups of dead letters the list shows, the largest.
const groupsShown = 10

// Largest are the groups that are shown.
func (p *deadPage) Largest() []api.DeadGroup {
	return p.Groups.Has.Groups[:min(groupsShown, len(p.Groups.Has.Groups))]
}

// Rest is how many groups are not shown.
func (p *deadPage) Rest() int { return len(p.Groups.Has.Groups) - len(p.Largest()) }

// Of is the list of the dead letters of a group's pipeline and kind.
func (p *deadPage) Of(g api.DeadGroup) string {
	return query(address("dead"), url.Values{"system": {g.System}, "pipeline": {g.Pipeline}, "kind": {g.Kind}})
}

func showDeadLetters(v *visit) (*view, error) {
	p := &deadPage{}
	if err := api.ListDead.Parse(v.query(), &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max, p.Filter.Format = 0, ""
	v.pageOf(&p.Filter.Page)
	p.Dead = look(v, func(ctx context.Context) (operation.Paged[api.ListedDead], error) {
		return api.ListDead.Page(ctx, v.API, &p.Filter)
	})
	p.Active = v.active("system", "pipeline", "partner", "project", "site", "tenant", "kind", "reason", "since", "until", "state", "id", "seq")
	p.All = len(p.Active) == 0
	q := v.query()
	for _, name := range []string{"cursor", "limit", "order", "done", "count", "state", "back"} {
		q.Del(name)
	}
	// What dies from now on is no part of what somebody sees and chooses.
	if s := (api.Span{Since: q.Get("since"), Until: q.Get("until")}); s != (api.Span{}) {
		s = s.Fixed(v.at)
		set(q, "since", s.Since)
		set(q, "until", s.Until)
	}
	if q.Get("until") == "" {
		q.Set("until", v.at.UTC().Format(time.RFC3339Nano))
	}
	if p.All {
		q.Set("all", "true")
	}
	q.Set("back", v.r.URL.RequestURI())
	p.chosen = q
	if p.All && len(p.Dead.Has.Items) == 0 && v.may(api.GetAudit.ID) {
		p.Counts = readBooks(v, "")
	}
	if p.All && len(p.Dead.Has.Items) > 0 && v.may(api.GroupDead.ID) {
		p.Groups = look(v, func(ctx context.Context) (api.DeadGroups, error) {
			return api.GroupDead.Call(ctx, v.API, &operation.None{})
		})
	}
	return &view{file: "dead", Title: "Dead letters", Section: "dead", Body: p}, nil
}

func set(q url.Values, name, value string) {
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
}

// Choose is the page of an action on all that match.
func (p *deadPage) Choose(verb string) string { return query(address("dead", verb), p.chosen) }

// Ever is how many dead letters there ever were.
func (p *deadPage) Ever() (n uint64) {
	for _, l := range p.Counts.Has.Lines {
		n += l.Letters.Put
	}
	return n
}

// noSystem stands in addresses for the system of a dead letter whose pipeline no system knows.
const noSystem = "-"

// deadAddress is the page of a dead letter, or one that belongs to it.
func deadAddress(l *api.DeadLetter, more ...string) string {
	return oneDeadAddress(l.System, strconv.FormatInt(l.Seq, 10), more...)
}

// oneDeadAddress is the page of the dead letter of a number.
func oneDeadAddress(system, seq string, more ...string) string {
	if system == "" {
		system = noSystem
	}
	return address(append([]string{"dead", system, seq}, more...)...)
}

// DeadAt is the page of a dead letter, or one that belongs to it.
func (v *view) DeadAt(l api.DeadLetter, more ...string) string { return deadAddress(&l, more...) }

// Owner is whose a dead letter is.
func (v *view) Owner(l api.DeadLetter) string { return ownerOf(&l) }

func ownerOf(l *api.DeadLetter) string {
	for _, o := range []string{l.Project, l.Site, l.Tenant} {
		if o != "" {
			return o
		}
	}
	return ""
}

// letterPage is one dead letter.
type letterPage struct {
	Letter   api.DeadLetter
	Reason   setting
	Payload  *payload
	Original *payload // as received, where it was edited
	Changed  []changed
	Answer   *payload
	Explain  string // the page that explains its message
	Changes  *part[[]api.Change]
}

// Move is the page of an action on it.
func (p *letterPage) Move(verb string) string {
	l := &p.Letter
	return query(address("dead", verb), url.Values{"seq": {strconv.FormatInt(l.Seq, 10)}, "pipeline": {l.Pipeline}, "system": {l.System}})
}

func oneDead(v *visit) *api.OneDead {
	q := &api.OneDead{Letter: v.r.PathValue("seq"), System: v.r.PathValue("system")}
	if q.System == noSystem {
		q.System = ""
	}
	return q
}

func showDeadLetter(v *visit) (*view, error) {
	l, err := call(v, api.GetDead, oneDead(v))
	if p := problemOf(err); p != nil && p.Status == http.StatusNotFound {
		return nil, operation.Refuse(http.StatusNotFound, "There is no dead letter %s of %s. It was replayed and delivered, or it was discarded, since the link was made.", v.r.PathValue("seq"), v.r.PathValue("system"))
	} else if err != nil {
		return nil, err
	}
	p := &letterPage{Letter: l, Explain: explainAddress(l.System, ownerOf(&l), l.ID)}
	p.Changes = lastChanges(v, strconv.FormatInt(l.Seq, 10))
	for _, r := range reasons {
		if r.Name == l.Reason {
			p.Reason = r
		}
	}
	p.Payload = newPayload(l.Payload, l.PayloadBase64, deadAddress(&l, "payload"))
	if l.Edited != nil {
		p.Original = newPayload(l.Original, l.OriginalBase64, deadAddress(&l, "original"))
		p.Changed = difference(bytesOf(l.Original, l.OriginalBase64), bytesOf(l.Payload, l.PayloadBase64))
	}
	if len(l.Row) > 0 {
		p.Answer = newPayload(string(l.Row), "", "")
	}
	return &view{file: "letter", Title: "Dead letter " + strconv.FormatInt(l.Seq, 10), Section: "dead", Crumbs: []link{{"Dead letters", address("dead")}}, Body: p}, nil
}

func deadPayload(v *visit) (*view, error) {
	l, err := call(v, api.GetDead, oneDead(v))
	if err != nil {
		return nil, err
	}
	return nil, v.download(l.ID, l.Payload, l.PayloadBase64)
}

func deadOriginal(v *visit) (*view, error) {
	l, err := call(v, api.GetDead, oneDead(v))
	if err != nil {
		return nil, err
	}
	if l.Edited == nil {
		return nil, operation.Refuse(http.StatusNotFound, "Its payload was never edited: what is there is what was received.")
	}
	return nil, v.download(l.ID, l.Original, l.OriginalBase64)
}

// editDead replaces the payload of a dead letter. The original stays beside it.
var editDead = &action{path: "dead/{system}/{seq}/edit", op: api.EditDead.ID,
	ask: func(v *visit) (*question, error) {
		l, err := call(v, api.GetDead, oneDead(v))
		if err != nil {
			return nil, err
		}
		q := &question{Title: "Edit the payload of dead letter " + strconv.FormatInt(l.Seq, 10), Button: "Replace the payload", Section: "dead", Back: deadAddress(&l),
			Crumbs: []link{{"Dead letters", address("dead")}, {strconv.FormatInt(l.Seq, 10), deadAddress(&l)}},
			Texts:  []string{"A replay sends what is here. What was received stays beside it. Nothing is sent by saving."},
			CLI:    command("dead", "edit", strconv.FormatInt(l.Seq, 10), "--pipeline", l.Pipeline), Request: request(api.EditDead, &api.DeadEdit{OneDead: *oneDead(v)})}
		q.Edit = newEditing(v, l.ETag, l.Payload, l.PayloadBase64)
		return q, nil
	},
	do: func(v *visit) (string, error) {
		body, err := v.edited()
		if err != nil {
			return "", err
		}
		_, err = change(v, api.EditDead, &api.DeadEdit{OneDead: *oneDead(v), Seen: api.Seen{IfMatch: v.r.PostFormValue("etag")}, Body: body})
		return done(address("dead", v.r.PathValue("system"), v.r.PathValue("seq")), "saved"), err
	}}
