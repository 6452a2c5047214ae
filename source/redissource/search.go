package redissource

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// pageOf is how many pending entries are searched at once, unless Options say otherwise.
const pageOf = 1000

// claim begins a search for entries without renewal, or goes on with the one that stopped
// after a batch.
func (r *reader) claim() {
	r.scanned = time.Now()
	if !r.idle.on {
		r.idle.on, r.pause = true, time.Time{}
	}
	if r.idle.from == "" {
		r.idle.from = "-"
	}
}

// claiming says whether a search is on, and not paused.
func (r *reader) claiming() bool { return r.idle.on && !r.pause.After(time.Now()) }

// search goes through a page of pending entries and takes them: our own that we do not
// know, and anyone's that have been idle for a lease.
func (r *reader) search(ctx context.Context, c *cursor, idle time.Duration, most int) error {
	s := r.s
	me, size := s.name(), pageOf
	b := s.client.B().Xpending().Key(s.keys.stream).Group(s.o.Group)
	var cmd rueidis.Completed
	if idle > 0 {
		size = s.o.ClaimBatch - r.looked
		cmd = b.Idle(idle.Milliseconds()).Start(c.from).End("+").Count(int64(size)).Build()
	} else {
		cmd = b.Start(c.from).End("+").Count(int64(size)).Consumer(me).Build()
	}
	page, err := s.client.Do(ctx, cmd).ToArray()
	if err != nil {
		return s.fail(err, "look through what is pending in")
	}
	var ids []string
	read := 0
	s.mu.Lock()
	for ; read < len(page) && len(ids) < most; read++ {
		row, err := page[read].ToArray()
		if err != nil || len(row) < 4 {
			continue
		}
		id, _ := row[0].ToString()
		p, ok := parsePlace(id)
		c.from = "(" + id
		if _, held := s.held[p]; !ok || held {
			continue
		}
		if _, out := s.outs[p]; idle == 0 && (out || s.left.has(p)) {
			continue // handed out, and ours
		}
		ids = append(ids, id)
	}
	s.mu.Unlock()
	if read == len(page) && len(page) < size {
		*c = cursor{}
	}
	if idle > 0 {
		r.looked += read
		if !c.on || r.looked >= s.o.ClaimBatch {
			r.looked = 0
			c.on = c.on && !s.o.ClaimOnce
			r.pause = time.Now().Add(s.o.ClaimPause)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	from := ""
	if idle == 0 {
		from = me
	}
	return r.take(ctx, idle, from, most, ids)
}

// take takes pending entries over: those with ids, or those that are due.
func (r *reader) take(ctx context.Context, idle time.Duration, from string, most int, ids []string) error {
	s := r.s
	args := append([]string{s.o.Group, s.name(), strconv.FormatInt(idle.Milliseconds(), 10), from, strconv.Itoa(most)}, ids...)
	r.at = time.Now()
	reply, err := take.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due, s.keys.again}, args).ToArray()
	if err != nil {
		return s.fail(err, "take over entries of")
	}
	if err := r.batch.parseTaken(reply[0]); err != nil {
		return s.fail(err, "take over entries of")
	}
	lost, err := reply[1].AsStrSlice()
	if err != nil {
		return s.fail(err, "take over entries of")
	}
	wait, err := reply[2].AsInt64()
	if err != nil {
		return s.fail(err, "take over entries of")
	}
	s.lost(lost)
	if r.due = (time.Time{}); wait >= 0 {
		r.due = time.Now().Add(time.Duration(wait) * time.Millisecond)
	}
	if n := len(r.batch.entries); idle > 0 && n > 0 {
		s.o.Report(Report{What: Claimed, Count: uint64(n), IDs: idsOf(r.batch.entries),
			Text: fmt.Sprintf("%d entries of stream %q were handed out and renewed by nobody for %v: they are handed out again", n, s.o.Stream, s.o.Lease)})
	}
	return nil
}

// idsOf is the ids of some entries, for a report.
func idsOf(entries []entry) []string {
	ids := make([]string, min(len(entries), 100))
	for i := range ids {
		ids[i] = entries[i].id
	}
	return ids
}
