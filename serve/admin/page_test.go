package admin_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// onePage is a page as a client reads it.
type onePage struct {
	Looked         int
	Items          []map[string]any
	Next, Previous string
	AsOf           time.Time `json:"as_of"`
}

// page asks for a page, and says which ids it has.
func (d *desk) page(path string) (ids []string, next string) {
	d.Helper()
	ids, p := d.onePage(path)
	return ids, p.Next
}

func (d *desk) onePage(path string) (ids []string, p onePage) {
	d.Helper()
	d.into(d.get(path), &p)
	if p.AsOf.IsZero() || p.Items == nil {
		d.Errorf("%s answered %+v", path, p)
	}
	for _, i := range p.Items {
		id := i["id"]
		if id == nil { // a warning has none
			id = i["reason"]
		}
		ids = append(ids, fmt.Sprint(id))
	}
	return ids, p
}

// thereAndBack asks for all pages of a listing, and from the last for those before it: they are the
// same, and say the same of what is before and after.
func (d *desk) thereAndBack(path string) (all []string) {
	d.Helper()
	var on []onePage
	for cursor := ""; ; {
		ids, p := d.onePage(path + cursor)
		on, all = append(on, p), append(all, strings.Join(ids, " "))
		if (p.Previous == "") != (cursor == "") {
			d.Errorf("page %d of %s has the previous %q", len(on), path, p.Previous)
		}
		if cursor = "&cursor=" + p.Next; p.Next == "" {
			break
		}
	}
	for i := len(on) - 2; i >= 0; i-- {
		ids, p := d.onePage(path + "&cursor=" + on[i+1].Previous)
		if got := strings.Join(ids, " "); got != all[i] || p.Next == "" || (p.Previous == "") != (i == 0) {
			d.Errorf("before page %d of %s are %q, next %q, previous %q; want %q", i+1, path, got, p.Next, p.Previous, all[i])
		}
		if ids, _ := d.page(path + "&cursor=" + p.Next); strings.Join(ids, " ") != all[i+1] {
			d.Errorf("after the page before page %d of %s are %q, want %q", i+1, path, ids, all[i+1])
		}
	}
	return all
}

// pages asks for all pages of a listing, and calls between after each.
func (d *desk) pages(path string, between func()) (all []string) {
	d.Helper()
	for cursor := ""; ; between() {
		ids, next := d.page(path + cursor)
		all = append(all, strings.Join(ids, " "))
		if next == "" {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// lettersOf puts dead letters into a store of their own.
func lettersOf(t *testing.T, ids ...string) deadletter.Store {
	t.Helper()
	s, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	died(t, s, ids...)
	return s
}

func died(t *testing.T, s deadletter.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Message: &tidemill.Message{ID: id, Payload: []byte("{}")}, Kind: tidemill.Timeout, At: day}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPagesOfDeadLettersShowOnceWhatStays(t *testing.T) {
	first, second := lettersOf(t, "a1", "a2", "a3", "a4", "a5"), lettersOf(t, "b1", "b2", "b3")
	d := newDesk(t, admin.Parts{Letters: first, OwnLetters: []admin.OwnLetters{{System: "crm", Store: second}}})
	nothing := func() {}
	if got := d.pages("dead?limit=3", nothing); fmt.Sprintf("%q", got) != `["a1 a2 a3" "a4 a5 b1" "b2 b3"]` {
		t.Errorf("the pages are %q", got)
	}
	if got := d.pages("dead?limit=4&format=export", nothing); fmt.Sprintf("%q", got) != `["a1 a2 a3 a4" "a5 b1 b2 b3"]` { // no empty one behind it
		t.Errorf("the pages are %q", got)
	}
	if got := d.thereAndBack("dead?limit=3"); fmt.Sprintf("%q", got) != `["a1 a2 a3" "a4 a5 b1" "b2 b3"]` {
		t.Errorf("the pages are %q", got)
	}
	if got := d.thereAndBack("dead?limit=3&order=newest"); fmt.Sprintf("%q", got) != `["b3 b2 b1" "a5 a4 a3" "a2 a1"]` {
		t.Errorf("the pages from the newest are %q", got)
	}
	n := 0
	got := d.pages("dead?limit=2", func() {
		n++
		gone := []string{"a2", "a3", "b1", ""}[min(n-1, 3)] // that which the cursor is at, one ahead, the next store's first
		for _, s := range []deadletter.Store{first, second} {
			if _, err := s.Delete(t.Context(), deadletter.Filter{IDs: []string{gone}}); err != nil {
				t.Fatal(err)
			}
		}
		died(t, first, fmt.Sprint("new", n), "a1") // one more, and one that dies again where it is
	})
	if fmt.Sprintf("%q", got) != `["a1 a2" "a3 a4" "a5 new1" "new2 new3" "new4 b2" "b3"]` {
		t.Errorf("the pages are %q", got)
	}
	if ids, next := d.page("dead?limit=5&id=nobody"); len(ids) > 0 || next != "" {
		t.Errorf("a page of nothing: %q, %q", ids, next)
	}
}

// vanishing is a store whose listings miss what was deleted since they began: all of the first.
type vanishing struct {
	deadletter.Store
	misses int
}

func (v *vanishing) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		for l, err := range v.Store.List(ctx, f) {
			if v.misses > 0 {
				v.misses--
				if _, err := v.Delete(ctx, deadletter.Filter{Seqs: []int64{l.Seq}}); err != nil {
					yield(nil, err)
					return
				}
				continue
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// asked is a store that keeps how many dead letters its listings were asked for.
type asked struct {
	deadletter.Store
	most []int
}

func (a *asked) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	a.most = append(a.most, f.Max)
	return a.Store.List(ctx, f)
}

func TestEachStoreIsAskedForWhatIsLeft(t *testing.T) {
	for query, want := range map[string]string{"": "0", "?max=5": "3", "?limit=5": "4"} {
		second := &asked{Store: lettersOf(t, "b1")}
		d := newDesk(t, admin.Parts{Letters: lettersOf(t, "a1", "a2"), OwnLetters: []admin.OwnLetters{{System: "crm", Store: second}}})
		d.get("dead" + query)
		if got := fmt.Sprint(second.most[0]); got != want {
			t.Errorf("dead%s asks the second store for %s dead letters, want %s", query, got, want)
		}
	}
}

func TestAPageIsWholeThoughLettersVanishWhileItIsRead(t *testing.T) {
	for misses := range 7 {
		d := newDesk(t, admin.Parts{Letters: &vanishing{Store: lettersOf(t, "1", "2", "3", "4", "5", "6", "7"), misses: misses}})
		want := strings.Fields("1 2 3 4 5 6 7")[misses:]
		if got := strings.Fields(strings.Join(d.pages("dead?limit=2", func() {}), " ")); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("with %d gone the pages show %q, want %q", misses, got, want)
		}
	}
}

func TestPagesOfTheSyncLogShowOnceWhatStays(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.send(crmEvent("a", "member.created"), crmEvent("b/1", "member.created"), crmEvent("c", "member.created"))
		pass(time.Second)
		d.send(crmEvent("d", "member.created"), strings.Replace(crmEvent("b/1", "member.created"), "club", "gym", 1))
		pass(time.Second)
		n := 0
		got := d.pages("crm/log?limit=2&since=2000-01-01", func() {
			n++
			d.send(crmEvent(fmt.Sprint("new", n), "member.created"))
			pass(time.Second)
		})
		seen := map[string]int{}
		for _, id := range strings.Fields(strings.Join(got, " ")) {
			seen[id]++
		}
		if seen["a"] != 1 || seen["b/1"] != 2 || seen["c"] != 1 || seen["d"] != 1 || seen["new1"] != 1 {
			t.Errorf("the pages are %q", got)
		}
		forth, back := strings.Fields(strings.Join(d.pages("crm/log?limit=2", func() {}), " ")), strings.Fields(strings.Join(d.pages("crm/log?limit=2&order=newest", func() {}), " "))
		if slices.Reverse(back); len(back) < 6 || !slices.Equal(forth, back) {
			t.Errorf("from the newest the pages show %q backwards, and forwards %q", back, forth)
		}
		if got := strings.Fields(strings.Join(d.thereAndBack("crm/log?limit=2"), " ")); !slices.Equal(got, forth) {
			t.Errorf("there and back the pages show %q, want %q", got, forth)
		}
		if got := d.pages("crm/log?limit=1&tenant=gym", func() {}); fmt.Sprintf("%q", got) != `["b/1"]` {
			t.Errorf("the pages of one tenant are %q", got)
		}
	})
}

func TestPagesOfJobsShowOnceWhatStays(t *testing.T) {
	d, s := queues(t)
	if got := d.pages("queues/q/jobs?limit=2", func() {}); fmt.Sprintf("%q", got) != `["e3/p e4/p" "e0/p e1/p" "e2/p"]` {
		t.Errorf("the pages are %q", got)
	}
	if got := d.thereAndBack("queues/q/jobs?limit=2"); fmt.Sprintf("%q", got) != `["e3/p e4/p" "e0/p e1/p" "e2/p"]` {
		t.Errorf("the pages are %q", got)
	}
	if got := d.thereAndBack("queues/q/jobs?limit=2&order=newest"); fmt.Sprintf("%q", got) != `["e2/p e1/p" "e0/p e4/p" "e3/p"]` {
		t.Errorf("the pages from the newest are %q", got)
	}
	if got := d.pages("queues/q/jobs?limit=1&state=failed", func() {}); fmt.Sprintf("%q", got) != `["e6/p" "e7/p"]` {
		t.Errorf("the pages of failed jobs are %q", got)
	}
	n := 0
	got := d.pages("queues/q/jobs?limit=1&tenant=shop", func() {
		gone := []string{"e0/p", "e3/p", "e1/p", "nobody"}[min(n, 3)] // one to come, one that was shown, the one that the cursor is at
		d.post("queues/q/remove?id="+gone, "")
		if n++; n < 3 {
			if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", Tenant: "shop", ID: fmt.Sprint("new", n)}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if fmt.Sprintf("%q", got) != `["e3/p" "e4/p" "e1/p" "new1" "new2"]` {
		t.Errorf("the pages are %q", got)
	}
	refused(t, d.ask(http.MethodGet, "queues/q/jobs?limit=2&max=1", ""), http.StatusBadRequest, "max is for lines")
	_, next := d.page("queues/q/jobs?limit=1")
	refused(t, d.ask(http.MethodGet, "queues/other/jobs?limit=1&cursor="+next, ""), http.StatusBadRequest, "is none of this listing")
}

func TestACursorIsOfOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, admin.Parts{Letters: lettersOf(t, "1", "2", "3")})
		_, next := d.page("dead?limit=1&pipeline=p")
		if ids, _ := d.page("dead?pipeline=p&cursor=" + next); fmt.Sprint(ids) != "[2 3]" { // as many as there usually are
			t.Errorf("the page after it has %q", ids)
		}
		other := []byte(next)
		other[len(other)-2] ^= 1
		for query, want := range map[string]string{
			"pipeline=p&cursor=nonsense":                   "is none of this listing",
			"pipeline=p&cursor=%21":                        "is none of this listing",
			"pipeline=p&cursor=" + string(other):           "is none of this listing",
			"pipeline=p&cursor=" + next[:len(next)/2]:      "is none of this listing",
			"cursor=" + next:                               "is none of this listing",
			"pipeline=p&kind=timeout&cursor=" + next:       "is none of this listing",
			"pipeline=p&order=newest&cursor=" + next:       "is none of this listing",
			"pipeline=p&order=best":                        "want",
			"pipeline=p&limit=0":                           "want 1 to 1000",
			"pipeline=p&limit=1001":                        "want 1 to 1000",
			"pipeline=p&max=7&limit=2":                     "max is for lines",
			"pipeline=p&max=7&cursor=" + next:              "is none of this listing",
			"pipeline=p&limit=many":                        "is not a count",
			"pipeline=p&unheard=of&limit=1&cursor=" + next: "is no parameter",
		} {
			refused(t, d.ask(http.MethodGet, "dead?"+query, ""), http.StatusBadRequest, want)
		}
		elsewhere := newDesk(t, admin.Parts{OwnLetters: []admin.OwnLetters{{System: "crm", Store: lettersOf(t, "1")}}})
		refused(t, elsewhere.ask(http.MethodGet, "dead?pipeline=p&cursor="+next, ""), http.StatusBadRequest, "does not have")
		time.Sleep(25 * time.Hour) // in the bubble
		refused(t, d.ask(http.MethodGet, "dead?pipeline=p&cursor="+next, ""), http.StatusBadRequest, "older than a day")
	})
}

// Warnings are the newest first, unless the order says otherwise.
func TestPagesOfWarnings(t *testing.T) {
	events := memorywarehouse.New()
	for i, reason := range []string{"a", "b", "c", "d", "e"} {
		w := warehouse.Warning{Project: project.ID("shop"), Type: "invalid_event", Event: "click", Distinct: "ann", Reason: reason, At: day.Add(time.Duration(i/2) * time.Second)}
		if err := events.Warn(t.Context(), []warehouse.Warning{w}); err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{T: t, api: over(t, events)}
	for query, want := range map[string]string{
		"limit=2":              `["e d" "c b" "a"]`,
		"limit=2&order=newest": `["e d" "c b" "a"]`,
		"limit=3&order=oldest": `["a b c" "d e"]`,
	} {
		if got := d.thereAndBack("warnings?" + query); fmt.Sprintf("%q", got) != want {
			t.Errorf("%s: the pages are %q, want %s", query, got, want)
		}
	}
	if lines := strings.Split(strings.TrimSpace(d.get("warnings?max=2")), "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"reason":"e"`) {
		t.Errorf("the lines are %q", lines)
	}
}
