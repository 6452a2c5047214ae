package redissource

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// search goes through a page of what is pending and takes it: of our own, what we do not
// know of; of everybody's, what has been idle for a lease.
func (r *reader) search(ctx context.Context, c *cursor, idle time.Duration, most int) error {
	s := r.s
	me := s.name()
	b := s.client.B().Xpending().Key(s.keys.stream).Group(s.o.Group)
	var cmd rueidis.Completed
	if idle > 0 {
		cmd = b.Idle(idle.Milliseconds()).Start(c.from).End("+").Count(pageOf).Build()
	} else {
		cmd = b.Start(c.from).End("+").Count(pageOf).Consumer(me).Build()
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
		if _, out := s.outs[p]; out && idle == 0 {
			continue // out, and ours
		}
		ids = append(ids, id)
	}
	s.mu.Unlock()
	if c.on = read < len(page) || len(page) == pageOf; len(ids) == 0 {
		return nil
	}
	from := ""
	if idle == 0 {
		from = me
	}
	return r.take(ctx, idle, from, most, ids)
}

// take takes pending entries over: those with ids, or those that come due.
func (r *reader) take(ctx context.Context, idle time.Duration, from string, most int, ids []string) error {
	s := r.s
	args := append([]string{s.o.Group, s.name(), strconv.FormatInt(idle.Milliseconds(), 10), from, strconv.Itoa(most)}, ids...)
	at := time.Now()
	reply, err := take.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due, s.keys.again}, args).ToArray()
	if err != nil {
		return s.fail(err, "take over entries of")
	}
	entries, err := parseTaken(reply[0])
	if err != nil {
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
	r.keep(entries, at)
	return nil
}
