package crm

import (
	"context"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// How much is held by how long handlers take: what is urgent waits behind no more of their
// work than paceTime, but always so much is held that no worker waits. What is held beyond
// that shares the writes of sync log and queue, which is what makes fast handlers fast.
const (
	paceTime = 25 * time.Millisecond
	paceMost = 25 // times the least, at the most; more made it no faster
)

// whole is what a queue's source can do.
type whole interface {
	tidemill.Source
	tidemill.Keeper
	tidemill.Gater
	tidemill.Bookkeeper
}

// paced is a source that hands out at first what is the least, and more where handlers are
// fast.
type paced struct {
	whole
	workers, least, most int
	room                 chan struct{} // tells who waits for room that there may be some

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

// free is how many of so many may be received now.
func (p *paced) free(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, min(most, p.grant-p.held))
}

// took takes in how long handlers had for events. What is granted follows from the last of
// them, as many as the workers do at once twice over.
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
		if ends[i].Took != tidemill.Unanswered {
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
