package sqlitequeue

import (
	"math/bits"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// fileLog is what has to be known of a queue's log on disk: how much it holds, which
// segments have jobs in memory, and what counts as used up should the process die. Its
// numbers are those of the last transaction that was reported; it knows no waiting job and
// no lease.
type fileLog struct {
	pending int64               // durable jobs that have not ended
	kept    [keptStates]int64   // jobs kept after their end, by keptState
	boot    uint64              // jobs up to here may have been handed out before this process began
	mark    uint64              // jobs up to here count as handed out once, should the process die
	epochs  uint32              // epochs up to here are used up, should the process die
	segs    map[uint64]*segment // those with jobs in memory
	gone    map[uint64]struct{} // jobs that ended while the file is read; nil: it is not read
}

// segment is the state of a segment while jobs of it are in memory.
type segment struct {
	first uint64
	n     int
	ended uint64 // bits of jobs that have left it, durably
	saved bool   // queue_ended has a row
	going uint64 // bits that leave in the transaction being written; guarded by the turn "ending"
}

// last is the position of its last job.
func (s *segment) last() uint64 { return s.first + uint64(s.n) - 1 }

func (s *segment) bit(n uint64) uint64 { return 1 << (n - s.first) }
func (s *segment) empty(ended uint64) bool {
	return bits.OnesCount64(ended) == s.n
}

// measure counts what the queue holds.
func (f *fileLog) measure(tx *sqlitedb.Tx, q *queueState) error {
	if err := tx.QueryRow(pendingSQL, q.pendingArgs()...).Scan(&f.pending); err != nil {
		return err
	}
	for state := range f.kept {
		if err := tx.QueryRow("SELECT count(*) FROM queue_kept WHERE queue=? AND state=?", q.no, state).Scan(&f.kept[state]); err != nil {
			return err
		}
	}
	return nil
}

// added counts jobs that were written, and notes the segments whose jobs were taken up.
func (f *fileLog) added(p *part) {
	for i := range p.pieces {
		if seg := p.pieces[i].seg; seg != nil {
			f.segs[seg.first] = seg
		}
	}
	f.pending += int64(len(p.jobs))
}

// watch begins to note jobs that end, or leave their segment, while the file is read. Only
// the holder of the turn "handing" reads so.
func (f *fileLog) watch() { f.gone = map[uint64]struct{}{} }

// unwatch returns the noted jobs.
func (f *fileLog) unwatch() map[uint64]struct{} {
	gone := f.gone
	f.gone = nil
	return gone
}

// share lets a job that was read share its segment with the others in memory.
func (f *fileLog) share(it *item) {
	if is := f.segs[it.seg.first]; is != nil {
		it.seg = is
	} else {
		f.segs[it.seg.first] = it.seg
	}
	if it.n <= f.boot {
		it.handed = max(it.handed, 1)
	}
}

// applied takes over a change that was written.
func (f *fileLog) applied(k *change) {
	for _, s := range k.touched {
		if f.gone != nil {
			for i := range s.n {
				if s.going&(1<<i) != 0 {
					f.gone[s.first+uint64(i)] = struct{}{}
				}
			}
		}
		s.ended |= s.going
		s.going = 0
		if s.saved = true; s.empty(s.ended) {
			delete(f.segs, s.first)
		}
	}
	if f.gone != nil {
		for _, n := range k.dropped {
			f.gone[n] = struct{}{}
		}
	}
	f.pending -= int64(k.left)
	if e := k.ends; e != nil {
		f.countKept(e)
	}
	f.mark = max(f.mark, k.mark)
	f.epochs = max(f.epochs, k.epochs)
}

// countKept counts what is kept after a change that was written.
func (f *fileLog) countKept(e *ends) {
	for _, r := range e.rows {
		f.kept[r.state]++
	}
	for state := range f.kept {
		f.kept[state] -= e.less[state] + e.trimmed[state]
	}
}
