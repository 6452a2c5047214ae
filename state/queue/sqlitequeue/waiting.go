package sqlitequeue

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// waitingSet is the waiting jobs of a queue that are in memory, in the groups that take turns,
// and how far the file was read for more. A job is in it once, in its group, and counted in
// tallies with those that wait in the file. It knows no lease: a job that is chosen leaves it,
// and is pushed when it waits again.
type waitingSet struct {
	wake   waker // told when a job may be handed out
	bounds bounds
	apart  apart // as the settings say

	levels  []*level          // those that ever had a job, the highest first
	pass    float64           // of the level that was served last
	groups  map[string]*group // groups with waiting jobs, or with a job that holds them back
	backs   map[uint64]*item  // the jobs in their backs
	ahead   int               // jobs that were read ahead
	asking  []*group          // ordered groups to be looked up in the file
	keyed   int               // groups of keys
	tallies map[tally]int64   // jobs that wait
	waited  [4]uint64         // bits of the priorities that they ever had
	removed int               // how often a job left a segment out of its turn

	end     uint64  // all jobs up to this position are durable, and were taken up
	early   []*part // durable too, but those before them are not reported yet
	late    lateJobs
	listing listing
}

// bounds is how much of one queue is in memory, with any backlog.
type bounds struct {
	ahead  int // jobs handed over from Add, or read ahead, by all groups together, while the reader keeps up
	backs  int // waiting jobs that came due; more are found when those are done
	groups int // groups, where keys are kept apart; more are found in the file when those are done
}

// tally is a class of waiting jobs that is counted.
type tally struct {
	priority uint8
	tenant   string
}

// tally counts n more waiting jobs: of a group, or of an ordered group's job.
func (w *waitingSet) tally(s *group, it *item, n int64) {
	t := tally{s.priority, s.tenant}
	if s.ordered {
		t.priority = it.priority
	}
	w.waited[t.priority>>6] |= 1 << (t.priority & 63)
	if w.tallies[t] += n; w.tallies[t] == 0 {
		delete(w.tallies, t)
	}
}

// addPart takes up the jobs of a part, while out others are handed out. Due jobs are handed over in
// memory as long as handing out keeps up; else they are read when their turn comes.
func (w *waitingSet) addPart(p *part, out int) {
	few := p.bytes < pageBytes
	var s *group
	for i := range p.pieces {
		pc := &p.pieces[i]
		if s == nil || s.id != string(pc.group) || w.groups[s.id] != s {
			s = w.groups[string(pc.group)]
		}
		n := int64(pc.to - pc.from)
		if s == nil {
			s = readGroup(pc.group)
			if s.key != "" && w.full(out) {
				w.listing.unlisted, w.listing.missed = true, true // found in the file when others are done
				w.tally(s, &item{priority: pc.priority}, n)
				continue
			}
			s = w.keep(s)
		}
		w.tally(s, &item{priority: pc.priority}, n)
		w.addPiece(s, p, pc, few)
	}
	for _, i := range p.late {
		w.late.rows++
		switch j := p.jobs[i]; {
		case j.at > 0:
			w.late.noteDue(j.at)
		default: // it is here again
			w.takeUp(item{n: j.n, group: w.groupNamed(j.group), due: j.due(), priority: j.priority})
		}
	}
	w.end = max(w.end, p.base+uint64(len(p.jobs)))
	w.wake.signal()
}

// addPiece takes up a segment that was added to a group.
func (w *waitingSet) addPiece(s *group, p *part, pc *piece, few bool) {
	first, n := p.jobs[pc.from].n, pc.to-pc.from
	all := !s.unread() // all earlier jobs were read
	if all {
		s.cursor = max(s.cursor, first-1)
	}
	if all && few && w.ahead < w.bounds.ahead {
		pc.seg = &segment{first: first, n: n}
		for _, j := range p.jobs[pc.from:pc.to] {
			it := item{n: j.n, seg: pc.seg, rec: j.rec, group: s}
			if s.ordered {
				it.due, it.priority = j.added, j.priority
			}
			s.ready = append(s.ready, it)
		}
		w.ahead += n
		s.cursor = first + uint64(n) - 1
	}
	s.end = first + uint64(n) - 1
	w.seat(s)
}

// full says that memory may hold no more groups. As many as there are jobs handed out do not
// count: those are bounded otherwise.
func (w *waitingSet) full(out int) bool { return len(w.groups)-out >= w.bounds.groups }

// groupNamed returns the group of that name, and makes it in memory at the first call.
func (w *waitingSet) groupNamed(id []byte) *group {
	s := w.groups[string(id)]
	if s == nil {
		s = w.keep(readGroup(id))
	}
	return s
}

// keep adds a group, which may have been forgotten meanwhile, and returns the stored one.
func (w *waitingSet) keep(s *group) *group {
	if is := w.groups[s.id]; is != nil {
		return is
	}
	if w.groups[s.id] = s; s.key != "" {
		w.keyed++
	}
	if w.listing.unlisted { // the file may have more of it
		s.end = max(s.end, w.end)
		w.listing.relists = true
	}
	s.unsure = s.ordered && w.late.vague && w.late.rows > 0 // jobs that we do not know may come first
	return s
}

// readAhead takes up the jobs of a page that is the next of its group.
func (w *waitingSet) readAhead(s *group, p *page) {
	if len(s.ready) == 0 {
		s.ready = p.items
	} else {
		s.ready = append(s.ready, p.items...)
	}
	w.ahead += len(p.items)
	s.cursor = max(s.cursor, p.upTo)
	s.end = max(s.end, p.upTo)
	w.seat(s)
}

// free lets the next job of a group go where that one held it back.
func (w *waitingSet) free(s *group, n uint64) {
	if s.holder == n {
		s.holder = 0
		w.seat(s)
	}
}

// putOff lets the first of an ordered group hold it while it is delayed.
func (w *waitingSet) putOff(it *item, out int) {
	s := w.keep(it.group)
	s.holder = it.n
	w.seat(s)
	if len(w.groups)-out > w.bounds.groups/2 { // it is found again when it comes due
		w.forget(s)
	}
}

// nextMark is a position up to which jobs go next; 0: unknown, as groups take turns.
func (w *waitingSet) nextMark() uint64 {
	if len(w.groups) == 1 {
		for _, s := range w.groups {
			if n := min(len(s.ready), pageJobs); n > 0 {
				return s.ready[n-1].n
			}
		}
	}
	return 0
}

// next is when late jobs have to be looked for; zero: never.
func (w *waitingSet) next(now time.Time) time.Time {
	at := w.late.redo
	if w.late.nextAt == 0 {
		return at
	}
	due := time.UnixMilli(w.late.nextAt)
	if len(w.backs) < w.bounds.backs {
		return sooner(at, due)
	}
	if soon := now.Add(time.Second); w.late.limited && due.Before(soon) { // see drop
		return sooner(at, soon)
	}
	return at
}

// pop removes the head. Seat the group afterwards.
func (w *waitingSet) pop(s *group) (it item) {
	if h := s.head(); len(s.back) > 0 && h == s.back[0] {
		heap.Pop(&s.back)
		delete(w.backs, h.n)
		return *h
	}
	first := w.popReady(s, 1)
	it = first[0]
	clear(first)
	return it
}

// popReady removes up to n of the jobs that were read ahead. Copy and clear them.
func (w *waitingSet) popReady(s *group, n int) []item {
	n = min(n, len(s.ready))
	some := s.ready[:n:n]
	if s.ready = s.ready[n:]; len(s.ready) == 0 {
		s.ready = nil // its memory is free when they are gone
	}
	w.ahead -= n
	return some
}

// push lets a job wait in its group, in its old position.
func (w *waitingSet) push(it item) {
	if w.backs[it.n] != nil {
		return
	}
	it.group = w.apart.back(it.group)
	w.pushBack(it)
}

// pushBack lets a job wait in that group.
func (w *waitingSet) pushBack(it item) {
	s := w.keep(it.group)
	p := &it
	p.group = s
	if s.holder == p.n {
		s.holder = 0
	}
	w.backs[p.n] = p
	heap.Push(&s.back, p)
	w.tally(s, p, 1)
	w.seat(s)
	w.wake.signal()
}

// becomesLate lets a waiting job keep its position when it has left its segment.
func (w *waitingSet) becomesLate(it *item) {
	if is := w.backs[it.n]; is != nil {
		is.seg, is.rec = nil, nil
		w.late.hot[it.n] = struct{}{}
		return
	}
	w.unready(it)
	it.seg, it.rec = nil, nil
	w.late.hot[it.n] = struct{}{}
	w.pushBack(*it)
}

// unready removes a segment's job from those that were read ahead, if it is one of them, and
// from the counts.
func (w *waitingSet) unready(it *item) {
	s := it.group
	if at, found := slices.BinarySearchFunc(s.ready, it.n, func(r item, n uint64) int { return cmp.Compare(r.n, n) }); found {
		s.ready = slices.Delete(s.ready, at, at+1)
		w.ahead--
	}
	w.removed++
	if s.peek.n == it.n {
		s.peek = peek{}
	}
	w.tally(s, it, -1)
}

// unwait removes a job that is not handed out from where it waits in memory.
func (w *waitingSet) unwait(it *item) {
	s := it.group
	if is := w.groups[s.id]; is != nil {
		s, it.group = is, is
	}
	if p := w.backs[it.n]; p != nil {
		s = p.group
		heap.Remove(&s.back, int(p.index))
		delete(w.backs, it.n)
		w.tally(s, p, -1)
	} else if it.seg != nil {
		w.unready(it)
	}
	if s.holder == it.n {
		s.holder = 0
	}
	if s.ordered && s.first == it.n { // the next one waits for its own turn
		w.unseat(s)
	}
	w.seat(s)
}
