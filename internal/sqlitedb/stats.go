package sqlitedb

import (
	"sync/atomic"
	"time"
)

// Stats are what the writer has done since the file was opened.
type Stats struct {
	Groups   uint64        // transactions
	Calls    uint64        // calls of Write that shared them
	Working  time.Duration // in callers' changes
	Commits  time.Duration // in commits: log and disk
	Restarts uint64        // of the log, after a checkpoint
}

type stats struct {
	groups, calls, restarts atomic.Uint64
	working, commits        atomic.Int64
}

func (s *stats) group(calls int, working, commit time.Duration) {
	s.groups.Add(1)
	s.calls.Add(uint64(calls))
	s.working.Add(int64(working))
	s.commits.Add(int64(commit))
}

// Stats returns what the writer has done.
func (d *DB) Stats() Stats {
	s := &d.stats
	return Stats{Groups: s.groups.Load(), Calls: s.calls.Load(), Restarts: s.restarts.Load(),
		Working: time.Duration(s.working.Load()), Commits: time.Duration(s.commits.Load())}
}
