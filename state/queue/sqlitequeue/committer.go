package sqlitequeue

import (
	"context"
	"slices"
	"sync"
)

// committer brings callers of Add together: a caller waits while others are being written, and
// is then written with all that wait. So single events from many clients share
// segments and statements too, not only the wait for the disk.
type committer struct {
	mu      sync.Mutex
	leaders int // callers that write for all
	waiting []*intake
}

const (
	groupLeaders = 2    // one is being written while the other's answer is being returned
	groupJobs    = 4096 // a group accepts no more once it has that many jobs
)

// write writes what is prepared, alone or with others, and returns when it is durable.
func (g *committer) write(ctx context.Context, s *Store, in *intake) error {
	if in.fresh() == 0 {
		in.finish(s, nil)
		return nil
	}
	if g.join(in) || g.waits(ctx, s, in) {
		g.take(ctx, s)
		g.pass()
	}
	<-in.done // once it is being written, wait for the outcome
	return in.err
}

// waits waits until in is written, given up, or to lead the next group.
func (g *committer) waits(ctx context.Context, s *Store, in *intake) (lead bool) {
	select {
	case <-in.done:
	case <-in.lead:
		return true
	case <-ctx.Done():
		if g.withdraw(in) {
			in.finish(s, ctx.Err())
		}
	}
	select {
	case <-in.lead: // another one wrote it first, but the lead must not get lost
		return true
	default:
		return false
	}
}

// join adds a caller to those that wait, and says whether it leads at once.
func (g *committer) join(in *intake) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, in)
	if g.leaders == groupLeaders {
		return false
	}
	g.leaders++
	in.leads = true
	return true
}

// withdraw removes a caller from those that wait; false: too late, it is being written.
func (g *committer) withdraw(in *intake) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, in)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// take writes the first of the waiting callers. Others depend on it: the end of the
// leader's context does not stop it.
func (g *committer) take(ctx context.Context, s *Store) {
	g.mu.Lock()
	n, jobs := 0, 0
	for n < len(g.waiting) && jobs < groupJobs {
		jobs += len(g.waiting[n].jobs)
		n++
	}
	taken := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.mu.Unlock()
	if n > 0 { // else another leader took them all
		b := newBatch(taken)
		b.finish(s, b.write(context.WithoutCancel(ctx), s, nil))
	}
}

// pass gives the lead to the first caller that waits for it, or gives it up.
func (g *committer) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, in := range g.waiting {
		if !in.leads {
			in.leads = true
			in.lead <- struct{}{}
			return
		}
	}
	g.leaders--
}
