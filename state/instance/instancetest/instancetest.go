// Package instancetest holds every promise of the role as a case that each backend passes.
package instancetest

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/instance"
)

// start is when the clock of a case begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock stands still until it is moved.
type clock struct {
	mu sync.Mutex // guards at
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Run runs all cases, each on its own store.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) instance.Store) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s instance.Store, c *clock)
	}{
		{"lists what an instance said last, the newest started first", says},
		{"knows who is there, who is gone and who has ended", gone},
		{"forgets those that have not been there for a day", forgets},
		{"refuses an id that is none", refuses},
		{"many beat at once", many},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := &clock{at: start}
			c.do(t, open(t, at.now), at)
		})
	}
}

func beat(t *testing.T, s instance.Store, i instance.Instance) {
	t.Helper()
	if err := s.Beat(t.Context(), i); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s instance.Store) []instance.Instance {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func says(t *testing.T, s instance.Store, c *clock) {
	if all := list(t, s); len(all) != 0 {
		t.Errorf("at first there are %v", all)
	}
	one := instance.Instance{ID: "one", Host: "h", Version: "1", Started: start.Add(-time.Hour), Memory: 1 << 40, Systems: []string{"crm"},
		Pipelines: []instance.Pipeline{{Name: "p", State: "running", InFlight: 3, Lanes: 2, Breaker: "open", Error: "none"}}, Described: instance.Described{Applied: 3, Tried: 1 << 40, Refused: "why"}}
	two := instance.Instance{ID: "two", Version: "2", Started: start, Systems: []string{}, Pipelines: []instance.Pipeline{}}
	beat(t, s, instance.Instance{ID: "one", Version: "0", Started: one.Started})
	beat(t, s, two)
	c.advance(time.Second)
	beat(t, s, one)
	one.Seen, two.Seen = start.Add(time.Second), start
	if got, want := list(t, s), []instance.Instance{two, one}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed\n%+v\nwant\n%+v", got, want)
	}
}

func gone(t *testing.T, s instance.Store, c *clock) {
	beat(t, s, instance.Instance{ID: "stays", Started: start.Add(2)})
	beat(t, s, instance.Instance{ID: "gone", Started: start.Add(time.Millisecond)})
	beat(t, s, instance.Instance{ID: "ended", Started: start, Ended: true})
	c.advance(instance.Life + time.Millisecond)
	beat(t, s, instance.Instance{ID: "stays", Started: start.Add(2 * time.Millisecond)})
	for n, want := range []bool{true, false, false} {
		if i := list(t, s)[n]; i.Is(c.now()) != want {
			t.Errorf("%s is there: %v", i.ID, !want)
		}
	}
}

func forgets(t *testing.T, s instance.Store, c *clock) {
	beat(t, s, instance.Instance{ID: "old", Started: start})
	c.advance(instance.Kept - time.Second)
	beat(t, s, instance.Instance{ID: "new", Started: start})
	if err := s.Sweep(t.Context()); err != nil || len(list(t, s)) != 2 {
		t.Errorf("a second before: %v, %v", list(t, s), err)
	}
	c.advance(time.Second)
	if all := list(t, s); len(all) != 1 || all[0].ID != "new" {
		t.Errorf("a day later, before a sweep: %v", all)
	}
	if err := s.Sweep(t.Context()); err != nil || len(list(t, s)) != 1 {
		t.Errorf("a day later: %v, %v", list(t, s), err)
	}
}

func refuses(t *testing.T, s instance.Store, _ *clock) {
	for _, id := range []string{"", strings.Repeat("x", 101)} {
		if err := s.Beat(t.Context(), instance.Instance{ID: id}); err == nil {
			t.Errorf("an id of %d bytes was taken", len(id))
		}
	}
}

func many(t *testing.T, s instance.Store, _ *clock) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				if err := s.Beat(t.Context(), instance.Instance{ID: string(rune('a' + i)), Started: start}); err != nil {
					t.Error(err)
				}
				if _, err := s.List(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if all.Wait(); len(list(t, s)) != 8 {
		t.Errorf("there are %v", list(t, s))
	}
}
