package crm

import "sync"

// unwritten are jobs whose handlers are done, but whose end the sync log did not take. When
// they come again they are ended without being done again, as long as this process lives.
type unwritten struct {
	mu   sync.Mutex // guards jobs; held for short work in memory only
	jobs map[string]bool
}

// mostUnwritten bounds what is remembered. There are no more than are held at once, for each
// time that the sync log was away and their lease ended elsewhere.
const mostUnwritten = 10_000

func (u *unwritten) add(job string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.jobs == nil || len(u.jobs) >= mostUnwritten {
		u.jobs = map[string]bool{}
	}
	u.jobs[job] = true
}

// take says whether a job is one of them, which it is no longer then.
func (u *unwritten) take(job string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	is := u.jobs[job]
	delete(u.jobs, job)
	return is
}
