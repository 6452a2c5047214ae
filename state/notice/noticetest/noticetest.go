// Package noticetest holds every promise of the role as a case that each backend passes.
package noticetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/notice"
)

// within is how long a case waits for a notice that has to come.
const within = 20 * time.Second

// Run runs all cases. Open returns what opens the notices of one name, each time as another process would.
func Run(t *testing.T, open func(*testing.T) func() notice.Notices) {
	for _, c := range []struct {
		name string
		do   func(*testing.T, func() notice.Notices)
	}{
		{"wakes all who listen, in other processes too", wakes},
		{"keeps what is told between Listen and Wait, and between two waits", keeps},
		{"is told once for any number of notices before a wait, or more often", many},
		{"ends with its context", ends},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, open(t)) })
	}
}

func listen(t *testing.T, n notice.Notices) notice.Listener {
	t.Helper()
	l, err := n.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if n.How() == "" {
		t.Error("it does not say how a notice comes")
	}
	return l
}

func tell(t *testing.T, n notice.Notices) {
	t.Helper()
	if err := n.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func waits(t *testing.T, l notice.Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		t.Errorf("a notice does not come: %v", err)
	}
}

func wakes(t *testing.T, open func() notice.Notices) {
	a, b := open(), open()
	var all sync.WaitGroup
	for _, n := range []notice.Notices{a, a, b, b} {
		l := listen(t, n)
		all.Go(func() { waits(t, l) })
	}
	tell(t, b)
	all.Wait()
}

func keeps(t *testing.T, open func() notice.Notices) {
	a, b := open(), open()
	l := listen(t, a)
	tell(t, b)
	waits(t, l)
	tell(t, b)
	waits(t, l)
}

func many(t *testing.T, open func() notice.Notices) {
	a, b := open(), open()
	l := listen(t, a)
	for range 20 {
		tell(t, b)
	}
	waits(t, l)
}

func ends(t *testing.T, open func() notice.Notices) {
	l := listen(t, open())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for { // one that polls is woken before
		if err := l.Wait(ctx); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ends with %v", err)
			}
			break
		}
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context has ended it returns %v", err)
	}
	tell(t, open())
}
