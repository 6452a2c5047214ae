package crm

import "sync"

// unwritten are jobs whose handlers are done, while the sync log does not know so far: their
// end is on its way, or it did not take it. When they come again they are ended without
// being done again, as long as this process lives.
type unwritten struct {
	mu   sync.Mutex // guards jobs; held for short work in memory only
	jobs map[work]bool
}

// work is what a job is for: an event, and for whose sake (see did).
type work struct{ event, request string }

// mostUnwritten bounds what is remembered. Only what the sync log did not take stays, so
// there are no more than are held at once, for each time that it was away and their lease
// ended elsewhere.
const mostUnwritten = 10_000

// add notes what is done.
func (u *unwritten) add(done []work) {
	if len(done) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.jobs == nil || len(u.jobs) >= mostUnwritten {
		u.jobs = make(map[work]bool, len(done))
	}
	for _, w := range done {
		u.jobs[w] = true
	}
}

// has says whether something is among it.
func (u *unwritten) has(w work) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.jobs[w]
}

// written forgets what the sync log knows now.
func (u *unwritten) written(done []work) {
	if len(done) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range done {
		delete(u.jobs, w)
	}
}
