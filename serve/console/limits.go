package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/queue"
)

// setQueue changes the settings of a queue, of what was seen.
var setQueue = &page.Action{Path: "queues/{queue}/settings", Op: api.SetQueue.ID, Ask: askSettings, Do: doSettings}

func askSettings(v *page.Visit) (*page.Question, error) {
	name := v.R.PathValue("queue")
	q, err := page.Call(v, api.GetQueue, &api.OneQueue{Queue: name})
	if err != nil {
		return nil, err
	}
	is := cmp.Or(q.Settings, &queue.Settings{})
	var groups []page.Group
	var fields []limitField
	for _, g := range limitGroups {
		fields = append(fields, g.fields...)
		groups = append(groups, page.Group{Legend: g.legend, Folded: g.folded, Inputs: limitInputs(v, g.fields, is)})
	}
	return &page.Question{Title: "Settings of the queue " + name, Button: "Set them", Section: "queues", Crumbs: queueCrumbs(name), Back: page.Address("queues", name), ETag: cmp.Or(v.R.PostForm.Get("etag"), q.ETag),
		Groups: groups, Hidden: shownLimits(v, is, fields),
		Texts: []string{"They hold for all instances, at once. What a limit holds back waits, and costs nothing. An empty field is no limit."},
		CLI:   page.Command("queue", "limits", name), Request: "POST " + operation.Prefix + "queues/" + name + "/settings"}, nil
}

func doSettings(v *page.Visit) (string, error) {
	name := v.R.PathValue("queue")
	q, err := page.Call(v, api.GetQueue, &api.OneQueue{Queue: name})
	if err != nil {
		return "", err
	}
	was := cmp.Or(q.Settings, &queue.Settings{})
	to := was.Clone()
	for _, g := range limitGroups {
		if err := readLimits(g.fields, &to, v.R.PostForm); err != nil {
			return "", err
		}
	}
	for tenant, l := range to.Tenants { // of bursts the form has no fields: they stay
		l.Burst = was.Tenants[tenant].Burst
		to.Tenants[tenant] = l
	}
	return setTo(v, name, was, &to, page.Address("queues", name))
}

// limitInputs are fields of settings with what they are, or with what was given for them, where that was wrong. Where
// somebody else was first, what was not typed is as it is now, and what both changed has beside it what it is now.
func limitInputs(v *page.Visit, fields []limitField, is *queue.Settings) (all []page.Input) {
	form, shown := v.R.PostForm, map[string]string{}
	_ = json.Unmarshal([]byte(form.Get("was")), &shown) // without it nothing was shown
	for _, f := range fields {
		i := f.Input
		i.Optional, i.Auto, i.Value = true, "off", f.show(is)
		if form != nil {
			now, typed := i.Value, strings.TrimSpace(strings.ReplaceAll(form.Get(i.Name), "\r\n", "\n"))
			was := shown[i.Name]
			switch {
			case !v.Overtaken():
				i.Value = form.Get(i.Name)
			case typed == was: // nobody typed it
			case typed != now && now != was:
				i.Value, i.Now = typed, cmp.Or(now, "nothing")
			default:
				i.Value = typed
			}
		}
		all = append(all, i)
	}
	return all
}

// shownLimits is what a form of settings shows: it is sent along, so that what was typed can be told from the rest.
func shownLimits(v *page.Visit, is *queue.Settings, fields []limitField) []page.Fact {
	if was := v.R.PostForm.Get("was"); was != "" && !v.Overtaken() {
		return []page.Fact{{Name: "was", Value: was}}
	}
	shown := map[string]string{}
	for _, f := range fields {
		if s := f.show(is); s != "" {
			shown[f.Name] = s
		}
	}
	text, _ := json.Marshal(shown) // of texts
	return []page.Fact{{Name: "was", Value: string(text)}}
}

// readLimits reads fields of a form into settings. What the form does not have stays.
func readLimits(fields []limitField, to *queue.Settings, form url.Values) error {
	for _, f := range fields {
		given, is := form[f.Name]
		if !is {
			continue
		}
		if err := f.read(to, strings.TrimSpace(given[0])); err != nil {
			return &page.Wrong{Text: sentence(err)}
		}
	}
	return nil
}

// setTo changes settings of what was seen, and goes on to a page.
func setTo(v *page.Visit, name string, was, to *queue.Settings, next string) (string, error) {
	patch, err := patchTo(was, to)
	if err != nil {
		return "", err
	}
	_, err = page.Change(v, api.SetQueue, &api.QueueChange{OneQueue: api.OneQueue{Queue: name}, Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}, Body: patch})
	return page.Done(next, "settings"), page.Overtaken(v, err)
}

// setting is a change of settings that are still in force.
type setting struct {
	api.Change
	Key string // of the form that goes back
}

// lastSetting is the newest change of a queue's settings, where they are still as it left them; nil:
// they are others, or it is not known what they were.
func lastSetting(v *page.Visit, changes *page.Part[[]api.Change], q *api.Queue) *setting {
	if changes == nil || q.Settings == nil {
		return nil
	}
	for _, c := range changes.Has {
		switch {
		case c.Before == nil || c.After == nil: // refused, or of something else by the name
		case c.After.Version() != q.ETag || c.Before.Version() == q.ETag:
			return nil
		default:
			return &setting{c, v.Key()}
		}
	}
	return nil
}

// setBack takes back the newest change of a queue's settings, while they are still as it left them.
var setBack = &page.Action{Path: "queues/{queue}/settings/back", Op: api.SetQueue.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name := v.R.PathValue("queue")
		q, last, err := settingOf(v, name)
		if err != nil {
			return nil, err
		}
		ask := &page.Question{Title: "Set back the settings of the queue " + name + "?", Button: "Set back", Section: "queues", Crumbs: queueCrumbs(name), Back: page.Address("queues", name), ETag: q.ETag}
		if last == nil {
			ask.Nothing = "There are no former settings to go back to: nobody has changed those that are in force, or they were changed in another way since."
			return ask, nil
		}
		ask.Texts = []string{fmt.Sprintf("They will be those of before %s changed them, at %s.", last.Who, last.At.In(v.Zone).Format(time.RFC1123))}
		ask.CLI, ask.Request = page.Command("queue", "limits", name), "POST "+operation.Prefix+"queues/"+name+"/settings"
		return ask, nil
	},
	Do: func(v *page.Visit) (string, error) {
		name := v.R.PathValue("queue")
		q, last, err := settingOf(v, name)
		if err != nil {
			return "", err
		}
		if last == nil || q.ETag != v.R.PostFormValue("etag") {
			return "", &page.Wrong{Text: "Nothing was set back: the settings were changed since the page was made."}
		}
		return setTo(v, name, q.Settings, last.Before, page.Address("queues", name))
	}}

func settingOf(v *page.Visit, name string) (q api.Queue, last *setting, err error) {
	if q, err = page.Call(v, api.GetQueue, &api.OneQueue{Queue: name}); err == nil {
		last = lastSetting(v, page.LastChanges(v, name), &q)
	}
	return q, last, err
}

// sentence is an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// patchTo is the merge patch that makes one of the other.
func patchTo(was, to *queue.Settings) ([]byte, error) {
	from, err := fieldsOf(was)
	if err != nil {
		return nil, err
	}
	into, err := fieldsOf(to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(patchOf(from, into))
}

func fieldsOf(value *queue.Settings) (fields map[string]any, err error) {
	b, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	return fields, err
}

func patchOf(was, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range to {
		before, both := was[name].(map[string]any)
		after, is := value.(map[string]any)
		if both && is {
			if below := patchOf(before, after); len(below) > 0 {
				patch[name] = below
			}
		} else if fmt.Sprint(was[name]) != fmt.Sprint(value) {
			patch[name] = value
		}
	}
	for name := range was {
		if _, there := to[name]; !there {
			patch[name] = nil
		}
	}
	return patch
}
