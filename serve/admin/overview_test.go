package admin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// reads is a source's books, as a function.
type reads func(context.Context) (tidemill.Books, error)

func (r reads) Books(ctx context.Context) (tidemill.Books, error) { return r(ctx) }

// says are books that stay as they are.
func says(b tidemill.Books) reads {
	return func(context.Context) (tidemill.Books, error) { return b, nil }
}

var sound = tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 5, Skipped: 2, Dead: 1}, Pending: 2}

func overviewOf(d *desk) (o api.Overview) {
	d.Helper()
	d.into(d.get("overview"), &o)
	return o
}

// wantedKinds are those of what wants attention.
func wantedKinds(o api.Overview) (all []string) {
	for _, a := range o.Attention {
		all = append(all, a.Kind)
	}
	return all
}

func TestTheOverviewHasTheBooksOfEachSystem(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Cause: "c", Kind: tidemill.Partner, Message: &tidemill.Message{ID: "1"}}}); err != nil {
		t.Fatal(err)
	}
	second := tidemill.Books{Accepted: 3, Pending: 3}
	d := newDesk(t, admin.Parts{Systems: []admin.System{
		{Name: "shop", Books: map[string]tidemill.Bookkeeper{"p": says(sound), "q": says(second), "p.replay": letters.Open("p").(tidemill.Bookkeeper)}},
		{Name: "blog", Books: map[string]tidemill.Bookkeeper{"b": says(second)}},
	}})
	o := overviewOf(d)
	want := api.Sum{Accepted: 13, Delivered: 5, Skipped: 2, Dead: 1, InFlight: 5}
	if len(o.Systems) != 2 || !o.Balanced || o.Systems[0].Name != "shop" || *o.Systems[0].Books != want || o.Systems[0].Dead != 1 || !o.Systems[0].Balanced || o.Systems[0].AsOf == nil || len(o.Attention) != 0 {
		t.Errorf("overview %+v", o)
	}
	if o.Systems[1].Dead != 0 || o.Systems[1].Books.InFlight != 3 {
		t.Errorf("the second system: %+v", o.Systems[1])
	}
}

func TestBooksThatDoNotBalanceComeFirst(t *testing.T) {
	missing, twice, lost := sound, sound, sound
	missing.Accepted++
	twice.Pending++
	lost.Accepted++
	lost.Lost++
	for _, c := range []struct {
		books tidemill.Books
		want  string
	}{{missing, "1 are missing in the books of p"}, {twice, "1 were counted twice in the books of p"}, {lost, "1 were lost at the source of p"}} {
		d := newDesk(t, admin.Parts{Systems: []admin.System{{Name: "shop", Books: map[string]tidemill.Bookkeeper{"p": says(c.books)}},
			{Name: "blog", Books: map[string]tidemill.Bookkeeper{"b": reads(func(context.Context) (tidemill.Books, error) { return tidemill.Books{}, errors.New("no route") })}}}})
		o := overviewOf(d)
		if o.Balanced || o.Systems[0].Balanced || !o.Systems[1].Balanced || fmt.Sprint(wantedKinds(o)) != "[unbalanced unread]" || !strings.Contains(o.Attention[0].Text, c.want) || !strings.Contains(o.Attention[1].Text, "no route") {
			t.Errorf("%s: %+v", c.want, o)
		}
	}
}

func TestAStoreThatIsAwayHoldsUpNoOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		d := newDesk(t, admin.Parts{Systems: []admin.System{{Name: "shop", Books: map[string]tidemill.Bookkeeper{"p": reads(func(ctx context.Context) (tidemill.Books, error) {
			if away.Load() {
				<-ctx.Done()
				return tidemill.Books{}, context.Cause(ctx)
			}
			return sound, nil
		})}}, {Name: "blog", Books: map[string]tidemill.Bookkeeper{"b": says(sound)}}}})
		defer d.api.Close()
		overviewOf(d)
		away.Store(true)
		time.Sleep(10 * time.Second)
		for range 5 {
			began := time.Now()
			o := overviewOf(d)
			s := o.Systems[0]
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
			if s.Books == nil || s.Books.Accepted != 10 || s.Unread == "" || time.Since(*s.AsOf) < 10*time.Second || o.Systems[1].Unread != "" || fmt.Sprint(wantedKinds(o)) != "[unread]" || !strings.Contains(o.Attention[0].Text, "s old") {
				t.Errorf("overview %+v", o)
			}
			time.Sleep(1500 * time.Millisecond)
		}
	})
}

// counting is a queue store that is asked for no jobs.
type counting struct {
	queue.Store
	t     *testing.T
	calls atomic.Int64
}

func (c *counting) Standing(ctx context.Context) ([]queue.Standing, error) {
	c.calls.Add(1)
	return c.Store.Standing(ctx)
}

func (c *counting) Stats(context.Context, string) (queue.Stats, error) {
	c.t.Error("it asks for a single queue")
	return queue.Stats{}, nil
}

func (c *counting) Depths(context.Context, string) ([]queue.Depth, error) {
	c.t.Error("it reads depths")
	return nil, nil
}

func (c *counting) Tenants(context.Context, string, int) ([]queue.Depth, error) {
	c.t.Error("it reads tenants")
	return nil, nil
}

func (c *counting) List(context.Context, queue.Filter) iter.Seq2[*queue.Job, error] {
	c.t.Error("it looks at jobs")
	return func(func(*queue.Job, error) bool) {}
}

func (c *counting) Look(context.Context, queue.Name) (*queue.Job, error) {
	c.t.Error("it looks at a job")
	return nil, queue.ErrNotFound
}

func TestAnOverviewReadsCountersOnceForAllWhoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := queues(t)
		c := &counting{Store: s, t: t}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: c}})
		defer d.api.Close()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { overviewOf(d) })
		}
		all.Wait()
		if n := c.calls.Load(); n != 1 {
			t.Errorf("20 overviews asked the store %d times", n)
		}
		time.Sleep(time.Second)
		overviewOf(d)
		if n := c.calls.Load(); n != 1 {
			t.Errorf("a second later it was asked %d times", n)
		}
	})
}

func TestWhatAQueueWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{Now: time.Now})
		set := func(name string, change func(*queue.Settings)) {
			if _, err := s.Set(t.Context(), name, change); err != nil {
				t.Fatal(err)
			}
		}
		add := func(name string, n int) {
			for i := range n {
				if err := s.Add(t.Context(), []*tidemill.Message{{To: name, ID: fmt.Sprint(time.Now().UnixNano(), i)}}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		set("held", func(q *queue.Settings) { q.Paused = true })
		set("small", func(q *queue.Settings) { q.Max = 3 })
		set("dear", func(q *queue.Settings) { q.Paused, q.Off = true, time.Now() })
		add("small", 3)
		d := newDesk(t, admin.Parts{Now: time.Now, Common: &answer.Common{Queues: s}})
		defer d.api.Close()
		if o := overviewOf(d); fmt.Sprint(wantedKinds(o)) != "[off full paused]" || o.Attention[1].Queue != "small" || o.Attention[2].Queue != "held" {
			t.Errorf("%+v", o.Attention)
		}
		loop := d.api.Sample()
		for range 66 { // eleven minutes
			add("busy", 5)
			if err := loop.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(loop.Every)
		}
		if o := overviewOf(d); fmt.Sprint(wantedKinds(o)) != "[off full growing paused]" || o.Attention[2].Queue != "busy" {
			t.Errorf("%+v", o.Attention)
		}
		time.Sleep(time.Hour)
		if o := overviewOf(d); fmt.Sprint(wantedKinds(o)) != "[off full old old paused]" {
			t.Errorf("%+v", o.Attention)
		}
		src := s.Open("small", queue.Options{Lease: 3 * time.Hour}) // that somebody has it since does not make it move
		if got, err := src.Receive(t.Context(), []*tidemill.Message{{}, {}, {}}); err != nil || got != 3 {
			t.Fatal(got, err)
		}
		time.Sleep(time.Minute)
		if o := overviewOf(d); fmt.Sprint(wantedKinds(o)) != "[off full old old paused]" || o.Attention[2].Queue != "busy" || o.Attention[3].Queue != "small" {
			t.Errorf("%+v", o.Attention)
		}
	})
}

// What is delivered again and again without an acknowledgement keeps the books balanced: its system says it.
func TestWhatIsNotAcknowledgedWantsAttention(t *testing.T) {
	says := ""
	d := newDesk(t, admin.Parts{Systems: []admin.System{{Name: "bridge", Unanswered: func() string { return says }}, {Name: "other"}}})
	defer d.api.Close()
	if o := overviewOf(d); len(o.Attention) != 0 {
		t.Errorf("%+v", o.Attention)
	}
	says = "The receiver does not acknowledge."
	if o := overviewOf(d); fmt.Sprint(wantedKinds(o)) != "[unanswered]" || o.Attention[0].System != "bridge" || o.Attention[0].Text != says || !o.Attention[0].Here {
		t.Errorf("%+v", o.Attention)
	}
}

func TestAHistoryHasWhatWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{Now: time.Now})
		d := newDesk(t, admin.Parts{Now: time.Now, Common: &answer.Common{Queues: s}})
		defer d.api.Close()
		refused(t, d.ask(http.MethodGet, "history/queue:q", ""), http.StatusNotFound, "has counted nothing so far")
		loop := d.api.Sample()
		for i := range 4 {
			if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: fmt.Sprint(i)}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := loop.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(loop.Every)
		}
		var h api.History
		d.into(d.get("history/queue:q"), &h)
		if h.Step != 10 || len(h.Points) != 3 || h.Points[0].In != 1 || h.Points[2].Oldest != 30 || h.Since == nil || h.Here {
			t.Errorf("%+v", h)
		}
		var day api.History
		if d.into(d.get("history/queue:q?span=24h"), &day); day.Step != 300 || len(day.Points) != 1 || day.Points[0].In != 3 {
			t.Errorf("%+v", day)
		}
		var f api.Figures
		if d.into(lines(d.get("history"))[0], &f); f.Series != "queue:q" || f.Rates == nil || f.Rates.In != 0.1 {
			t.Errorf("%+v", f)
		}
		if o := overviewOf(d); o.RatesSince == nil {
			t.Errorf("%+v", o)
		}
		refused(t, d.ask(http.MethodGet, "history/queue:nix", ""), http.StatusNotFound, `there is no history of "queue:nix"`)
		refused(t, d.ask(http.MethodGet, "history/queue:q?span=2h", ""), http.StatusBadRequest, "want")
	})
}

func TestDeadLettersAreGroupedByTheirCause(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(to deadletter.Store, pipeline string, causes ...string) {
		for i, cause := range causes {
			if err := to.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: pipeline, Cause: cause, Kind: tidemill.Partner, Message: &tidemill.Message{ID: fmt.Sprint(i)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(letters, "s2s.meta", "answered 500", "answered 503", "no route")
	put(own, "crm-events", "refused", "refused", "refused")
	d := newDesk(t, admin.Parts{Letters: letters, OwnLetters: []admin.OwnLetters{{System: "crm", Store: own}}, Systems: []admin.System{{Name: "crm"}}})
	var g api.DeadGroups
	d.into(d.get("dead/groups"), &g)
	if len(g.Groups) != 3 || g.Groups[0].Count != 3 || g.Groups[0].System != "crm" || g.Groups[1].Cause != "answered #" || g.Groups[1].Count != 2 || g.Groups[1].Partner != "meta" || g.Groups[1].Reason != "partner_error" || g.Groups[1].System != "delivery" || g.AsOf.IsZero() {
		t.Errorf("%+v", g)
	}
	if d.into(d.get("dead/groups?max=1"), &g); len(g.Groups) != 1 || g.Groups[0].Count != 3 || g.More != 2 {
		t.Errorf("the largest: %+v", g)
	}
	d.post("dead/delete?pipeline=crm-events", "")
	if d.into(d.get("dead/groups"), &g); len(g.Groups) != 2 {
		t.Errorf("after the discard: %+v", g)
	}
}

// grouped counts how often the groups of dead letters are read.
type grouped struct {
	deadletter.Store
	reads atomic.Int64
}

func (g *grouped) Groups(ctx context.Context, only func(string) bool) (deadletter.Groups, error) {
	g.reads.Add(1)
	return g.Store.Groups(ctx, only)
}

func TestGroupsAreReadOnceForAllWhoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		letters := &grouped{Store: store}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Message: &tidemill.Message{ID: "1"}}}); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, admin.Parts{Letters: letters})
		defer d.api.Close()
		var g api.DeadGroups
		for range 20 {
			if d.into(d.get("dead/groups"), &g); len(g.Groups) != 1 {
				t.Errorf("%+v", g)
			}
		}
		if d.into(d.get("dead/groups?max=1"), &g); len(g.Groups) != 1 || g.More != 0 {
			t.Errorf("of one: %+v", g)
		}
		if n := letters.reads.Load(); n != 1 {
			t.Errorf("20 who looked had them read %d times", n)
		}
		d.post("dead/delete?all=true", "")
		if d.into(d.get("dead/groups"), &g); len(g.Groups) != 0 {
			t.Errorf("who has discarded them sees %+v", g)
		}
	})
}

// countable is a source's books, which notes when what it holds is counted.
type countable struct {
	reads
	counters reads
}

func (c countable) Counters(ctx context.Context) (tidemill.Books, error) { return c.counters(ctx) }

func TestTheOverviewCountsWhatIsHeldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is, counted := sound, map[string]int{}
		books := map[string]tidemill.Bookkeeper{}
		for i := range 5 {
			name := fmt.Sprint("p", i)
			books[name] = countable{reads: func(context.Context) (tidemill.Books, error) {
				counted[name]++
				time.Sleep(4 * time.Millisecond) // it takes its time
				return is, nil
			}, counters: func(context.Context) (tidemill.Books, error) {
				b := is
				b.Pending = 0
				return b, nil
			}}
		}
		d := newDesk(t, admin.Parts{Systems: []admin.System{{Name: "shop", Books: books}}})
		defer d.api.Close()
		look := func(balanced bool, accepted, flying uint64) {
			t.Helper()
			time.Sleep(2 * time.Second) // a reading of 20 ms is good for so long
			o := overviewOf(d)
			if b := o.Systems[0].Books; o.Balanced != balanced || b.Accepted != 5*accepted || b.InFlight != flying {
				t.Errorf("balanced %v: %+v", o.Balanced, b)
			}
		}
		look(true, 10, 10)
		is.Accepted, is.Pending = 20, 12
		for range 20 {
			look(true, 20, 60)
		}
		if fmt.Sprint(counted) != "map[p0:1 p1:1 p2:1 p3:1 p4:1]" {
			t.Errorf("counted within a minute: %v", counted)
		}
		time.Sleep(time.Minute)
		look(true, 20, 60)
		if fmt.Sprint(counted) != "map[p0:2 p1:2 p2:2 p3:1 p4:1]" { // no more than 10 ms and one at a reading
			t.Errorf("counted after a minute: %v", counted)
		}
		look(true, 20, 60)
		if fmt.Sprint(counted) != "map[p0:2 p1:2 p2:2 p3:2 p4:2]" {
			t.Errorf("counted by two readings after a minute: %v", counted)
		}
		is.Pending = 10 // two of each are gone
		time.Sleep(time.Minute)
		look(false, 20, 54)
		look(false, 20, 50)
		look(false, 20, 50)
		if fmt.Sprint(counted) != "map[p0:5 p1:5 p2:5 p3:4 p4:4]" { // books that do not balance at each reading
			t.Errorf("counted while they do not balance: %v", counted)
		}
	})
}
