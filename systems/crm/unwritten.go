package crm

import "sync"

// unwritten are jobs whose handlers are done, but whose end the sync log does not know yet: it
// is being written, or was not accepted. If they come again they are ended without being done
// again, while this process lives.
type unwritten struct {
	mu   sync.Mutex // guards jobs; held for short work in memory only
	jobs map[work]bool
}

// work is what a job is for: an event, and for whom (see did).
type work struct{ event, request string }

// mostUnwritten bounds the memory. Only ends that the sync log did not accept stay, so they are
// at most as many as are held at once, for each time that it was down and their lease ended
// elsewhere.
const mostUnwritten = 10_000

// add notes work that is done.
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

// has reports whether the work is noted.
func (u *unwritten) has(w work) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.jobs[w]
}

// written forgets work that the sync log knows now.
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
