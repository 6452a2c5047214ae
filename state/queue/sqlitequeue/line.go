package sqlitequeue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// line is one queue as this process sees it.
//
// Three turns are taken in this order, and never while mu is held: waiting (to be the one
// who waits for jobs), handing (to choose jobs that wait, or to change them), ending (to
// change what is in the queue's segments). Whoever has not the turn handing may add to what
// waits, and takes nothing away.
type line struct {
	no      uint32
	name    string
	room    room
	held    atomic.Int64                   // jobs in the queue, and those on their way in
	is      atomic.Pointer[queue.Settings] // the settings, for who does not hold mu; never changed, only replaced
	waiting *semaphore.Weighted
	handing *semaphore.Weighted
	ending  *semaphore.Weighted
	wake    chan struct{} // cap 1: whoever waits for jobs shall look again

	mu       sync.Mutex
	settings *queue.Settings // as in is
	version  int             // how often they were set
	apart    apart           // as they say

	end     uint64  // position of the newest job that is durable, and of all before it
	early   []*part // durable too, and nobody has said so of those before them
	pending int64   // durable jobs that have not ended
	boot    uint64  // jobs up to here may have been handed out before this process began
	mark    uint64  // jobs up to here count as handed out once, should the process die
	epoch   uint32  // of the last hand-out
	epochs  uint32  // epochs up to here are used up, should the process die

	levels   []*level           // those that ever had a job, the highest first
	pass     float64            // of the level that was served last
	strands  map[string]*strand // those that have jobs which wait, or somebody who holds them back
	backs    map[uint64]*item   // what is in their backs
	ahead    int                // jobs that were read ahead
	asking   []*strand          // chains to be looked up in the file
	tallies  map[tally]int64    // jobs that wait
	vague    bool               // there may be late jobs in the file, due or put off, that hold chains
	unlisted bool               // there may be strands in the file that are not among them
	listed   []byte             // the strand up to which those were looked for
	missed   bool               // more of them came since that began
	relists  bool               // strands are read again, whose jobs may be out
	stuck    bool               // more were asked for than may go on of those in memory
	limited  bool               // the same, not by the limit of the queue, and there was no room for others
	dropped  bool               // some that came due were dropped from memory
	since    int                // the round in which somebody went on
	round    int                // how often all strands in the file were looked through
	segs     map[uint64]*segment

	limits
	again time.Time // when somebody whom a limit holds back may go on; zero: nobody is

	outs   map[uint64]*out
	grants map[*grant]struct{}
	expiry time.Time // no lease ends before; zero: none is out
	gate   gate

	late   int64               // rows in queue_late
	hot    map[uint64]struct{} // those of them that wait in memory, or are out
	gone   map[uint64]struct{} // those that ended while late jobs are being read; nil: they are not
	seen   dueMark             // what came due up to here was looked at
	nextAt int64               // when the next late job comes due; 0: never
	redo   time.Time           // when to look at all that is due again; zero: none was dropped
	kept   [2]int64            // jobs kept after their end, by keptState
}

// tally is what waiting jobs are counted by.
type tally struct {
	priority uint8
	tenant   string
}

// dueMark is a place in the order of queue_late by time; those without a time come first.
type dueMark struct {
	at    int64
	place int64
}

// lastPlace is after all others of a time.
const lastPlace = 1<<63 - 1

func (m dueMark) less(o dueMark) bool { return m.at < o.at || m.at == o.at && m.place < o.place }

func newLine(no uint32, name string, r room) *line {
	l := &line{
		no: no, name: name, room: r, wake: make(chan struct{}, 1),
		waiting: semaphore.NewWeighted(1), handing: semaphore.NewWeighted(1), ending: semaphore.NewWeighted(1),
		strands: map[string]*strand{}, backs: map[uint64]*item{}, tallies: map[tally]int64{},
		segs: map[uint64]*segment{}, outs: map[uint64]*out{}, grants: map[*grant]struct{}{}, hot: map[uint64]struct{}{},
	}
	l.obeys(new(queue.Settings))
	return l
}

// obeys makes the settings those of the queue. Nobody changes them afterwards. mu is held.
func (l *line) obeys(s *queue.Settings) {
	if l.settings != nil && !s.SameLimits(l.settings) {
		clear(l.spent)
	}
	l.settings, l.apart = s, howApart(s)
	l.is.Store(s)
	l.version++
	if l.obey(s); !l.counts {
		return
	}
	for _, o := range l.outs { // in any order: they are only counted
		if !o.counted {
			o.counted = true
			l.bound(&o.item, 1)
		}
	}
}

// tally counts n more jobs that wait: of a strand, or of a chain's job. mu is held.
func (l *line) tally(s *strand, it *item, n int64) {
	t := tally{s.priority, s.tenant}
	if s.chain {
		t.priority = it.priority
	}
	if l.tallies[t] += n; l.tallies[t] == 0 {
		delete(l.tallies, t)
	}
}

// measure counts what the queue holds and finds its strands, at the start.
func (l *line) measure(tx *sqlitedb.Tx) error {
	if err := tx.QueryRow(pendingSQL, l.pendingArgs()...).Scan(&l.pending); err != nil {
		return err
	}
	l.held.Store(l.pending)
	if err := tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=?", l.no).Scan(&l.late); err != nil {
		return err
	}
	if l.late > 0 { // all that is due is to be looked at, from the beginning
		l.seen, l.nextAt, l.vague = dueMark{at: -1}, 1, true
	}
	for state := range l.kept {
		if err := tx.QueryRow("SELECT count(*) FROM queue_kept WHERE queue=? AND state=?", l.no, state).Scan(&l.kept[state]); err != nil {
			return err
		}
	}
	if l.settings.Ordered {
		return l.measureChains(tx)
	}
	rows, err := tx.Query(strandsSQL, strandsOf(l.no), strandsOf(l.no+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var jobs, last int64
		if err := rows.Scan(&id, &jobs, &last); err != nil {
			return err
		}
		l.found(id, last, jobs, -1)
	}
	return rows.Err()
}

// strandsSQL finds the strands of a queue, what each holds, and where it ends.
const strandsSQL = `SELECT s.strand, sum(s.n)-coalesce(sum(e.gone),0), max(s.pos)
	FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
	WHERE s.strand>=? AND s.strand<? GROUP BY s.strand`

// measureChains does the same where order is strict: the jobs of a chain have different
// priorities.
func (l *line) measureChains(tx *sqlitedb.Tx) error {
	rows, err := tx.Query(`SELECT s.strand, s.pos, s.n-coalesce(e.gone,0), s.priority
		FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
		WHERE s.strand>=? AND s.strand<? ORDER BY s.strand, s.pos`, strandsOf(l.no), strandsOf(l.no+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var last, jobs int64
		var priority int
		if err := rows.Scan(&id, &last, &jobs, &priority); err != nil {
			return err
		}
		l.found(id, last, jobs, priority)
	}
	return rows.Err()
}

// found takes note of jobs of a strand in the file, the last of whose segments begins at
// that place. priority -1: the strand's.
func (l *line) found(id []byte, last, jobs int64, priority int) {
	s := readStrand(id)
	of := item{priority: s.priority}
	if priority >= 0 {
		of.priority = uint8(priority)
	}
	l.tally(s, &of, jobs)
	if is := l.strands[s.id]; is != nil {
		s = is
	} else if l.full() {
		l.unlisted = true
		return
	} else {
		s = l.keep(s)
	}
	s.end = max(s.end, position(last))
	l.seat(s)
}

// pendingSQL looks for what a queue holds: what its segments hold, less what has left
// them, and what is late.
const pendingSQL = `SELECT
	(SELECT coalesce(sum(n),0) FROM queue_segment WHERE strand>=?1 AND strand<?2) -
	(SELECT coalesce(sum(gone),0) FROM queue_ended WHERE pos BETWEEN ?3 AND ?4) +
	(SELECT count(*) FROM queue_late WHERE queue=?5)`

func (l *line) pendingArgs() []any {
	return []any{strandsOf(l.no), strandsOf(l.no + 1), l.place(0), l.place(placeMask), l.no}
}

// signal lets whoever waits for jobs look again.
func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next is when time alone will change something, if most jobs may be handed out now;
// zero: never. mu is held.
func (l *line) next(now time.Time, most int) time.Time {
	if l.gate.closed && l.gate.until.After(now) {
		return l.gate.until
	}
	at := l.expiry
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if l.nextAt > 0 && most > 0 {
		if at := time.UnixMilli(l.nextAt); len(l.backs) < l.room.backs {
			sooner(at)
		} else if soon := now.Add(time.Second); l.limited && at.Before(soon) { // see drop
			sooner(soon)
		}
	}
	if !l.redo.IsZero() && most > 0 {
		sooner(l.redo)
	}
	if !l.again.IsZero() && most > 0 {
		sooner(l.again)
	}
	return at
}

// came takes note of jobs that were added, in the order in which they were written: who was
// written first may be later to say so.
func (l *line) came(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = append(l.early, p)
	for i := 0; i < len(l.early); i++ {
		if next := l.early[i]; next.base == l.end {
			l.early = slices.Delete(l.early, i, i+1)
			l.takes(next)
			i = -1
		}
	}
}

// takes takes up the jobs of a part. Those that are due are handed over in memory while
// whoever hands out keeps up; else they are read when their turn comes. mu is held.
func (l *line) takes(p *part) {
	few := p.bytes < pageBytes
	var s *strand
	for i := range p.pieces {
		pc := &p.pieces[i]
		first, n := p.jobs[pc.from].n, pc.to-pc.from
		if s == nil || s.id != string(pc.strand) || l.strands[s.id] != s {
			s = l.strands[string(pc.strand)]
		}
		if s == nil {
			s = readStrand(pc.strand)
			if s.key != "" && l.full() {
				l.unlisted, l.missed = true, true // found in the file when others are done
				l.tally(s, &item{priority: pc.priority}, int64(n))
				continue
			}
			s = l.keep(s)
		}
		of := item{priority: pc.priority}
		l.tally(s, &of, int64(n))
		all := !s.unread() // that came before was read
		if all {
			s.cursor = max(s.cursor, first-1)
		}
		if all && few && l.ahead < l.room.ahead {
			seg := &segment{first: first, n: n}
			l.segs[first] = seg
			for _, j := range p.jobs[pc.from:pc.to] {
				it := item{n: j.n, seg: seg, rec: j.rec, strand: s}
				if s.chain {
					it.due, it.priority = j.added, j.priority
				}
				s.ready = append(s.ready, it)
			}
			l.ahead += n
			s.cursor = first + uint64(n) - 1
		}
		s.end = first + uint64(n) - 1
		l.seat(s)
	}
	for _, i := range p.late {
		l.late++
		switch j := p.jobs[i]; {
		case j.at > 0:
			l.comesAt(j.at)
		default: // it is here again
			l.takeUp(item{n: j.n, strand: l.strand(j.strand), due: j.due(), priority: j.priority})
		}
	}
	l.end = max(l.end, p.base+uint64(len(p.jobs)))
	l.pending += int64(len(p.jobs))
	l.signal()
}

// takeUp lets a late job wait to be handed out, unless it does already. mu is held.
func (l *line) takeUp(it item) {
	if _, hot := l.hot[it.n]; !hot {
		l.hot[it.n] = struct{}{}
		l.push(it)
	}
}

// comesAt notes that a late job comes due then: where the clock went back, that is looked
// at again. mu is held.
func (l *line) comesAt(at int64) {
	if at <= l.seen.at {
		l.seen = dueMark{at - 1, lastPlace}
	}
	l.looksAt(at)
}

// looksAt notes when to look for jobs that came due. mu is held.
func (l *line) looksAt(at int64) {
	if l.nextAt == 0 || at < l.nextAt {
		l.nextAt = at
	}
}

// putAt is the time that a job is put off to. 0: at once.
func putAt(at time.Time, now time.Time) int64 {
	if !at.After(now) {
		return 0
	}
	return queue.MillisUp(at).UnixMilli()
}

// String names the queue in errors.
func (l *line) String() string { return fmt.Sprintf("queue %q", l.name) }
