package kafkasource

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// Receive implements tidemill.Source. The first call joins the group. Retries go first,
// then each partition in turn, oldest first.
func (s *Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := ctx.Err(); err != nil || len(into) == 0 {
		return 0, err
	}
	if err := s.join(); err != nil {
		return 0, err
	}
	for {
		n, wait, err := s.look(into)
		if n > 0 || err != nil {
			if n > 0 {
				signal(s.room)
			}
			return n, err
		}
		if err := await(ctx, s.wake, wait); err != nil {
			return 0, err
		}
	}
}

// await waits for a signal, for d where that is above zero, or for the end of ctx.
func await(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	var alarm <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-wake:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// look hands out what is available, or returns the error, or how long nothing will come
// without a signal; 0: for ever.
func (s *Source) look(into []*tidemill.Message) (n int, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, 0, errClosed
	}
	if s.flush {
		s.flush = false
		return 0, 0, tidemill.ErrFlush
	}
	for _, id := range slices.Sorted(keys(s.stopped)) {
		return 0, 0, s.stopped[id]
	}
	if err := s.trouble; err != nil {
		s.trouble = nil
		return 0, 0, err
	}
	now := s.o.Now()
	n = s.again(into, now)
	for k := range s.order {
		p := s.parts[s.order[(s.turned+k)%len(s.order)]]
		for n < len(into) {
			sl, ok := p.take()
			if !ok {
				break
			}
			if at := notBefore(sl.rec); at.After(now) {
				sl.handed--
				s.putOff(p, sl, off, at)
				continue
			}
			s.message(into[n], p, p.top-1, sl)
			n++
		}
	}
	s.turned++
	if n == 0 && len(s.later) > 0 {
		wait = max(s.later[0].at.Sub(now), 1)
	}
	return n, wait, nil
}

// again hands out due retries.
func (s *Source) again(into []*tidemill.Message, now time.Time) (n int) {
	for n < len(into) && len(s.later) > 0 && !s.later[0].at.After(now) {
		l := heap.Pop(&s.later).(appointment)
		if sl := l.slot(); sl != nil {
			s.epochs++
			l.p.hand(sl, s.epochs)
			s.message(into[n], l.p, l.offset, sl)
			n++
		}
	}
	return n
}

// putOff lets a record come again.
func (s *Source) putOff(p *partition, sl *slot, as state, at time.Time) {
	p.putOff(sl, as, at)
	heap.Push(&s.later, appointment{at, p, sl.rec.Offset, sl.epoch})
}

// An appointment is when a record comes again, unless something else happened to it.
type appointment struct {
	at     time.Time
	p      *partition
	offset int64
	epoch  uint32
}

// slot is the one of the record if the appointment holds.
func (a *appointment) slot() *slot {
	if a.p.gone || a.p.leaving || a.offset < a.p.mark || a.offset >= a.p.top {
		return nil
	}
	sl := a.p.slot(a.offset)
	if sl.epoch != a.epoch || sl.state != off && sl.state != left || !sl.due.Equal(a.at) {
		return nil
	}
	return sl
}

// due are appointments as a heap: the earliest, and of those the oldest record, first.
type due []appointment

func (d due) Len() int      { return len(d) }
func (d due) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d due) Less(i, j int) bool {
	a, b := &d[i], &d[j]
	switch {
	case !a.at.Equal(b.at):
		return a.at.Before(b.at)
	case a.p.id != b.p.id:
		return a.p.id < b.p.id
	}
	return a.offset < b.offset
}
func (d *due) Push(x any) { *d = append(*d, x.(appointment)) }
func (d *due) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = appointment{}
	*d = (*d)[:last]
	return x
}
