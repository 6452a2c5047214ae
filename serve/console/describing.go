package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

const (
	mostSettings       = 500 // of a kind
	preconditionFailed = http.StatusPreconditionFailed
	fieldOf            = "set." // before the names of settings, in a form
)

var (
	addDescription    = describe("descriptions/add/{kind}", api.AddDescription.ID)
	changeDescription = describe("descriptions/{kind}/{name}/change", api.ChangeDescription.ID)
)

// describe is an action whose form has the settings of a description. What is wrong stands at its field,
// and what was filled in stays.
func describe(path, op string) *page.Action {
	a := &page.Action{Path: path, Op: op}
	a.Ask = func(v *page.Visit) (*page.Question, error) {
		d, err := newDescribing(v)
		if err != nil {
			return nil, err
		}
		return d.question(v), nil
	}
	a.Do = func(v *page.Visit) (string, error) {
		d, err := newDescribing(v)
		if err != nil {
			return "", err
		}
		check := v.R.PostFormValue("check") != ""
		done, err := d.send(v, check)
		if p := page.Problem(err); p != nil && p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden {
			d.problem = p
			v.R.PostForm.Del("key") // nothing was done: what is sent next is another request
			a.Answer(v, http.StatusUnprocessableEntity, d.question(v))
			return "", nil
		}
		if err == nil && check {
			d.checked = &page.Checked{Would: done.Changes}
			a.Answer(v, http.StatusOK, d.question(v))
			return "", nil
		}
		what := "changed"
		if d.adds() {
			what = "added"
		}
		return page.Done(descriptionAt(d.Kind, d.name(v)), spreadWords(&done, what)), err
	}
	return a
}

// describing is a form of the settings of a description.
type describing struct {
	api.OneDescription
	settings []api.DescriptionSetting
	now      api.Description // as it is; of one that is made: nothing
	was      json.RawMessage // as it was when the form was made
	etag     string          // of that
	filled   bool            // the form was
	problem  *operation.Problem
	checked  *page.Checked
}

func newDescribing(v *page.Visit) (*describing, error) {
	d := &describing{OneDescription: oneDescription(v), filled: v.R.PostForm != nil}
	var err error
	if d.settings, _, err = page.Gather(v, api.ListDescriptionSettings, &api.KindOfDescription{Kind: d.Kind}, mostSettings); err != nil || d.adds() {
		return d, err
	}
	d.now, err = page.Call(v, api.GetDescription, &d.OneDescription)
	d.was, d.etag = d.now.Given, d.now.ETag
	if d.filled {
		if p := page.Problem(err); p != nil && p.Status == http.StatusNotFound { // it was removed meanwhile: what was typed is not lost
			err = nil
		}
		d.was, d.etag = json.RawMessage(v.R.PostFormValue("was")), v.R.PostFormValue("etag")
	}
	return d, err
}

// adds says whether the form makes one.
func (d *describing) adds() bool { return d.Name == "" }

// name is its name, which is a field where one is made.
func (d *describing) name(v *page.Visit) string {
	return cmp.Or(d.Name, strings.TrimSpace(v.R.PostFormValue("name")))
}

// typed is what a field was filled with.
func (d *describing) typed(v *page.Visit, s *api.DescriptionSetting) string {
	return strings.TrimSpace(strings.ReplaceAll(v.R.PostFormValue(fieldOf+s.Name), "\r\n", "\n"))
}

// send has what was filled in checked, or kept: what is another than it was when the form was made.
func (d *describing) send(v *page.Visit, check bool) (api.DescriptionChanged, error) {
	patch := map[string]any{}
	var wrong []operation.Mistake
	for _, s := range d.settings {
		value, is, err := changedSetting(&s, d.was, d.typed(v, &s))
		if err != nil {
			wrong = append(wrong, operation.MistakeAt(s.Name, err.Error()))
		} else if is {
			put(patch, s.Name, value)
		}
	}
	if wrong != nil {
		p := operation.Refuse(http.StatusBadRequest, "nothing was changed")
		p.Errors = wrong
		return api.DescriptionChanged{}, p
	}
	d.withHashes(v, patch)
	d.withoutGroups(v, patch)
	body, err := json.Marshal(patch)
	if err != nil {
		return api.DescriptionChanged{}, err
	}
	one, checking := api.OneDescription{Kind: d.Kind, Name: d.name(v)}, api.Checking{Check: check}
	if d.adds() {
		q := &api.DescriptionText{OneDescription: one, Checking: checking, Body: body}
		if check {
			return page.Call(v, api.AddDescription, q)
		}
		return page.Change(v, api.AddDescription, q)
	}
	q := &api.DescriptionPatch{OneDescription: one, Checking: checking, Seen: api.Seen{IfMatch: d.etag}, Body: body}
	if check {
		return page.Call(v, api.ChangeDescription, q)
	}
	return page.Change(v, api.ChangeDescription, q)
}

// withHashes keeps the keys that there are beside those that are added: of both the hashes are one
// setting, which a patch replaces.
func (d *describing) withHashes(v *page.Visit, patch map[string]any) {
	for _, s := range d.settings {
		if hashes := d.setting(config.HashesOf(s.Name)); s.Secret && hashes != nil && patch[s.Name] != nil {
			if all := lines(d.typed(v, hashes)); len(all) > 0 {
				patch[hashes.Name] = all
			}
		}
	}
}

// withoutGroups takes a group away whose settings are all taken away.
func (d *describing) withoutGroups(v *page.Visit, patch map[string]any) {
	for group := range patch {
		empty := raw(d.was, group) != nil
		for _, s := range d.settings {
			if strings.HasPrefix(s.Name, group+".") {
				empty = empty && d.typed(v, &s) == "" && !hides(&s, d.was)
			}
		}
		if _, is := patch[group].(map[string]any); is && empty && d.setting(group) == nil {
			patch[group] = nil
		}
	}
}

// setting is the setting of a name; nil: there is none.
func (d *describing) setting(name string) *api.DescriptionSetting {
	if i := slices.IndexFunc(d.settings, func(s api.DescriptionSetting) bool { return s.Name == name }); i >= 0 {
		return &d.settings[i]
	}
	return nil
}

// question is the page of the form.
func (d *describing) question(v *page.Visit) *page.Question {
	title, button, verb := "Add a "+d.Kind, "Add the "+d.Kind, "add"
	if !d.adds() {
		title, button, verb = "Change the "+d.Kind+" "+d.Name, "Change the "+d.Kind, "change"
	}
	q := descriptionQuestion(v, &d.OneDescription, title, button, verb)
	q.Request = "POST " + operation.Prefix + "descriptions/" + d.Kind + "/" + cmp.Or(d.Name, "NAME") + "/" + verb
	if !d.adds() && d.now.ETag == "" && d.now.From != "" {
		q.Nothing = readOnly(&d.now)
		return q
	}
	q.Check, q.Checked = "Check it", d.checked
	q.Texts = []string{"It is kept in the database that instances share, and is in force in all of them, if they can, when the next page is there. What a setting is left empty for is as by default.",
		"Secrets have no place in it: name the variables that have them, which each instance needs. Headers and addresses are kept, and not shown again where they may have one."}
	conflict := d.problem != nil && d.problem.Status == preconditionFailed && d.now.ETag != ""
	if d.adds() {
		q.Inputs = []page.Input{{Name: "name", Label: "name", Value: v.R.PostFormValue("name"), Auto: "off", Help: "It cannot be changed later."}}
	}
	q.Groups = d.groups(v, conflict)
	if d.problem != nil {
		q.Spent = page.Spent(d.problem)
		d.wrong(q)
	}
	if conflict {
		d.was, d.etag = d.now.Given, d.now.ETag
		q.Wrong = "Nothing was changed: " + page.Cut(d.now.By) + " has changed it while you filled in this form. What you changed is kept in the form, and the rest is as it is now. Send it again, and it is a change of that."
	}
	if !d.adds() {
		q.ETag, q.Hidden = d.etag, []page.Fact{{Name: "was", Value: string(d.was)}}
	}
	return q
}

// wrong says what is wrong: of each mistake that no field has, and where the others are.
func (d *describing) wrong(q *page.Question) {
	q.Wrong = titled(d.problem.Detail)
	if len(d.problem.Errors) == 0 {
		return
	}
	q.Wrong = "Nothing was changed:"
	for _, m := range d.problem.Errors {
		where := page.Link{Text: m.Detail}
		if name := m.Setting(); d.setting(name) != nil {
			where.Href = "#in-" + fieldOf + name
			if !strings.HasPrefix(m.Detail, name) {
				where.Text = name + ": " + m.Detail
			}
		}
		q.Where = append(q.Where, where)
	}
}

// groups are the fields: those that most descriptions have, the other ones, and those of each group of
// settings.
func (d *describing) groups(v *page.Visit, conflict bool) []page.Group {
	all := []page.Group{{Legend: "Settings"}, {Legend: "More settings", Folded: true}}
	at := map[string]int{}
	for _, s := range d.settings {
		n := 0
		if group, _, in := strings.Cut(s.Name, "."); !s.Main && in {
			if at[group] == 0 {
				all, at[group] = append(all, page.Group{Legend: "Settings of " + group, Folded: true}), len(all)
			}
			n = at[group]
		} else if !s.Main {
			n = 1
		}
		all[n].Inputs = append(all[n].Inputs, d.input(v, &s, conflict))
	}
	return slices.DeleteFunc(all, func(g page.Group) bool { return g.Inputs == nil })
}

// input is the field of a setting.
func (d *describing) input(v *page.Visit, s *api.DescriptionSetting, conflict bool) page.Input {
	i := page.Input{Name: fieldOf + s.Name, Label: s.Name, Auto: "off", Optional: true, Lines: linesOf[s.Kind], Help: helpOf(s)}
	switch s.Kind {
	case config.KindTruth:
		i.Choices = []string{"", "true", "false"}
	case config.KindWhole:
		i.Mode = "numeric"
	case config.KindNumber:
		i.Mode = "decimal"
	}
	i.Value, i.Set = fieldText(s, d.was), hides(s, d.was)
	if d.filled {
		before, typed := i.Value, d.typed(v, s)
		i.Value = typed
		if conflict && typed == before {
			i.Value = fieldText(s, d.now.Given)
		} else if now := settingText(s, d.now.Given); conflict && now != settingText(s, d.was) {
			i.Now = cmp.Or(now, "nothing")
		}
	}
	if d.problem != nil {
		for _, m := range d.problem.Errors {
			if m.Setting() == s.Name {
				i.Error = m.Detail
			}
		}
	}
	return i
}

// linesOf is how many lines a field has of the kinds that have some.
var linesOf = map[string]int{config.KindList: 2, config.KindNames: 3, config.KindGroups: 5}

// helpOf is what a setting is, and what it is written like.
func helpOf(s *api.DescriptionSetting) string {
	form := map[string]string{
		config.KindList:     "One on each line.",
		config.KindNames:    "NAME: VALUE, one on each line. A value that is shown as " + urlsecret.Hidden + " is set: leave it so to keep it.",
		config.KindGroups:   "In YAML, as in the file: " + s.Form + ".",
		config.KindDuration: "A duration such as 10s, 24h or 7d.",
		config.KindWhole:    "A whole number.",
		config.KindNumber:   "A number.",
	}[s.Kind]
	if s.Secret {
		form = "One on each line, added to those that there are. They are not shown: their SHA-256 is kept."
	}
	if s.Help == "" || form == "" {
		return s.Help + form
	}
	return s.Help + ". " + form
}
