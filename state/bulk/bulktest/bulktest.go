// Package bulktest holds the promises of every backend of operations as cases: call Run from the
// backend's one test.
package bulktest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/bulk"
)

// Harness is a store without operations.
type Harness struct {
	Store  bulk.Store
	Reopen func() bulk.Store // closes and opens the same data again; nil: nothing survives
}

// Run runs every case on its own harness.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.do(&test{T: t, Harness: h(t)})
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*test)
}{
	{"an operation is kept whole", "whoever goes on knows nothing else of it", whole},
	{"an operation outlives a restart", "it goes on where it was", restart},
	{"an operation that is not there is said so", "an id may be mistyped", missing},
	{"a change that fails changes nothing", "a refused stop must not stop", refusedChange},
	{"changes by several at once are all made", "one counts while another stops", concurrentChanges},
	{"one of a kind is active in a scope", "two would get in each other's way", oneActive},
	{"of many who start at once one starts", "two instances are asked together", oneOfManyStarts},
	{"one of many claims an operation", "two who run it would count twice", oneOfManyClaims},
	{"a list is in the order of making, both ways, in pages", "pages neither skip nor repeat", pages},
	{"a page of a list has what is seen of it", "who may see some is not shown an empty page", seen},
	{"a list of states has those states", "the ones that run are looked for each second", byState},
	{"what is over is forgotten, what is active is not", "the store is bounded", swept},
	{"an ended context does nothing", "a stop must not be held up", endedContext},
}

type test struct {
	*testing.T
	Harness
}

var day = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func (t *test) add(id, scope string, state bulk.State, made time.Time) *bulk.Operation {
	t.Helper()
	o := &bulk.Operation{ID: id, Kind: "dead.replay", Scope: scope, State: state, Made: made, Starts: made}
	if err := t.Store.Add(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (t *test) get(id string) *bulk.Operation {
	t.Helper()
	o, err := t.Store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// full has something in each field.
func full() *bulk.Operation {
	return &bulk.Operation{ID: "a", Kind: "jobs.retry", Scope: "ingest \x00ü", Systems: "crm delivery", Filter: []byte{0, 1, 255}, Instant: day.Add(time.Millisecond), By: "ada", State: bulk.Running, Rate: 7200, Most: 9, Total: 12, AtLeast: true,
		Made: day, Starts: day.Add(time.Second), Begun: day.Add(2 * time.Second), Ended: day.Add(3 * time.Second),
		Progress: bulk.Progress{Changed: 3, Gone: 2, Failed: map[string]int{"damaged": 1}, Failures: []bulk.Failure{{Key: "k", ID: "x", Owner: "shop", Reason: "damaged"}}},
		Cursor:   "here", Slice: bulk.Slice{To: "there", N: 4}, Waits: "the queue is paused", Why: "because", StoppedBy: "eve", Owner: "one", Until: day.Add(time.Hour)}
}

func (t *test) same(got, want *bulk.Operation) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v, want\n%+v", got, want)
	}
}

func whole(t *test) {
	for i := range reflect.TypeFor[bulk.Operation]().NumField() {
		if f := reflect.ValueOf(full()).Elem().Field(i); f.IsZero() {
			t.Fatalf("the case has nothing in field %d", i)
		}
	}
	if err := t.Store.Add(t.Context(), full()); err != nil {
		t.Fatal(err)
	}
	t.same(t.get("a"), full())
	all, err := t.Store.List(t.Context(), bulk.Filter{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	t.same(all[0], full())
	o, err := t.Store.Change(t.Context(), "a", func(o *bulk.Operation) error {
		o.Failed, o.Failures, o.Waits = map[string]int{"damaged": 2}, append(o.Failures, bulk.Failure{ID: "y"}), ""
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.same(t.get("a"), o)
	if o.FailedAll() != 2 || len(o.Failures) != 2 || o.Waits != "" {
		t.Errorf("the change is %+v", o)
	}
}

func restart(t *test) {
	if t.Reopen == nil {
		t.Skip("nothing survives")
	}
	if err := t.Store.Add(t.Context(), full()); err != nil {
		t.Fatal(err)
	}
	t.Store = t.Reopen()
	t.same(t.get("a"), full())
	other := full()
	other.ID = "b"
	if err := t.Store.Add(t.Context(), other); !errors.Is(err, bulk.ErrBusy) {
		t.Errorf("another of the scope after a restart: %v, want ErrBusy", err)
	}
}

func missing(t *test) {
	for _, id := range []string{"nix", "", string(make([]byte, 1000))} {
		if o, err := t.Store.Get(t.Context(), id); !errors.Is(err, bulk.ErrNotFound) {
			t.Errorf("Get of an id of %d bytes = %v, %v", len(id), o, err)
		}
		if o, err := t.Store.Change(t.Context(), id, func(*bulk.Operation) error { return nil }); !errors.Is(err, bulk.ErrNotFound) {
			t.Errorf("Change of an id of %d bytes = %v, %v", len(id), o, err)
		}
	}
}

func refusedChange(t *test) {
	t.add("a", "q", bulk.Running, day)
	want, mine := t.get("a"), errors.New("mine")
	if _, err := t.Store.Change(t.Context(), "a", func(o *bulk.Operation) error { o.State = bulk.Done; return mine }); !errors.Is(err, mine) {
		t.Errorf("Change = %v, want the error of do", err)
	}
	t.same(t.get("a"), want)
}

func concurrentChanges(t *test) {
	t.add("a", "q", bulk.Running, day)
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 10 {
				if _, err := t.Store.Change(t.Context(), "a", func(o *bulk.Operation) error { o.Changed++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	if n := t.get("a").Changed; n != 40 {
		t.Errorf("of 40 changes %d were made", n)
	}
}

func oneActive(t *test) {
	t.add("a", "q", bulk.Scheduled, day)
	t.add("b", "other", bulk.Scheduled, day) // another scope
	t.add("c", "q", bulk.Previewed, day)     // not active
	start := func(id string) error {
		_, err := t.Store.Change(t.Context(), id, func(o *bulk.Operation) error { return o.Start("ada", 0, day, day) })
		return err
	}
	if err := start("c"); !errors.Is(err, bulk.ErrBusy) {
		t.Errorf("the second of a scope: %v, want ErrBusy", err)
	}
	if o := t.get("c"); o.State != bulk.Previewed {
		t.Errorf("it was refused and is %s", o.State)
	}
	for _, state := range []bulk.State{bulk.Stopped, bulk.Done, bulk.Failed} {
		if _, err := t.Store.Change(t.Context(), "a", func(o *bulk.Operation) error { o.State = state; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := start("c"); err != nil {
		t.Errorf("after the end of the other: %v", err)
	}
	other := &bulk.Operation{ID: "d", Kind: "dead.discard", Scope: "q", State: bulk.Scheduled, Made: day}
	if err := t.Store.Add(t.Context(), other); err != nil {
		t.Errorf("another kind in the scope: %v", err)
	}
}

func oneOfManyStarts(t *test) {
	for i := range 6 {
		t.add(fmt.Sprint(i), "q", bulk.Previewed, day)
	}
	t.one("start", func(i int) error {
		_, err := t.Store.Change(t.Context(), fmt.Sprint(i), func(o *bulk.Operation) error { return o.Start("ada", 0, day, day) })
		return err
	}, bulk.ErrBusy)
}

func oneOfManyClaims(t *test) {
	t.add("a", "q", bulk.Scheduled, day)
	t.one("claim", func(i int) error {
		_, err := t.Store.Change(t.Context(), "a", func(o *bulk.Operation) error { return o.Claim(fmt.Sprint(i), time.Minute, day) })
		return err
	}, bulk.ErrHeld)
}

// one holds that of six who do something at once one succeeds, and the others are refused.
func (t *test) one(what string, do func(int) error, refused error) {
	t.Helper()
	var g sync.WaitGroup
	var n atomic.Int32
	for i := range 6 {
		g.Go(func() {
			switch err := do(i); {
			case err == nil:
				n.Add(1)
			case !errors.Is(err, refused):
				t.Errorf("%s: %v, want %v", what, err, refused)
			}
		})
	}
	if g.Wait(); n.Load() != 1 {
		t.Errorf("%d of six %s at once", n.Load(), what)
	}
}

func ids(all []*bulk.Operation) (ids []string) {
	for _, o := range all {
		ids = append(ids, o.ID)
	}
	return ids
}

func pages(t *test) {
	var want []string
	for i := range 7 {
		id := fmt.Sprint("o", 9-i)
		t.add(id, id, bulk.Running, day.Add(time.Duration(i/2)*time.Second)) // some at one time
	}
	all, err := t.Store.List(t.Context(), bulk.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if want = ids(all); !slices.Equal(want, []string{"o8", "o9", "o6", "o7", "o4", "o5", "o3"}) {
		t.Errorf("the list is %v", want)
	}
	for _, states := range [][]bulk.State{nil, {bulk.Running, bulk.Done}} {
		for _, back := range []bool{false, true} {
			var got []string
			f := bulk.Filter{States: states, Back: back, Max: 2}
			for {
				page, err := t.Store.List(t.Context(), f)
				if err != nil || len(page) > 2 {
					t.Fatal(page, err)
				}
				if len(page) == 0 {
					break
				}
				got, f.After = append(got, ids(page)...), page[len(page)-1]
			}
			if back {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("back %v, of the states %v: pages are %v, want %v", back, states, got, want)
			}
		}
	}
}

func seen(t *test) {
	for i := range 30 {
		o := &bulk.Operation{ID: fmt.Sprintf("s%02d", i), Kind: "k", Scope: fmt.Sprint(i), State: bulk.Running, Made: day.Add(time.Duration(i) * time.Second)}
		if i%10 == 5 {
			o.Systems = "crm delivery"
		}
		if err := t.Store.Add(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []bulk.Filter{{Max: 2}, {Max: 2, States: []bulk.State{bulk.Running}}} {
		f.Sees = func(systems string) bool { return systems == "crm delivery" }
		all, err := t.Store.List(t.Context(), f)
		if got := ids(all); err != nil || !slices.Equal(got, []string{"s05", "s15"}) {
			t.Fatalf("a page of what is seen has %v, %v", got, err)
		}
		f.After = all[1]
		if all, err = t.Store.List(t.Context(), f); err != nil || !slices.Equal(ids(all), []string{"s25"}) {
			t.Errorf("the page after it has %v, %v", ids(all), err)
		}
	}
}

func byState(t *test) {
	for i, state := range []bulk.State{bulk.Previewed, bulk.Scheduled, bulk.Running, bulk.Done, bulk.Stopped, bulk.Failed} {
		t.add(string(state), string(state), state, day.Add(time.Duration(-i)*time.Second))
	}
	all, err := t.Store.List(t.Context(), bulk.Filter{States: []bulk.State{bulk.Scheduled, bulk.Running}})
	if got := ids(all); err != nil || !slices.Equal(got, []string{"running", "scheduled"}) {
		t.Errorf("scheduled and running are %v, %v", got, err)
	}
}

func swept(t *test) {
	t.add("preview", "a", bulk.Previewed, day)
	t.add("scheduled", "b", bulk.Scheduled, day)
	t.add("running", "c", bulk.Running, day)
	t.add("done", "d", bulk.Running, day)
	if _, err := t.Store.Change(t.Context(), "done", func(o *bulk.Operation) error { return o.Stop("ada", day) }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{bulk.PreviewFor - time.Millisecond, 4}, {bulk.PreviewFor, 3}, {bulk.KeptFor - time.Millisecond, 3}, {bulk.KeptFor, 2}, {10 * bulk.KeptFor, 2}} {
		if _, err := t.Store.Sweep(t.Context(), day.Add(c.after)); err != nil {
			t.Fatal(err)
		}
		if all, err := t.Store.List(t.Context(), bulk.Filter{}); err != nil || len(all) != c.left {
			t.Errorf("after %v %v are left, %v; want %d", c.after, ids(all), err, c.left)
		}
	}
	again := &bulk.Operation{ID: "again", Kind: "dead.replay", Scope: "c", State: bulk.Scheduled, Made: day}
	if err := t.Store.Add(t.Context(), again); !errors.Is(err, bulk.ErrBusy) {
		t.Errorf("beside one that runs for months: %v, want ErrBusy", err)
	}
}

func endedContext(t *test) {
	t.add("a", "q", bulk.Running, day)
	ctx, end := context.WithCancel(t.Context())
	end()
	_, get := t.Store.Get(ctx, "a")
	_, change := t.Store.Change(ctx, "a", func(o *bulk.Operation) error { o.Changed++; return nil })
	_, list := t.Store.List(ctx, bulk.Filter{})
	_, sweep := t.Store.Sweep(ctx, day)
	for i, err := range []error{t.Store.Add(ctx, full()), get, change, list, sweep} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("method %d with an ended context: %v", i, err)
		}
	}
	if n := t.get("a").Changed; n != 0 {
		t.Errorf("it was changed: %d", n)
	}
}
