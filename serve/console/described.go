package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// descriptionsSection is the place of descriptions in the navigation.
const descriptionsSection = "descriptions"

var descriptionCrumbs = []page.Link{{Text: "Descriptions", Href: page.Address("descriptions")}}

// descriptionKinds are what can be described, in the order in which one needs the other.
var descriptionKinds = []string{"site", "partner", "handler"}

// descriptionsPage is a list of what is described.
type descriptionsPage struct {
	All    page.Part[[]api.Description]
	Kinds  []string // that something is shown of
	Kind   string   // that is shown alone; empty: all
	Active []page.Link
	Stands []descriptionStand
}

// Of are those of a kind.
func (p *descriptionsPage) Of(kind string) (all []api.Description) {
	for _, d := range p.All.Has {
		if d.Kind == kind {
			all = append(all, d)
		}
	}
	return all
}

func showDescriptions(v *page.Visit) (*page.View, error) {
	var q api.DescriptionsOf
	if err := v.Filter(api.ListDescriptions.Description, &q); err != nil {
		return nil, err
	}
	p := &descriptionsPage{All: page.Listed(v, api.ListDescriptions, &q), Kind: q.Kind, Active: v.Active("kind"), Stands: descriptionStands(v, 0)}
	for _, kind := range descriptionKinds {
		if _, here := v.Described(kind); here && (q.Kind == "" || q.Kind == kind) {
			p.Kinds = append(p.Kinds, kind)
		}
	}
	return &page.View{File: "descriptions", Title: "Descriptions", Section: descriptionsSection, Live: true, Body: p}, nil
}

// descriptionStand is how an instance stands to a change.
type descriptionStand struct {
	Name, ID, State, Why string
	This                 bool
}

// descriptionStands are the instances that are there, and whether they have a version of the
// descriptions in force; 0: the newest that any has.
func descriptionStands(v *page.Visit, version uint64) (all []descriptionStand) {
	is, err := page.Call(v, api.GetInstances, &operation.None{})
	if err != nil {
		return nil // the page of instances says why
	}
	if version == 0 {
		for _, i := range is.Instances {
			version = max(version, i.Described)
		}
	}
	for _, i := range is.Instances {
		s := descriptionStand{Name: cmp.Or(i.Host, i.ID), ID: i.ID, State: "waiting", This: i.ID == is.This}
		switch {
		case i.State != "there":
			continue
		case i.Described >= version:
			s.State = "applied"
		case i.Refused != "":
			s.State, s.Why = "refused", i.Refused
		}
		all = append(all, s)
	}
	return all
}

// descriptionPage is one description.
type descriptionPage struct {
	api.Description
	Database bool // it is described in the database, and can be changed
	Settings []page.Fact
	InForce  *page.Payload // with what a preset adds; nil: it is the same
	At       string        // the page of what is described
	Stands   []descriptionStand
	Changes  *page.Part[[]api.Change]
}

func oneDescription(v *page.Visit) api.OneDescription {
	return api.OneDescription{Kind: v.R.PathValue("kind"), Name: v.R.PathValue("name")}
}

func descriptionAt(kind, name string, more ...string) string {
	return page.Address(append([]string{"descriptions", kind, name}, more...)...)
}

func showDescription(v *page.Visit) (*page.View, error) {
	q := oneDescription(v)
	d, err := page.Call(v, api.GetDescription, &q)
	if err != nil {
		return nil, err
	}
	settings, _, err := page.Gather(v, api.ListDescriptionSettings, &api.KindOfDescription{Kind: q.Kind}, mostSettings)
	if err != nil {
		return nil, err
	}
	p := &descriptionPage{Description: d, Database: d.ETag != "", Changes: page.LastChanges(v, q.Kind+"/"+q.Name)}
	for _, s := range settings {
		if value := settingText(&s, d.Given); value != "" {
			p.Settings = append(p.Settings, page.Fact{Name: s.Name, Value: value, Help: s.Help})
		}
	}
	if string(d.Is) != string(d.Given) {
		p.InForce = page.NewPayload(string(d.Is), "", "")
	}
	of, _ := v.Described(q.Kind)
	if of.At != nil {
		p.At = of.At(q.Name)
	}
	if p.Database {
		version, _ := strconv.ParseUint(d.ETag, 10, 64) // of another form: the newest
		p.Stands = descriptionStands(v, version)
	}
	return &page.View{File: "description", Title: titled(q.Kind) + " " + page.Cut(q.Name), Section: descriptionsSection, Live: true, Crumbs: descriptionCrumbs, Body: p}, nil
}

// titled is a word at the beginning of a sentence.
func titled(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// removeDescription asks, and says what waits for what is removed.
var removeDescription = &page.Action{Path: "descriptions/{kind}/{name}/remove", Op: api.RemoveDescription.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := oneDescription(v)
		d, err := page.Call(v, api.GetDescription, &q)
		if err != nil {
			return nil, err
		}
		ask := descriptionQuestion(v, &q, "Remove the "+q.Kind+" "+q.Name+"?", "Remove the "+q.Kind, "remove")
		ask.Request, ask.Careful, ask.ETag = page.Request(api.RemoveDescription, &api.DescriptionRemoval{OneDescription: q}), true, cmp.Or(v.R.PostFormValue("etag"), d.ETag)
		if v.R.PostFormValue("etag") != "" { // somebody else was first: it is asked for what is there now
			ask.ETag = d.ETag
		}
		if d.ETag == "" {
			ask.Nothing = readOnly(&d)
			return ask, nil
		}
		ask.Texts = []string{"It is removed in all instances. The audit trail keeps what it was."}
		if of, _ := v.Described(q.Kind); of.Removal != nil {
			ask.Texts = append(ask.Texts, of.Removal(v, q.Name)...)
		}
		ask.Sample = []page.Link{{Text: q.Kind + " " + q.Name + ", changed by " + page.Cut(d.By), Href: descriptionAt(q.Kind, q.Name)}}
		return ask, nil
	},
	Do: func(v *page.Visit) (string, error) {
		q := oneDescription(v)
		done, err := page.Change(v, api.RemoveDescription, &api.DescriptionRemoval{OneDescription: q, Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}})
		if p := page.Problem(err); p != nil && p.Status == preconditionFailed {
			return "", &page.Wrong{Text: "Nothing was removed: somebody else has changed it since you looked. What is there now is removed if you ask for it once more."}
		}
		return page.Done(page.Query(page.Address("descriptions"), map[string][]string{"kind": {q.Kind}}), spreadWords(&done, "removed")), page.Refilled(err)
	}}

// readOnly says why what stands in a file cannot be changed here.
func readOnly(d *api.Description) string {
	return "It is described in the file of this instance, " + d.From + ", and is read-only here: change it there, and reload (tidemill reload)."
}

// descriptionQuestion is the page of a change.
func descriptionQuestion(v *page.Visit, q *api.OneDescription, title, button, verb string) *page.Question {
	ask := &page.Question{Title: title, Button: button, Section: descriptionsSection, Crumbs: descriptionCrumbs}
	ask.Back = v.Back(page.Query(page.Address("descriptions"), map[string][]string{"kind": {q.Kind}}))
	if q.Name != "" {
		ask.Crumbs = append(slices.Clone(descriptionCrumbs), page.Link{Text: q.Kind + " " + q.Name, Href: descriptionAt(q.Kind, q.Name)})
		ask.Back = v.Back(descriptionAt(q.Kind, q.Name))
	}
	ask.CLI = page.Command(q.Kind, verb, cmp.Or(q.Name, "NAME"))
	if verb != "remove" {
		ask.CLI += " FILE.yaml"
	}
	return ask
}

// spreadWords is what was done, by whether all instances have it in force.
func spreadWords(d *api.DescriptionChanged, what string) string {
	if slices.ContainsFunc(d.Instances, func(i api.DescriptionSpread) bool { return i.State != "applied" }) {
		return "description." + what + ".some"
	}
	return "description." + what
}

// raw is the value of a setting in a description.
func raw(description json.RawMessage, path string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(description, &members) != nil {
		return nil // it has no members
	}
	name, rest, below := strings.Cut(path, ".")
	if below {
		return raw(members[name], rest)
	}
	return members[name]
}
