//go:build servers

package faults

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/test/promise"
)

// bridgeEntry is one entry, and what its producer knows of it.
type bridgeEntry struct {
	promise.Entry
	ids     []string // by which it was confirmed
	unknown int      // lost answers: it may be there under another id
}

// bridgeLoad adds entries until it is stopped, and keeps a journal of the confirmed ones.
type bridgeLoad struct {
	w       *bridgeWorld
	quit    chan struct{}
	stop    func() // ends it once every entry has its confirmation; again: nothing
	ended   chan struct{}
	started time.Time

	mu        sync.Mutex // guards what follows
	entries   []*bridgeEntry
	confirmed int
}

// startBridgeLoad begins to add entries, some hundred a second, or n of them as fast as it
// can.
func (w *bridgeWorld) startBridgeLoad(n int) *bridgeLoad {
	l := &bridgeLoad{w: w, quit: make(chan struct{}), ended: make(chan struct{}), started: time.Now()}
	l.stop = sync.OnceFunc(func() {
		close(l.quit)
		select {
		case <-l.ended:
		case <-time.After(10 * time.Minute):
			w.Fatal("producers do not get their confirmations")
		}
		w.Logf("added: %d entries, %.0f a second", l.count(), float64(l.count())/time.Since(l.started).Seconds())
	})
	go l.run(n)
	w.Cleanup(l.stop)
	return l
}

func (l *bridgeLoad) count() int { l.mu.Lock(); defer l.mu.Unlock(); return l.confirmed }

const (
	loadEvery = 10 * time.Millisecond
	loadBatch = 5    // entries each time
	fillBatch = 1000 // when it has to be fast
)

func (l *bridgeLoad) run(n int) {
	defer close(l.ended)
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var due []*bridgeEntry
	for drawn, over := 0, false; ; {
		if len(due) == 0 && over {
			return
		}
		batch := loadBatch
		if n > 0 {
			batch = min(fillBatch, n-drawn)
			over = batch == 0
		} else {
			select {
			case <-l.quit:
				over = true
			case <-tick.C:
			}
		}
		if over {
			batch = 0
		}
		l.mu.Lock()
		for range batch {
			e := &bridgeEntry{Entry: promise.DrawEntry(drawn)}
			l.entries = append(l.entries, e)
			due = append(due, e)
			drawn++
		}
		l.mu.Unlock()
		left := l.add(due)
		if due = append(due[:0], left...); len(due) > 0 {
			select {
			case <-time.After(50 * time.Millisecond): // a producer waits before it tries again
			case <-l.w.Context().Done():
				return
			}
		}
	}
}

// add adds entries and returns those that have no confirmation.
func (l *bridgeLoad) add(batch []*bridgeEntry) (left []*bridgeEntry) {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.w.Context()), 3*time.Second)
	defer cancel()
	cmds := make([]rueidis.Completed, len(batch))
	for i, e := range batch {
		cmds[i] = l.w.client.B().Arbitrary("XADD").Keys(bridgeStream).Args("*").Args(e.Fields...).Build()
	}
	answers := l.w.client.DoMulti(ctx, cmds...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range answers {
		e := batch[i]
		id, err := r.ToString()
		if err == nil {
			e.ids = append(e.ids, id)
			l.confirmed++
			continue
		}
		if _, refused := rueidis.IsRedisErr(err); !refused {
			e.unknown++
		}
		left = append(left, e)
	}
	return slices.Clip(left)
}
