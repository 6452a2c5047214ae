package redisqueue

import (
	"context"
	"sync"
)

// group lets callers who add at the same time share scripts: each costs Redis as much as
// some jobs do. While as many as may are under way, callers wait; the first of them sends
// for all. Nobody waits for others to come.
type group struct {
	mu      sync.Mutex
	flying  int
	waiting []*call
}

// flights are scripts under way at once: while Redis works on one, the next is on its way.
const flights = 2

// call is one caller's jobs.
type call struct {
	args              []string
	runs, jobs, bytes int

	lead chan struct{} // closed: send it, with those that wait behind it
	done chan struct{} // closed: it has its answer
	took string
	err  error
}

func newCall(jobs, bytes int) *call {
	return &call{jobs: jobs, bytes: bytes, lead: make(chan struct{}), done: make(chan struct{})}
}

// do sends a call, or lets another send it. When ctx ends before it was answered, it may
// still be sent.
func (g *group) do(ctx context.Context, s *Store, shard int, c *call) error {
	g.mu.Lock()
	if g.flying < flights {
		g.flying++
		g.mu.Unlock()
		g.send(ctx, s, shard, []*call{c})
		return c.err
	}
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-c.lead:
	case <-ctx.Done():
		if !g.leave(c) {
			select { // too late: it is being sent, or is to lead
			case <-c.done:
				return c.err
			case <-c.lead:
			}
			break
		}
		return ctx.Err()
	}
	g.mu.Lock()
	calls := []*call{c}
	jobs, bytes := c.jobs, c.bytes
	for len(g.waiting) > 0 {
		next := g.waiting[0]
		if jobs+next.jobs > addJobs || bytes+next.bytes > addBytes {
			break
		}
		jobs, bytes = jobs+next.jobs, bytes+next.bytes
		calls = append(calls, next)
		g.waiting = g.waiting[1:]
	}
	g.mu.Unlock()
	g.send(ctx, s, shard, calls)
	return c.err
}

// leave takes a call out of those that wait, if it is among them.
func (g *group) leave(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == c {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// send sends calls, answers them, and lets the next that waits lead.
func (g *group) send(ctx context.Context, s *Store, shard int, calls []*call) {
	err := s.add(ctx, shard, calls)
	g.mu.Lock()
	if len(g.waiting) > 0 {
		close(g.waiting[0].lead)
		g.waiting = g.waiting[1:]
	} else {
		g.flying--
	}
	g.mu.Unlock()
	for _, c := range calls {
		c.err = err
		close(c.done)
	}
}
