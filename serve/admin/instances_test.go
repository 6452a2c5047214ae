package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// instancesOf are the instances that an API shows, each with its state.
func instancesOf(d *desk) (all []string) {
	d.Helper()
	var is api.Instances
	d.into(d.get("instances"), &is)
	for _, i := range is.Instances {
		all = append(all, i.ID+" "+i.State)
	}
	return all
}

// idle does nothing.
type idle struct{}

func (idle) Do(context.Context, []*flow.Task) error { return nil }

func TestInstancesThatShareStoresKnowOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, jobs := tableinstance.Memory(time.Now), memoryqueue.New(memoryqueue.Options{Now: time.Now})
		add := func(id string) {
			if err := jobs.Add(t.Context(), []*tidemill.Message{{To: "q", ID: id}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		add("1")
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := func(id string, systems ...admin.System) *desk {
			return newDesk(t, admin.Parts{Version: "1", Started: time.Now(), Systems: systems, Common: &answer.Common{Queues: jobs}, This: admin.This{ID: id, Host: "h", Store: shared}})
		}
		e, err := flow.New(flow.Pipeline{Name: "q", Source: jobs.Open("q", queue.Options{}), Dead: letters, Work: func(flow.Env) flow.Work { return idle{} }})
		if err != nil {
			t.Fatal(err)
		}
		one, two := at("one"), at("two", admin.System{Name: "shop", Pipelines: []*flow.Engine{e}})
		defer one.api.Close()
		if got := fmt.Sprint(instancesOf(one)); got != "[one there]" {
			t.Errorf("alone: %s", got)
		}
		var q api.Queue
		if one.into(one.get("queues/q"), &q); q.Nobody == "" || q.Workers != nil {
			t.Errorf("nobody works on %+v", q)
		}
		for _, d := range []*desk{one, two} {
			if err := d.api.Heartbeat().Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(instancesOf(one)); got != "[one there two there]" {
			t.Errorf("two: %s", got)
		}
		q = api.Queue{}
		if one.into(one.get("queues/q"), &q); len(q.Workers) != 1 || q.Workers[0].Instance != "two" || q.Workers[0].Host != "h" || q.Nobody == "" { // it has not begun to run
			t.Errorf("queue %+v", q)
		}
		time.Sleep(time.Minute) // two says nothing
		if got := fmt.Sprint(instancesOf(one)); got != "[one there two gone]" {
			t.Errorf("a minute later: %s", got)
		}
		q = api.Queue{}
		if one.into(lines(one.get("queues"))[0], &q); q.Workers != nil || q.Nobody == "" {
			t.Errorf("queue %+v", q)
		}
		if err := two.api.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(instancesOf(one)); got != "[one there two ended]" {
			t.Errorf("after its end: %s", got)
		}
		if o := overviewOf(one); o.Instance != "one" {
			t.Errorf("the overview is of %q", o.Instance)
		}
	})
}

func TestOwnersByWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{Now: time.Now})
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		add := func(to, tenant string, n int) {
			for i := range n {
				if err := s.Add(t.Context(), []*tidemill.Message{{To: to, Tenant: tenant, ID: fmt.Sprint(time.Now().UnixNano(), i)}}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		add("a", "shop", 2)
		add("b", "shop", 3)
		add("b", "blog", 4)
		if _, err := s.Set(t.Context(), "b", func(q *queue.Settings) { q.Tenants = map[string]queue.Limit{"blog": {PerSecond: 5, AtOnce: 2}} }); err != nil {
			t.Fatal(err)
		}
		dead := func(pipeline, id, tenant string) tidemill.DeadLetter {
			return tidemill.DeadLetter{Pipeline: pipeline, Kind: tidemill.Partner, Message: &tidemill.Message{ID: id, Tenant: tenant}}
		}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{dead("b", "1", "blog"), dead("a", "2", "lost"), dead("b", "3", "lost"), dead("b", "4", "lost")}); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Letters: letters})
		defer d.api.Close()
		listed := func(path string) (all []string) {
			for _, line := range lines(d.get(path)) {
				var o api.OwnerInList
				d.into(line, &o)
				all = append(all, fmt.Sprintf("%s %d in %d %v %d", o.Owner, o.Waiting, o.Queues, o.Limited, o.Dead))
			}
			return all
		}
		for path, want := range map[string]string{
			"owners":                       "[shop 5 in 2 false 0 blog 4 in 1 true 1 lost 0 in 0 false 3]",
			"owners?order=dead":            "[lost 0 in 0 false 3 blog 4 in 1 true 1 shop 5 in 2 false 0]",
			"owners?order=dead&max=1":      "[lost 0 in 0 false 3]",
			"owners?limited=true":          "[blog 4 in 1 true 1]",
			"owners?prefix=bl":             "[blog 4 in 1 true 1]",
			"owners?max=1":                 "[shop 5 in 2 false 0]",
			"owners?prefix=s&limited=true": "[]",
		} {
			if got := fmt.Sprint(listed(path)); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		add("a", "news", 9)
		if got := listed("owners"); len(got) != 3 {
			t.Errorf("they were read again at once: %v", got)
		}
		time.Sleep(10 * time.Second)
		if got := listed("owners"); len(got) != 4 || got[0] != "news 9 in 1 false 0" {
			t.Errorf("ten seconds later: %v", got)
		}
		var o api.Owner
		d.into(d.get("owners/blog"), &o)
		if len(o.Queues) != 1 || o.Queues[0].Queue != "b" || o.Queues[0].Waiting != 4 || o.Queues[0].Holds != "its own limit of 5 a second, its own limit of 2 at once" || o.Dead.Value != 1 {
			t.Errorf("blog is %+v", o)
		}
		var q api.Queue
		if d.into(d.get("queues/b"), &q); len(q.Tenants) != 2 || q.Tenants[0].Holds == "" || q.Tenants[1].Holds != "" {
			t.Errorf("queue %+v", q.Tenants)
		}
		if o.Queues[0].Limit == nil || o.Queues[0].Limit.AtOnce != 2 {
			t.Errorf("the limit of blog is %+v", o.Queues[0].Limit)
		}
		d.post("queues/a/settings", `{"tenants":{"blog":{"at_once":7}}}`) // nothing of it waits there, and it is seen at once
		o = api.Owner{}
		if d.into(d.get("owners/blog"), &o); len(o.Queues) != 2 || o.Queues[1].Queue != "a" || o.Queues[1].Waiting != 0 || o.Queues[1].Holds != "" || o.Queues[1].Limit.AtOnce != 7 {
			t.Errorf("blog is %+v", o)
		}
		refused(t, d.ask(http.MethodGet, "owners?max=x", ""), http.StatusBadRequest, "is not a count")
		refused(t, d.ask(http.MethodGet, "owners?order=newest", ""), http.StatusBadRequest, "deepest, dead or name")
	})
}

// Owners come in pages: of all as they were read last, or of their names, where what stays is seen once.
func TestOwnersComeInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{Now: time.Now})
		add := func(tenant string, n int) {
			for i := range n {
				if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", Tenant: tenant, ID: fmt.Sprint(time.Now().UnixNano(), i)}}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, tenant := range []string{"d", "", "b", "a/b", "c", "a"} {
			add(tenant, 1+i/2)
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Now: time.Now})
		defer d.api.Close()
		read := func(path string) (names, next, previous string) {
			var p operation.Paged[api.OwnerInList]
			d.into(d.get(path), &p)
			for _, o := range p.Items {
				names += o.Owner + ","
			}
			return names, p.Next, p.Previous
		}
		for order, want := range map[string][]string{"": {"a,c,", "a/b,b,", ",d,"}, "deepest": {"a,c,", "a/b,b,", ",d,"}, "name": {",a,", "a/b,b,", "c,d,"}} {
			path := "owners?limit=2"
			if order != "" {
				path += "&order=" + order
			}
			one, next, before := read(path)
			two, last, first := read(path + "&cursor=" + next)
			three, none, second := read(path + "&cursor=" + last)
			if got := []string{one, two, three}; !slices.Equal(got, want) || none != "" || before != "" {
				t.Errorf("by %q the pages are %q, before the first is %q, after the last %q", order, got, before, none)
			}
			if got, _, _ := read(path + "&cursor=" + second); got != two {
				t.Errorf("by %q before the third page is %q", order, got)
			}
			if got, _, top := read(path + "&cursor=" + first); got != one || top != "" {
				t.Errorf("by %q before the second page is %q, and before that %q", order, got, top)
			}
		}
		path := "owners?limit=2&order=name"
		_, next, _ := read(path)
		add("b", 9)
		add("aa", 9)
		time.Sleep(10 * time.Second)
		if got, _, _ := read(path + "&cursor=" + next); got != "a/b,aa," {
			t.Errorf("after others came the second page is %q", got)
		}
		refused(t, d.ask(http.MethodGet, "owners?limit=2&cursor="+next, ""), http.StatusBadRequest, "the cursor is none of this listing")
		refused(t, d.ask(http.MethodGet, "owners?limit=2&max=3", ""), http.StatusBadRequest, "max is for lines")
	})
}
