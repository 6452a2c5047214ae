package sqlitequeue

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// line is one queue as this process sees it.
//
// Three turns are taken in this order, and never under the lock: receiving (to be the one
// that waits for jobs), handing (to choose waiting jobs, or to change them), ending (to
// change what is in the queue's segments). Without the turn handing a goroutine may add
// waiting jobs, and remove none.
type line struct {
	no        uint32
	name      string
	held      atomic.Int64                   // jobs in the queue, and those being added
	is        atomic.Pointer[queue.Settings] // the settings, for readers without the lock; never changed, only replaced
	receiving *semaphore.Weighted
	handing   *semaphore.Weighted
	ending    *semaphore.Weighted
	wake      waker

	mu  sync.Mutex // guards mem
	mem memory     // reached by lock alone
}

// waker tells the goroutine that waits for jobs to look again.
type waker chan struct{}

func (w waker) signal() {
	select {
	case w <- struct{}{}:
	default: // it was told already
	}
}

func newLine(no uint32, name string, r room) *line {
	wake := make(waker, 1)
	l := &line{
		no: no, name: name, wake: wake,
		receiving: semaphore.NewWeighted(1), handing: semaphore.NewWeighted(1), ending: semaphore.NewWeighted(1),
		mem: memory{
			log: fileLog{segs: map[uint64]*segment{}},
			waiting: waitingSet{wake: wake, room: r, apart: apart{no: no},
				strands: map[string]*group{}, backs: map[uint64]*item{}, tallies: map[tally]int64{},
				late: lateJobs{hot: map[uint64]struct{}{}}},
			leases: leases{wake: wake, outs: map[uint64]*out{}, grants: map[*grant]struct{}{}},
		},
	}
	l.obeys(l.lock(), new(queue.Settings))
	l.unlock()
	return l
}

// lock returns what the lock guards. Its caller uses that until unlock, and not after.
func (l *line) lock() *memory {
	l.mu.Lock()
	return &l.mem
}

func (l *line) unlock() { l.mu.Unlock() }

// obeys sets the queue's settings. They do not change afterwards.
func (l *line) obeys(mem *memory, s *queue.Settings) {
	l.is.Store(s)
	mem.obeys(s)
}

// starts takes over what the file says of the queue: its settings, if they were set, its last
// position, and up to where jobs and epochs may have been handed out.
func (l *line) starts(is *queue.Settings, end, handed uint64, epoch uint32) {
	mem := l.lock()
	defer l.unlock()
	if is != nil {
		l.obeys(mem, is)
	}
	mem.waiting.end, mem.log.boot, mem.log.mark = end, handed, handed
	mem.leases.epoch, mem.log.epochs = epoch, epoch
}

// measure counts what the queue holds and finds its groups, at the start.
func (l *line) measure(tx *sqlitedb.Tx) error {
	mem := l.lock()
	defer l.unlock()
	if err := mem.log.measure(tx, l); err != nil {
		return err
	}
	l.held.Store(mem.log.pending)
	var late int64
	if err := tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=?", l.no).Scan(&late); err != nil {
		return err
	}
	mem.waiting.late.stored(late)
	if mem.settings.Ordered {
		return mem.waiting.findChains(tx)
	}
	return mem.waiting.findGroups(tx)
}

// pendingSQL counts what a queue holds: the jobs in its segments, less those that have left
// them, and late jobs.
const pendingSQL = `SELECT
	(SELECT coalesce(sum(n),0) FROM queue_segment WHERE strand>=?1 AND strand<?2) -
	(SELECT coalesce(sum(gone),0) FROM queue_ended WHERE pos BETWEEN ?3 AND ?4) +
	(SELECT count(*) FROM queue_late WHERE queue=?5)`

func (l *line) pendingArgs() []any {
	return []any{strandsOf(l.no), strandsOf(l.no + 1), l.place(0), l.place(placeMask), l.no}
}

// came notes added jobs, in the order in which they were written: the part written first
// may be reported later.
func (l *line) came(p *part) {
	mem := l.lock()
	defer l.unlock()
	mem.came(p)
}

// putAt is the time that a job is delayed to. 0: at once.
func putAt(at time.Time, now time.Time) int64 {
	if !at.After(now) {
		return 0
	}
	return queue.MillisUp(at).UnixMilli()
}

// String names the queue in errors.
func (l *line) String() string { return fmt.Sprintf("queue %q", l.name) }
