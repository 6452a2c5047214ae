package crm

import (
	"context"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// How much is held depends on how long handlers take: an urgent event waits behind at most
// paceTime of their work, but enough is always held that no worker waits. More held events
// share the writes of sync log and queue, which makes fast handlers fast.
const (
	paceTime = 25 * time.Millisecond
	paceMost = 25 // times the least; more made it no faster
)

// whole is what a queue's source can do.
type whole interface {
	tidemill.Source
	tidemill.Keeper
	tidemill.Gater
	tidemill.Bookkeeper
}

// paced is a source that first hands out the least, and more while handlers are fast.
type paced struct {
	whole
	workers, least, most int
	room                 chan struct{} // tells a waiting Receive that there may be room

	mu    sync.Mutex // guards what follows; held for short work in memory only
	held  int
	grant int
	spent time.Duration // by handlers, since grant was decided, on so many events
	on    int
}

func newPaced(s whole, workers, least int) *paced {
	return &paced{whole: s, workers: workers, least: least, most: paceMost * least, grant: least, room: make(chan struct{}, 1)}
}

// Receive implements tidemill.Source.
func (p *paced) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if n := p.free(len(into)); n > 0 || len(into) == 0 {
			n, err := p.whole.Receive(ctx, into[:n])
			p.mu.Lock()
			p.held += n
			p.mu.Unlock()
			return n, err
		}
		select {
		case <-p.room:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// free is how many of most may be received now.
func (p *paced) free(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, min(most, p.grant-p.held))
}

// took notes how long handlers took for events. The grant follows from the last of them, twice
// as many as the workers do at once.
func (p *paced) took(d time.Duration, events int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent, p.on = p.spent+d, p.on+events
	if p.on < 2*p.workers && p.spent < paceTime {
		return
	}
	wish := float64(p.most)
	if p.spent > 0 {
		wish = min(wish, float64(p.workers)*float64(paceTime)*float64(p.on)/float64(p.spent))
	}
	p.grant = max(p.least, int(wish))
	p.spent, p.on = 0, 0
}

// Settle implements tidemill.Source.
func (p *paced) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	err := p.whole.Settle(ctx, ends)
	p.mu.Lock()
	for i := range ends {
		if ends[i].Outcome != tidemill.Unanswered {
			p.held--
		}
	}
	p.mu.Unlock()
	select {
	case p.room <- struct{}{}:
	default:
	}
	return err
}
