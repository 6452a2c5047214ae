package console_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/state/queue"
)

// readings counts how often queues are read.
type readings struct {
	queue.Store
	n atomic.Int64
}

func (r *readings) Standing(ctx context.Context) ([]queue.Standing, error) {
	if caller.From(ctx).Name != "" { // somebody asks; figures are read without
		r.n.Add(1)
	}
	return r.Store.Standing(ctx)
}

func TestQueuesAreReadOnceForAllWhoLook(t *testing.T) {
	at := time.Now()
	var r *readings
	w := newWorld(t, func(w *world, a *admin.Parts, c *console.Parts) {
		r = &readings{Store: w.queues}
		a.Queues = r
		c.Now = func() time.Time { return at }
	})
	w.fill("")
	for range 10 {
		w.Has(w.Page("/console/queues"), "q running 2")
		w.Page("/console/")
	}
	if n := r.n.Load(); n != 1 {
		t.Errorf("the queues were read %d times for 20 pages", n)
	}
	w.Confirm("/console/queues/q/pause", nil)
	if page := w.Page("/console/queues"); !strings.Contains(page, "/console/queues/q/resume") {
		t.Error("who has paused a queue does not see it")
	}
	before := r.n.Load()
	at = at.Add(2 * time.Second)
	if w.Page("/console/queues"); r.n.Load() != before+1 {
		t.Error("after two seconds they are not read again")
	}
}
