package admin_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
)

// reading are requests that read whatever there is.
var reading = []string{"status", "audit", "overview", "history", "instances", "config", "doctor", "projects", "openapi.json", "openapi.yaml", "me", "me/sessions", "changes?max=50", "live",
	"dead", "dead?max=1000", "dead?limit=50&count=bounded", "dead?format=export", "dead?order=newest&limit=3&count=bounded", "dead/groups", "dead/same", "dead/1", "dead/5", "dead/70", "queues", "owners", "owners/none",
	"operations", "operations?limit=50", "operations?state=active&limit=1&order=newest", "find?q=same", "find?q=1", "find?q=5", "find?q=70", "find?q=nothing", "find/scan?q=a", "find/scan?q=payload", "audit-trail"}

// naming are requests for what is called so.
func naming(of thing, op *bulk.Operation) []string {
	q, e := url.PathEscape(of.queue), url.QueryEscape(of.queue)
	word := url.QueryEscape(of.word)
	all := []string{"queues/" + q, "queues/" + q + "/jobs", "queues/" + q + "/job?id=same", "dead?max=99&pipeline=" + e, "dead?limit=5&count=bounded&pipeline=" + e, "dead/" + url.PathEscape(of.word+"-1"), "dead/" + url.PathEscape(of.word+"-1") + "?pipeline=" + e,
		"history/queue:" + q, "history/pipeline:" + q, "operations/" + op.ID, "stream?topic=queue:" + e, "stream?topic=pipeline:" + e, "find/scan?q=x&queue=" + e}
	if of.system != "" {
		all = append(all, "audit?system="+of.system, "dead?max=99&system="+of.system, "find?q=same&system="+of.system, "explain?id=same&system="+of.system, "live?system="+of.system, "stream?topic=live:system%3D"+of.system)
	}
	if of.system == delivery.Name {
		all = append(all, "dead?max=99&partner="+word, "history/partner:"+url.PathEscape(of.word), "stream?topic=partner:"+word)
	}
	return all
}

// operationOf is the operation that was started on a thing.
func (d *grantDesk) operationOf(of thing) *bulk.Operation {
	all, err := d.ops.List(d.Context(), bulk.Filter{})
	i := slices.IndexFunc(all, func(o *bulk.Operation) bool { return o.Systems == of.system && strings.Contains(o.Scope, of.queue) })
	if err != nil || i < 0 {
		d.Fatal(err, i)
	}
	return all[i]
}

func TestAGrantForASystemShowsNothingOfAnother(t *testing.T) {
	granting(t, func(d *grantDesk) {
		d.as("admin", http.MethodGet, "live")
		for _, grant := range []string{"viewer:crm", "operator:crm", "viewer:delivery", "operator:delivery"} {
			d.as(grant, http.MethodGet, "live")
		}
		for _, of := range things {
			ended(d.fates, of.system, of.word, tidemill.Dead, time.Second)
		}
		time.Sleep(time.Minute / 4)
		figures := d.api.Sample()
		if err := figures.Do(d.Context()); err != nil {
			d.Fatal(err)
		}
		time.Sleep(time.Second)
		whole := ""
		for _, path := range reading {
			whole += d.as("admin", http.MethodGet, path).Body.String()
		}
		for _, of := range things {
			if !of.tells(whole) {
				d.Errorf("an admin is shown nothing of %q", of.system)
			}
		}
		for _, own := range things[:2] {
			for _, role := range []string{"viewer", "operator"} {
				d.showsOnly(role+":"+own.system, own)
			}
		}
	})
}

// showsOnly wants a grant to show what is of a system, and nothing of the others.
func (d *grantDesk) showsOnly(grant string, own thing) {
	d.Helper()
	seen := 0
	for _, path := range reading {
		w := d.as(grant, http.MethodGet, path)
		text := w.Body.String()
		for _, other := range things {
			if other.system != own.system && !strings.HasPrefix(path, "openapi.") && other.tells(text) {
				d.Errorf("%s is shown things of %q by %s: %d %s", grant, other.system, path, w.Code, text)
			}
		}
		if own.tells(text) {
			seen++
		}
	}
	if seen < 12 {
		d.Errorf("%s is shown something of its own by %d requests", grant, seen)
	}
	for _, of := range things {
		for _, path := range naming(of, d.operationOf(of)) {
			if strings.HasPrefix(path, "stream") && of.system == own.system {
				continue // it goes on
			}
			w := d.as(grant, http.MethodGet, path)
			switch refused := w.Code == http.StatusNotFound || w.Code == http.StatusForbidden; {
			case of.system != own.system && !refused:
				d.Errorf("%s is answered %d for %s of %q: %s", grant, w.Code, path, of.system, w.Body)
			case of.system == own.system && refused && !(strings.HasPrefix(grant, "viewer") && strings.Contains(path, "scan")) && !strings.HasPrefix(path, "history") && !strings.Contains(path, "pipeline:"):
				d.Errorf("%s is answered %d for %s of its own: %s", grant, w.Code, path, w.Body)
			}
			for _, other := range things {
				if other.system != own.system && other.system != of.system && other.tells(w.Body.String()) {
					d.Errorf("%s asks for %s and is told of %q: %s", grant, path, other.system, w.Body)
				}
			}
		}
	}
}

func TestAGrantForASystemChangesNothingOfAnother(t *testing.T) {
	granting(t, func(d *grantDesk) {
		counts := func() (n []int) {
			for _, of := range things {
				held, err := d.letters.Count(d.Context(), deadletter.Filter{Pipeline: of.queue, State: deadletter.Held})
				st, err2 := d.queues.Stats(d.Context(), of.queue)
				if err != nil || err2 != nil {
					d.Fatal(err, err2)
				}
				n = append(n, held, int(st.Waiting))
			}
			return n
		}
		before := counts()
		for _, of := range things[1:] {
			q, e, word := url.PathEscape(of.queue), url.QueryEscape(of.queue), url.PathEscape(of.word+"-1")
			for _, path := range []string{"queues/" + q + "/pause", "queues/" + q + "/resume", "queues/" + q + "/drain", "queues/" + q + "/settings", "queues/" + q + "/job/payload?id=same", "queues/" + q + "/remove?all=true", "queues/" + q + "/clean?state=all",
				"queues/" + q + "/retry?all=true", "queues/" + q + "/promote?all=true", "dead/replay?pipeline=" + e, "dead/delete?pipeline=" + e, "dead/" + word + "/payload", "operations/preview?what=dead.delete&pipeline=" + e,
				"operations?what=dead.delete&expect_at_most=1000&pipeline=" + e, "operations?what=jobs.remove&all=true&expect_at_most=1000&queue=" + e, "operations/" + d.operationOf(of).ID + "/stop"} {
				if w := d.as("operator:crm", methodOf(path), path); w.Code != http.StatusNotFound {
					d.Errorf("%s is answered %d: %s", path, w.Code, w.Body)
				}
				w := d.as("viewer operator:crm", methodOf(path), path) // who may look at it is told what is missing
				if refused(d.T, w, http.StatusForbidden, "has the role viewer operator:crm"); w.Code != http.StatusForbidden {
					d.Errorf("%s of one who may look is answered %d", path, w.Code)
				}
			}
		}
		if after := counts(); !slices.Equal(after, before) {
			d.Errorf("there were %v, and are %v", before, after)
		}
		var p api.OperationPreview
		d.into(d.good(d.as("operator:crm", http.MethodPost, "operations/preview?what=dead.delete&all=true")), &p)
		if p.Count != things[0].dead || !slices.Equal(p.Systems, []string{crm.Name}) {
			d.Errorf("it would delete %+v", p)
		}
		if w := d.as("operator:delivery", http.MethodPost, "operations?preview="+p.ID); w.Code != http.StatusNotFound {
			d.Errorf("somebody else starts it: %d %s", w.Code, w.Body)
		}
		if w := d.as("viewer:crm operator:delivery", http.MethodPost, "operations?preview="+p.ID); w.Code != http.StatusForbidden {
			d.Errorf("a viewer starts it: %d %s", w.Code, w.Body)
		}
		d.good(d.as("operator:crm", http.MethodPost, "operations?preview="+p.ID))
		d.runs(p.ID)
		want := slices.Clone(before)
		want[0] = 0
		for i := range things { // of the operation on jobs that each had
			want[2*i+1]--
		}
		if after := counts(); !slices.Equal(after, want) {
			d.Errorf("an operation on all that a grant is for left %v, want %v", after, want)
		}
		for _, path := range []string{"dead/delete?all=true", "dead/replay?all=true"} {
			d.good(d.as("operator:crm viewer:delivery", http.MethodPost, path))
		}
		if after := counts(); !slices.Equal(after, want) {
			d.Errorf("a request for all that a grant is for left %v, want %v", after, want)
		}
	})
}

// runs runs operations until one has ended.
func (d *grantDesk) runs(id string) {
	d.Helper()
	run := d.api.Operate()
	for range 300 {
		if err := run(d.Context()); err != nil {
			d.Fatal(err)
		}
		if o, err := d.ops.Get(d.Context(), id); err != nil || !o.Ended.IsZero() {
			if err != nil || o.State != bulk.Done {
				d.Fatalf("%+v, %v", o, err)
			}
			return
		}
		time.Sleep(time.Second)
	}
	d.Fatal("it never ends")
}

func TestPayloadsAreShownOfTheSystemsOfAnOperator(t *testing.T) {
	granting(t, func(d *grantDesk) {
		const grant = "viewer operator:crm"
		of, other := things[0], things[1]
		own, foreign := "payload of "+of.word, "payload of "+other.word
		for _, path := range []string{"dead?max=99&tenant=%s", "dead?limit=50&tenant=%s", "queues/%q/jobs", "queues/%q/jobs?limit=9", "queues/%q/job?id=%s-0"} {
			for _, k := range []struct {
				thing
				text string
				show bool
			}{{of, own, true}, {other, foreign, false}} {
				at := strings.NewReplacer("%s", url.QueryEscape(k.word), "%q", url.PathEscape(k.queue)).Replace(path)
				text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(d.good(d.as(grant, http.MethodGet, at)))
				if strings.Contains(text, k.text) != k.show || !k.show && !strings.Contains(text, "(text)") {
					d.Errorf("%s shows %s to %s", at, text, grant)
				}
			}
		}
	})
}

func TestAStreamShowsWhatItsListenerMaySee(t *testing.T) {
	granting(t, func(d *grantDesk) {
		for _, of := range things[:2] {
			ctx := caller.With(d.Context(), caller.Caller{Name: "ada", Rights: caller.For(caller.Viewer, of.system)})
			ctx, end := context.WithCancel(ctx)
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+admin.Prefix+"stream?topic=overview&topic=dead", nil)
			if err != nil {
				d.Fatal(err)
			}
			resp, err := operation.Inside(d.api.Inside()).HTTP.Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				d.Fatal(resp, err)
			}
			out := &streamed{resp.Header, bufio.NewReader(resp.Body), func() { end(); _ = resp.Body.Close() }}
			for range 2 {
				_, name, e := out.event(d.T)
				switch {
				case name == "overview" && (e.Topic != name || len(e.Overview.Systems) != 1 || e.Overview.Systems[0].Name != of.system):
					d.Errorf("%s is sent the overview %+v", of.system, e.Overview)
				case name == "dead" && (e.Topic != name || len(e.Dead.Groups) != 1 || e.Dead.Groups[0].Count != of.dead):
					d.Errorf("%s is sent the groups %+v", of.system, e.Dead)
				}
			}
			defer out.end()
		}
	})
}

func TestAnAnswerIsKeptForItsRights(t *testing.T) {
	granting(t, func(d *grantDesk) {
		send := func(grant string) *httptest.ResponseRecorder {
			d.keys = 4000
			return d.as(grant, http.MethodPost, "queues/crm-events/pause")
		}
		d.good(send("operator"))
		if w := send("operator:crm"); w.Code != http.StatusUnprocessableEntity {
			d.Errorf("somebody with other rights is answered %d: %s", w.Code, w.Body)
		}
	})
}

func TestRightsAreGivenForSystemsThatThereAre(t *testing.T) {
	in := start(t, nil)
	for role, want := range map[string]string{"operator:crmm": `there is no system \"crmm\"; there are analytics`, "admin:crm": "an admin is one of all systems", "owner": "is no role", "viewer,operator:crm": "is no role"} {
		if w := in.post("tokens?name=a&role="+url.QueryEscape(role), ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("role=%s is answered %d %s", role, w.Code, w.Body)
		}
	}
	if w := in.post("tokens?name=b&role="+url.QueryEscape("operator:crm viewer"), ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"role":"viewer operator:crm"`) {
		t.Errorf("it is answered %d %s", w.Code, w.Body)
	}
}
