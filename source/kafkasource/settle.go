package kafkasource

import (
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// A receipt names one hand-out of a record.
type receipt struct {
	partition int32
	offset    int64
	epoch     uint32
}

// A claim is an end that was noted and is to be made durable: it is durable when the
// partition's commit has this version.
type claim struct {
	part    *partition
	version uint64
}

// durable says that the claim's commit was answered.
func (c *claim) durable() bool { return c.part.saved >= c.version }

// Settle implements tidemill.Source. The ends of one call are one commit. An end by ID alone must
// be for a record that this member holds.
//
// A settlement whose commit was not answered may be sent again: if the partition is still ours, or
// the commit arrived after all, it is Applied. If the partition was lost meanwhile, what the group
// has committed answers it as soon as the partition is ours again. Until then Settle fails, for
// Answer, and for Rebalance where we have had no partition since. If another member has the
// partition by then the settlement is Stale, also in the rare case that the commit had arrived.
func (s *Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range ends {
		if e := &ends[i]; e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
			return tidemill.Fail(tidemill.Internal, "settle %q: an end needs a fate", e.ID)
		} else if len(e.Next) > 0 {
			return tidemill.Fail(tidemill.Internal, "settle %q: a source of Kafka forwards nothing", e.ID)
		}
	}
	claims, err := s.note(ends)
	if err != nil || claims == nil {
		return err
	}
	err = s.save(ctx, nil)
	if err == nil && s.waits(claims) {
		_ = await(ctx, s.found, maxPause)
	}
	return s.answer(ends, claims, err)
}

// waits says whether the outcome of a claim's commit is still unknown.
func (s *Source) waits(claims []claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(claims, func(c claim) bool { return c.part != nil && !c.durable() && s.unsure(c.part) })
}

// unsure says that a partition was lost with a commit that may have arrived, and that its
// outcome may become known. The caller holds mu.
func (s *Source) unsure(p *partition) bool {
	if !p.gone || s.before.lost[p.id] != p {
		return false
	}
	since := s.o.Now().Sub(p.lost)
	return since < s.o.Answer || since < s.o.Rebalance && !s.before.taken.After(p.lost)
}

// note notes what the ends say, and answers those that need no commit. It returns the
// claims of the others by their index; nil: none.
func (s *Source) note(ends []tidemill.Settlement) (claims []claim, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	var byID map[string]tidemill.Mark
	now := s.o.Now()
	for i := range ends {
		e := &ends[i]
		mark := e.Mark
		if mark == (tidemill.Mark{}) {
			if byID == nil {
				byID = s.held()
			}
			mark = byID[e.ID]
		}
		c, took := s.noteOne(e, mark, now)
		if e.Outcome = took; took == tidemill.Unanswered {
			if claims == nil {
				claims = make([]claim, len(ends))
			}
			claims[i] = c
		}
	}
	for _, id := range s.order {
		if p := s.parts[id]; p.leaving && p.out == 0 {
			signal(s.quiet)
		}
	}
	signal(s.wake)
	return claims, nil
}

// noteOne notes one end.
func (s *Source) noteOne(e *tidemill.Settlement, mark tidemill.Mark, now time.Time) (claim, tidemill.Outcome) {
	at := receipt{int32(mark.Shard), int64(mark.Lo), mark.Epoch}
	if c, ok := s.receipts[at]; ok { // it was noted, and comes again
		delete(s.receipts, at)
		return *c, tidemill.Unanswered
	}
	p := s.parts[at.partition]
	if p == nil || p.row.incarnation() != mark.Hi {
		return claim{}, tidemill.Stale
	}
	sl := p.held(at.offset, at.epoch)
	if sl == nil {
		return claim{}, tidemill.Stale
	}
	switch e.End {
	case tidemill.Done:
		p.row.Settled.Add(e.Row())
		p.end(sl)
	case tidemill.Again:
		s.putOff(p, sl, off, now.Add(max(e.After, 0)))
		if !e.CountTry {
			return claim{}, tidemill.Applied
		}
		sl.tries++
		p.version++
	default:
		s.putOff(p, sl, left, now.Add(s.o.Left))
		return claim{}, tidemill.Applied
	}
	return claim{p, p.version}, tidemill.Unanswered
}

// answer says for each claimed end whether it is durable.
func (s *Source) answer(ends []tidemill.Settlement, claims []claim, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := false
	for i := range ends {
		e, c := &ends[i], &claims[i]
		switch {
		case c.part == nil:
		case c.durable():
			e.Outcome = tidemill.Applied
		case c.part.gone && !s.unsure(c.part):
			e.Outcome = tidemill.Stale
		default:
			open = true
			if e.Mark != (tidemill.Mark{}) {
				s.receipts[receipt{int32(e.Mark.Shard), int64(e.Mark.Lo), e.Mark.Epoch}] = c
			}
		}
	}
	if !open {
		return nil
	}
	if err == nil { // another call commits the partition, and has no answer yet
		err = tidemill.Fail(tidemill.Transient, "commit to group %s of topic %s: it is not answered", s.group, s.topic)
	}
	return err
}

// held returns the marks of the records that we hold, by ID, for ends without a mark.
func (s *Source) held() map[string]tidemill.Mark {
	all := map[string]tidemill.Mark{}
	var m tidemill.Message
	for _, id := range s.order {
		p := s.parts[id]
		for o := p.mark; o < p.top; o++ {
			if sl := p.slot(o); sl.state == out || sl.state == left {
				s.message(&m, p, o, sl)
				all[m.ID] = m.Mark
			}
		}
	}
	return all
}
