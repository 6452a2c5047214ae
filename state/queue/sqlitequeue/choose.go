package sqlitequeue

import (
	"context"
	"time"
)

// rests is when to look again after no job was chosen. That is at once while the file has
// groups that were not read. mu is held.
func (l *line) rests(now time.Time, most int) time.Time {
	next := l.next(now, most)
	if !l.unlisted || most <= 0 {
		return next
	}
	if l.round <= l.since+1 {
		return now
	}
	l.since = l.round // all were: some of them may go on in a while
	if soon := now.Add(time.Second); next.IsZero() || soon.Before(next) {
		return soon
	}
	return next
}

// look takes up due jobs, and what has to be known before turns are taken. Its caller has
// the turn "handing".
func (l *line) look(ctx context.Context, s *Store) error {
	for _, do := range []func(context.Context, *Store) error{l.due, l.list, l.lookUp} {
		if err := do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// choose takes up to most jobs whose turn it is. Its caller has the turn "handing".
func (l *line) choose(ctx context.Context, s *Store, most int, now time.Time) ([]item, error) {
	if most <= 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &turn{l: l, ctx: ctx, store: s, now: now, chosen: make([]item, 0, min(most, max(l.ahead, pageJobs)+len(l.backs)))}
	free := t.take(most)
	l.again = t.again
	l.limited = len(t.chosen) < free && len(l.backs) >= l.room.backs
	if l.stuck = len(t.chosen) < most; len(t.chosen) > 0 {
		l.since = l.round
	}
	if t.err != nil {
		l.putBack(t.chosen)
		return nil, t.err
	}
	return t.chosen, nil
}

// putBack lets chosen jobs wait again. mu is held.
func (l *line) putBack(chosen []item) {
	for _, it := range chosen {
		l.uncount(&it)
		l.push(it)
	}
	l.signal()
}
