package sqlitedb

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/giveway"
)

// blocked has the writer wait in a change, until what it returns is called.
func blocked(t *testing.T, d *DB, all *sync.WaitGroup) (release func()) {
	t.Helper()
	holds, free := make(chan struct{}), make(chan struct{})
	all.Go(func() {
		if err := d.Write(t.Context(), func(*Tx) error { close(holds); <-free; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-holds
	return func() { close(free) }
}

// waits returns when so many changes wait.
func waits(line chan *request, n int) {
	for len(line) < n {
		runtime.Gosched() // they are about to be in it
	}
}

// What a request waits for is written before all work that waits, in whatever order they came.
func TestUrgentChangesGoFirst(t *testing.T) {
	d := open(t, Options{})
	var all sync.WaitGroup
	var order []string
	write := func(ctx context.Context, name string) {
		all.Go(func() {
			if err := d.Write(ctx, func(*Tx) error { order = append(order, name); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	release := blocked(t, d, &all)
	for range 3 {
		write(t.Context(), "work")
	}
	waits(d.requests, 3)
	for range 2 {
		write(giveway.First(t.Context()), "urgent")
	}
	waits(d.urgent, 2)
	release()
	all.Wait()
	if got := fmt.Sprint(order); got != "[urgent urgent work work work]" {
		t.Errorf("they were written as %v", got)
	}
}

// Urgent changes that never end leave the writer to others, too.
func TestUrgentChangesStarveNobody(t *testing.T) {
	d := open(t, Options{})
	var all sync.WaitGroup
	var enough atomic.Bool
	var urgent func()
	var come sync.Once
	coming := make(chan struct{})
	urgent = func() {
		all.Go(func() {
			if err := d.Write(giveway.First(t.Context()), func(*Tx) error {
				come.Do(func() { close(coming) })
				if !enough.Load() { // one waits whenever the writer looks
					urgent()
					waits(d.urgent, 1)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	urgent()
	<-coming
	for range 5 { // without its turn each would wait for ever
		if err := d.Write(t.Context(), func(*Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	enough.Store(true)
	all.Wait()
}

// Changes that were begun before Close are written, urgent ones and others.
func TestCloseWaitsForAllThatWasBegun(t *testing.T) {
	d := open(t, Options{})
	var all sync.WaitGroup
	release := blocked(t, d, &all)
	wrote := 0
	for _, ctx := range []context.Context{giveway.First(t.Context()), t.Context()} {
		for range 3 {
			all.Go(func() {
				if err := d.Write(ctx, func(*Tx) error { wrote++; time.Sleep(shortTime); return nil }); err != nil { // it takes that long
					t.Error(err)
				}
			})
		}
	}
	waits(d.urgent, 3)
	waits(d.requests, 3)
	all.Go(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	<-d.closing
	release()
	all.Wait()
	if wrote != 6 {
		t.Errorf("%d of 6 were written", wrote)
	}
}

// Who joins a group: urgent ones first, and after them nobody whom they would wait for; where it is
// the turn of others, these alone, and not for long.
func TestWhoJoinsAGroup(t *testing.T) {
	work, urgent := &request{}, &request{urgent: true}
	for _, c := range []struct {
		group  []*request
		ago    time.Duration
		turn   bool
		waits  []*request
		first  bool // requests come
		joined *request
	}{
		{nil, 0, false, []*request{work, urgent}, true, urgent},
		{[]*request{work}, 0, false, []*request{work, urgent}, true, urgent},
		{[]*request{work}, 0, false, []*request{work}, true, work},
		{[]*request{work, urgent}, 0, false, []*request{work}, true, nil},
		{[]*request{urgent}, 0, false, []*request{work}, true, nil},
		{[]*request{urgent}, 0, false, []*request{urgent}, true, urgent},
		{[]*request{work}, 0, true, []*request{work, urgent}, true, work},
		{[]*request{work}, 0, true, []*request{urgent}, true, nil},
		{[]*request{work}, 2 * shortTime, true, []*request{work, urgent}, true, nil},
		{[]*request{work}, 2 * shortTime, false, []*request{work}, true, nil},
		{[]*request{work}, 2 * shortTime, false, []*request{work}, false, work},
	} {
		d := &DB{urgent: make(chan *request, 2), requests: make(chan *request, 2)}
		for _, r := range c.waits {
			if r.urgent {
				d.urgent <- r
			} else {
				d.requests <- r
			}
		}
		if c.first {
			defer d.gate.Enter(giveway.First(t.Context()))()
		}
		if got := d.more(c.group, c.ago, c.turn); got != c.joined {
			t.Errorf("%+v: %+v joined", c, got)
		}
	}
}
