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
// that waits for jobs), handing (to choose waiting jobs, or to change them), ending (to
// change what is in the queue's segments). Without the turn handing a goroutine may add
// waiting jobs, and remove none.
type line struct {
	no      uint32
	name    string
	room    room
	held    atomic.Int64                   // jobs in the queue, and those being added
	is      atomic.Pointer[queue.Settings] // the settings, for readers without mu; never changed, only replaced
	waiting *semaphore.Weighted
	handing *semaphore.Weighted
	ending  *semaphore.Weighted
	wake    chan struct{} // cap 1: the goroutine that waits for jobs shall look again

	mu       sync.Mutex
	settings *queue.Settings // as in is
	version  int             // how often they were set
	apart    apart           // as they say

	end     uint64  // all jobs up to this position are durable
	early   []*part // durable too, but those before them are not reported yet
	pending int64   // durable jobs that have not ended
	boot    uint64  // jobs up to here may have been handed out before this process began
	mark    uint64  // jobs up to here count as handed out once, should the process die
	epoch   uint32  // of the last hand-out
	epochs  uint32  // epochs up to here are used up, should the process die

	levels   []*level          // those that ever had a job, the highest first
	pass     float64           // of the level that was served last
	strands  map[string]*group // groups with waiting jobs, or with a job that holds them back
	backs    map[uint64]*item  // the jobs in their backs
	ahead    int               // jobs that were read ahead
	asking   []*group          // ordered groups to be looked up in the file
	tallies  map[tally]int64   // jobs that wait
	vague    bool              // late jobs in the file, due or delayed, may hold back ordered groups
	unlisted bool              // the file may have more groups than these
	listed   []byte            // the group up to which they were looked for
	missed   bool              // more came since that began
	relists  bool              // groups are read again whose jobs may be handed out
	stuck    bool              // more were asked for than those in memory may hand out
	limited  bool              // the same, not by the limit of the queue, and others had no room
	dropped  bool              // some due jobs were dropped from memory
	since    int               // the last round in which a job could go
	round    int               // how often all groups in the file were read
	segs     map[uint64]*segment

	limits
	again time.Time // when a limit lets a held-back job go; zero: none is held back

	outs   map[uint64]*out
	grants map[*grant]struct{}
	expiry time.Time // no lease ends before; zero: none is handed out
	gate   gate

	late   int64               // rows in queue_late
	hot    map[uint64]struct{} // those of them that wait in memory, or are handed out
	gone   map[uint64]struct{} // jobs that ended while late jobs are read; nil: none are read
	seen   dueMark             // all due jobs up to here were read
	nextAt int64               // when the next late job comes due; 0: never
	redo   time.Time           // when to read all due jobs again; zero: none was dropped
	kept   [2]int64            // jobs kept after their end, by keptState
}

// tally is a class of waiting jobs that is counted.
type tally struct {
	priority uint8
	tenant   string
}

// dueMark is a place in the order of queue_late by time; jobs without a time come first.
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
		strands: map[string]*group{}, backs: map[uint64]*item{}, tallies: map[tally]int64{},
		segs: map[uint64]*segment{}, outs: map[uint64]*out{}, grants: map[*grant]struct{}{}, hot: map[uint64]struct{}{},
	}
	l.obeys(new(queue.Settings))
	return l
}

// obeys sets the queue's settings. They do not change afterwards. mu is held.
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

// tally counts n more waiting jobs: of a group, or of an ordered group's job. mu is held.
func (l *line) tally(s *group, it *item, n int64) {
	t := tally{s.priority, s.tenant}
	if s.chain {
		t.priority = it.priority
	}
	if l.tallies[t] += n; l.tallies[t] == 0 {
		delete(l.tallies, t)
	}
}

// measure counts what the queue holds and finds its groups, at the start.
func (l *line) measure(tx *sqlitedb.Tx) error {
	if err := tx.QueryRow(pendingSQL, l.pendingArgs()...).Scan(&l.pending); err != nil {
		return err
	}
	l.held.Store(l.pending)
	if err := tx.QueryRow("SELECT count(*) FROM queue_late WHERE queue=?", l.no).Scan(&l.late); err != nil {
		return err
	}
	if l.late > 0 { // read all due jobs from the beginning
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

// strandsSQL finds the groups of a queue, what each holds, and where it ends.
const strandsSQL = `SELECT s.strand, sum(s.n)-coalesce(sum(e.gone),0), max(s.pos)
	FROM queue_segment s LEFT JOIN queue_ended e ON e.pos=s.pos
	WHERE s.strand>=? AND s.strand<? GROUP BY s.strand`

// measureChains does the same where order is strict: the jobs of an ordered group have
// different priorities.
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

// found notes jobs of a group in the file; its last segment begins at last. priority -1:
// the group's.
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

// pendingSQL counts what a queue holds: the jobs in its segments, less those that have left
// them, and late jobs.
const pendingSQL = `SELECT
	(SELECT coalesce(sum(n),0) FROM queue_segment WHERE strand>=?1 AND strand<?2) -
	(SELECT coalesce(sum(gone),0) FROM queue_ended WHERE pos BETWEEN ?3 AND ?4) +
	(SELECT count(*) FROM queue_late WHERE queue=?5)`

func (l *line) pendingArgs() []any {
	return []any{strandsOf(l.no), strandsOf(l.no + 1), l.place(0), l.place(placeMask), l.no}
}

// signal wakes the goroutine that waits for jobs.
func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next is when time alone will change something, if most jobs may be handed out now; zero:
// never. mu is held.
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

// came notes added jobs, in the order in which they were written: the part written first
// may be reported later.
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

// takes takes up the jobs of a part. Due jobs are handed over in memory while handing out
// keeps up; else they are read when their turn comes. mu is held.
func (l *line) takes(p *part) {
	few := p.bytes < pageBytes
	var s *group
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
		all := !s.unread() // all earlier jobs were read
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

// comesAt notes that a late job comes due then. If the clock went back, that time is read
// again. mu is held.
func (l *line) comesAt(at int64) {
	if at <= l.seen.at {
		l.seen = dueMark{at - 1, lastPlace}
	}
	l.looksAt(at)
}

// looksAt notes when to look for due jobs. mu is held.
func (l *line) looksAt(at int64) {
	if l.nextAt == 0 || at < l.nextAt {
		l.nextAt = at
	}
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
