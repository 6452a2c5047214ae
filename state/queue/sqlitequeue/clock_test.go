package sqlitequeue

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// clocked is a store with a clock that is set by hand.
type clocked struct {
	*testing.T
	*Store
	at  time.Time
	src tidemill.Source
}

func newClocked(t *testing.T, o Options) *clocked {
	c := &clocked{T: t, at: time.UnixMilli(1_800_000_000_000)}
	o.Now = func() time.Time { return c.at }
	c.Store = newFile(t, o).open()
	c.src = c.Open("q", queue.Options{Lease: 100 * time.Hour})
	return c
}

func (c *clocked) add(ms ...*tidemill.Message) {
	c.Helper()
	if err := c.Add(c.Context(), ms, nil); err != nil {
		c.Fatal(err)
	}
}

func (c *clocked) set(change func(*queue.Settings)) {
	c.Helper()
	if _, err := c.Set(c.Context(), "q", change); err != nil {
		c.Fatal(err)
	}
}

// now is what one call hands out.
func (c *clocked) now(n int) []*tidemill.Message {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 500*time.Millisecond)
	defer cancel()
	into := slots(n)
	got, err := c.src.Receive(ctx, into)
	if err != nil && ctx.Err() == nil {
		c.Fatal(err)
	}
	return into[:got]
}

// A clock that was ahead for a day, and is right again, delays no job until then.
func TestAClockThatWasAheadPutsNobodyOff(t *testing.T) {
	for name, putOff := range map[string]func(*clocked, *tidemill.Message){
		"a retry": func(c *clocked, m *tidemill.Message) {
			if err := c.src.Settle(c.Context(), []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: time.Second}}); err != nil {
				c.Fatal(err)
			}
		},
		"a delayed job": func(c *clocked, _ *tidemill.Message) {
			c.add(&tidemill.Message{ID: "new", To: "q", At: c.at.Add(time.Second)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t, Options{})
			ms := numbered(3)
			ms[1].At, ms[2].At = c.at.Add(time.Minute), c.at.Add(23*time.Hour)
			c.add(ms...)
			first := c.now(1)
			c.at = c.at.Add(24 * time.Hour)
			if got := c.now(1); len(got) != 1 || got[0].ID != "1" {
				t.Fatalf("%d jobs came due in a day, want the first", len(got))
			}
			c.at = c.at.Add(-24 * time.Hour)
			putOff(c, first[0])
			c.at = c.at.Add(time.Hour)
			ids := map[string]bool{}
			for _, m := range c.now(10) {
				ids[m.ID] = true
			}
			if !ids["0"] && !ids["new"] {
				t.Errorf("what was put off for a second has not come in an hour, only %v", ids)
			}
			if ids["1"] {
				t.Error("a job that is out was handed out again")
			}
		})
	}
}
