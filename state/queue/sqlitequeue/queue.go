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

// queueState is one queue as this process sees it.
//
// Three turns are taken in this order, and never under the lock: receiving (to be the one
// that waits for jobs), handing (to choose waiting jobs, or to change them), ending (to
// change what is in the queue's segments). Without the turn handing a goroutine may add
// waiting jobs, and remove none.
type queueState struct {
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

func newQueueState(no uint32, name string, r bounds) *queueState {
	wake := make(waker, 1)
	q := &queueState{
		no: no, name: name, wake: wake,
		receiving: semaphore.NewWeighted(1), handing: semaphore.NewWeighted(1), ending: semaphore.NewWeighted(1),
		mem: memory{
			log: fileLog{segs: map[uint64]*segment{}},
			waiting: waitingSet{wake: wake, bounds: r, apart: apart{no: no},
				groups: map[string]*group{}, backs: map[uint64]*item{}, tallies: map[tally]int64{},
				late: lateJobs{hot: map[uint64]struct{}{}}},
			leases: leases{wake: wake, outs: map[uint64]*out{}, grants: map[*grant]struct{}{}},
		},
	}
	q.setSettings(q.lock(), new(queue.Settings))
	q.unlock()
	return q
}

// lock returns what the lock guards. Its caller uses that until unlock, and not after.
func (q *queueState) lock() *memory {
	q.mu.Lock()
	return &q.mem
}

func (q *queueState) unlock() { q.mu.Unlock() }

// setSettings sets the queue's settings. They do not change afterwards.
func (q *queueState) setSettings(mem *memory, s *queue.Settings) {
	q.is.Store(s)
	mem.setSettings(s)
}

// restore takes over what the file says of the queue: its settings, if they were set, its last
// position, and up to where jobs and epochs may have been handed out.
func (q *queueState) restore(is *queue.Settings, end, handed uint64, epoch uint32) {
	mem := q.lock()
	defer q.unlock()
	if is != nil {
		q.setSettings(mem, is)
	}
	mem.waiting.end, mem.log.boot, mem.log.mark = end, handed, handed
	mem.leases.epoch, mem.log.epochs = epoch, epoch
}

// measure counts what the queue holds and finds its groups, at the start.
func (q *queueState) measure(tx *sqlitedb.Tx) error {
	mem := q.lock()
	defer q.unlock()
	if err := mem.log.measure(tx, q); err != nil {
		return err
	}
	q.held.Store(mem.log.pending)
	var late int64
	if err := tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=?", q.no).Scan(&late); err != nil {
		return err
	}
	mem.waiting.late.start(late)
	if mem.settings.Ordered {
		return mem.waiting.findOrdered(tx)
	}
	return mem.waiting.findGroups(tx)
}

// pendingSQL counts what a queue holds: the jobs in its segments, less those that have left
// them, and late jobs.
const pendingSQL = `SELECT
	(SELECT coalesce(sum(n),0) FROM queue_segment WHERE strand>=?1 AND strand<?2) -
	(SELECT coalesce(sum(gone),0) FROM queue_ended WHERE pos BETWEEN ?3 AND ?4) +
	(SELECT count(*) FROM queue_late WHERE queue=?5)`

func (q *queueState) pendingArgs() []any {
	return []any{groupsFrom(q.no), groupsFrom(q.no + 1), q.filePos(0), q.filePos(posMask), q.no}
}

// added notes added jobs, in the order in which they were written: the part written first
// may be reported later.
func (q *queueState) added(p *part) {
	mem := q.lock()
	defer q.unlock()
	mem.added(p)
}

// putAt is the time that a job is delayed to. 0: at once.
func putAt(at time.Time, now time.Time) int64 {
	if !at.After(now) {
		return 0
	}
	return queue.MillisUp(at).UnixMilli()
}

// String names the queue in errors.
func (q *queueState) String() string { return fmt.Sprintf("queue %q", q.name) }
