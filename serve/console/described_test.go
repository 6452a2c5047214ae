package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/instance"
)

// catalogue is what is described, all of whose fields have a text.
type catalogue struct {
	said string
	more int // partners
	last *admin.DescriptionChange
	err  error
}

func (c *catalogue) all() (all []api.Description, err error) {
	given, err := json.Marshal(map[string]any{"endpoint": "https://ads.test/" + c.said, "when": "true" + c.said, "headers": map[string]string{"X" + c.said: "v" + c.said, "Y": "[secret]"}, "sites": []string{"shop" + c.said},
		"mapping": []map[string]string{{"field": "f" + c.said, "value": "v" + c.said}}, "timeout": "5s" + c.said})
	if err != nil {
		return nil, err
	}
	at := time.Now()
	all = append(all, api.Description{Kind: "partner", Name: "fixed" + c.said, From: "tidemill.yaml:3" + c.said, Is: given, Given: given},
		api.Description{Kind: "partner", Name: "ads" + c.said, From: "the database", ETag: "7", Changed: &at, By: "eve" + c.said, Is: []byte(`{"more":"` + strings.ReplaceAll(c.said, `"`, ``) + `"}`), Given: given})
	for n := range c.more {
		all = append(all, api.Description{Kind: "partner", Name: fmt.Sprint("partner-", n), From: "the database", ETag: "8", Changed: &at, By: "eve", Is: given, Given: given})
	}
	return all, nil
}

func (c *catalogue) change(_ context.Context, q *admin.DescriptionChange) (*admin.DescriptionDone, error) {
	c.last = q
	all, err := c.all()
	if c.err != nil || err != nil {
		return nil, c.err
	}
	return &admin.DescriptionDone{System: "delivery", Changes: []api.SettingChange{{Setting: "partners[" + c.said, What: "changed", Before: "b" + c.said, After: "a" + c.said}}, Before: &all[1], After: &all[1]}, nil
}

func newDescribed(t *testing.T, said, base string) (*world, *catalogue) {
	all := &catalogue{said: said}
	w := newWorld(t, func(_ *world, a *admin.Parts, c *console.Parts) {
		a.Described, a.Describe = all.all, all.change
		a.This.Described = func() instance.Described {
			return instance.Described{Applied: 6, Tried: 7, Refused: "it has no token" + said}
		}
		c.Base = base
		c.Systems = []console.System{{Runs: true, Pages: &page.Set{Name: "shop", Described: map[string]page.Described{"partner": {At: func(name string) string { return page.Address("queues", name) }, Removal: func(*page.Visit, string) []string { return []string{"3 jobs wait" + said} }}}}}}
	})
	return w, all
}

func describedPages(said string) []string {
	ads, fixed := "/console/descriptions/partner/"+strings.TrimPrefix(page.Address("ads"+said), page.Prefix), "/console/descriptions/partner/"+strings.TrimPrefix(page.Address("fixed"+said), page.Prefix)
	return []string{"/console/descriptions", "/console/descriptions?kind=partner", ads, ads + "/change", ads + "/remove", fixed, fixed + "/change", fixed + "/remove", "/console/descriptions/add/partner"}
}

func TestWhatHoldsOfDescriptions(t *testing.T) {
	forms := []string{"/console/descriptions/partner/ads/change", "/console/descriptions/partner/ads/remove", "/console/descriptions/add/partner"}
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			w, _ := newDescribed(t, said, base)
			return w.Browser
		},
		Pages: describedPages, Seen: 8, Forms: forms, Viewers: forms,
	})
}

func TestAListOfDescriptionsIsSmall(t *testing.T) {
	w, all := newDescribed(t, "", "")
	all.more = 50
	for _, path := range []string{"/console/descriptions", "/console/descriptions/add/partner", "/console/descriptions/partner/ads/change"} {
		if n := consoletest.Zipped([]byte(w.Page(path))); n > consoletest.MostOfAList {
			t.Errorf("%s has %d bytes zipped", path, n)
		}
	}
}

// What a change that is refused says is text, and what was typed stays, whatever it is.
func TestAFormThatIsRefusedKeepsWhatWasTyped(t *testing.T) {
	w, all := newDescribed(t, consoletest.Hostile, "")
	at := describedPages(consoletest.Hostile)[3]
	p := operation.Refuse(http.StatusUnprocessableEntity, "no%s", consoletest.Hostile)
	p.Errors = []operation.Mistake{{Pointer: "/timeout", Detail: "timeout" + consoletest.Hostile}, {Detail: "whole" + consoletest.Hostile}, {Pointer: "/nothing", Detail: "other"}}
	all.err = p
	typed := url.Values{"set.timeout": {"typed" + consoletest.Hostile}, "set.mapping": {"- {field: a}"}, "was": {"{}"}, "etag": {"7"}, "key": {"k"}}
	rec := w.Ask(http.MethodPost, at, typed)
	if rec.Code != http.StatusUnprocessableEntity || strings.Contains(rec.Body.String(), "<script>alert") || strings.Contains(rec.Body.String(), "<img") {
		t.Fatalf("answered %d: %s", rec.Code, rec.Body)
	}
	w.Has(rec.Body.String(), "timeout"+consoletest.Hostile, "whole"+consoletest.Hostile, "other", "- {field: a}")
	if !strings.Contains(rec.Body.String(), `value="typed`) || strings.Contains(rec.Body.String(), `name="key" value="k"`) {
		t.Error("what was typed is lost, or what is sent next has the key of what was refused")
	}
	if got := string(all.last.Patch); !strings.Contains(got, `"mapping":[{"field":"a"}]`) || all.last.IfMatch != "7" || all.last.Add {
		t.Errorf("it was asked for %s of %q", got, all.last.IfMatch)
	}
	all.err = operation.Refuse(http.StatusPreconditionFailed, "somebody was first")
	rec = w.Ask(http.MethodPost, at, typed)
	w.Has(rec.Body.String(), "has changed it while you filled in this form", "It was changed meanwhile. It is now: 5s")
	all.err, typed["check"] = nil, []string{"true"}
	rec = w.Ask(http.MethodPost, at, typed)
	w.Has(rec.Body.String(), "Nothing is wrong with it. It would change: changed partners["+consoletest.Hostile)
	if rec.Code != http.StatusOK || !all.last.Check || strings.Contains(rec.Body.String(), "<script>alert") {
		t.Errorf("a check is answered %d", rec.Code)
	}
}

func TestAnInstanceThatRefusesSaysWhy(t *testing.T) {
	w, _ := newDescribed(t, "", "")
	w.Has(w.Page("/console/descriptions/partner/ads"), "In force in", "refused", "it has no token", "https://ads.test/", "Y: [secret]", "How it stands")
	w.Has(w.Page("/console/descriptions/partner/ads/remove"), "3 jobs wait", "changed by eve")
}
