package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
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
func Deed(what string) string { return cmp.Or(deeds[what].Name, what) }

// Deed is what an operation does, in words.
func (v *View) Deed(what string) string { return Deed(what) }

// Preview is what an operation is about to change.
type Preview struct {
	api.OperationPreview
	Rate  bool // one may be asked for
	Given string
}

// Operating is an action that starts an operation, of one thing or many: its page is a preview, and its
// form starts what was shown.
func Operating(path string, read func(*Visit) (*api.OperationAsked, error), around func(*Visit, *Question)) *Action {
	return &Action{Path: path, Op: api.StartOperation.ID, Do: startOperation,
		Ask: func(v *Visit) (*Question, error) {
			asked, err := read(v)
			if err != nil {
				return nil, err
			}
			p, err := Call(v, api.PreviewOperation, asked)
			if err != nil {
				return nil, err
			}
			q := previewed(v, &p)
			around(v, q)
			return q, nil
		}}
}

// previewed is the question of a preview.
func previewed(v *Visit, p *api.OperationPreview) *Question {
	does, n := deeds[p.What], Many(p.Count, deeds[p.What].thing)
	if p.AtLeast {
		n += " or more"
	}
	q := &Question{Title: does.button + " " + n + "?", Button: does.button + " " + n, Careful: does.final, Word: v.WordFor(p.Count), CLI: p.Command, Request: p.Request,
		Texts: []string{p.Does, p.Undo, "What comes from now on is no part of it."}, Many: &Preview{*p, !does.final && p.Count > 1, v.R.PostFormValue("rate")}}
	if p.After > 0 {
		q.Texts = append(q.Texts, fmt.Sprintf("It begins %d seconds after it is asked for. Until then it can be stopped on every page, and nothing is changed.", p.After))
	}
	if len(p.Systems) > 0 {
		q.Texts = append(q.Texts, "Only things of "+strings.Join(p.Systems, " and ")+" are meant.")
	}
	if p.Takes > 0 {
		q.Texts = append(q.Texts, "It takes about "+Span(&p.Takes)+".")
	}
	for _, i := range p.Sample {
		at := Query(Address("dead"), url.Values{"id": {i.ID}, "pipeline": {i.Group}})
		if does.thing == "job" {
			at = JobAddress(&api.Job{Queue: i.Group, ID: i.ID, Tenant: i.Owner})
		}
		q.Sample = append(q.Sample, Link{fmt.Sprintf("%s · %s · %s", i.Group, Cut(i.ID), Cut(cmp.Or(i.Cause, i.Kind))), at})
	}
	if p.Count == 0 {
		q.Title, q.Nothing = "Nothing is changed", "No "+does.thing+" that this can be done to matches now."
	}
	return q
}

// startOperation starts what a page showed.
func startOperation(v *Visit) (string, error) {
	id, n := v.R.PostFormValue("preview"), v.R.PostFormValue("count")
	count, err := strconv.Atoi(n)
	if id == "" || err != nil {
		return "", &Wrong{Text: "Nothing was changed. Look at what is meant, and send the form."}
	}
	if word := v.WordFor(count); word != "" {
		if err := v.Typed(word); err != nil {
			return "", err
		}
	}
	o, err := Change(v, api.StartOperation, &api.OperationStart{Preview: id, Rate: v.R.PostFormValue("rate")})
	if p := Problem(err); p != nil && p.Status == http.StatusBadRequest {
		return "", &Wrong{Text: p.Detail}
	}
	return Done(Address("operations", o.ID), "started"), err
}

// Tallied are the counts of a preview, the largest first.
func Tallied(of map[string]int) (all []Fact) {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		all = append(all, Fact{Name: Cut(cmp.Or(name, "(none)")), Value: Number(of[name])})
	}
	return all
}

// ByKind are the things that were looked at, by kind.
func (m *Preview) ByKind() []Fact { return Tallied(m.Kinds) }

// ByOwner are the things that were looked at, by owner.
func (m *Preview) ByOwner() []Fact { return Tallied(m.Owners) }
