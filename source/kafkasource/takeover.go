package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// committed is what a group has committed of a partition; offset below 0: nothing.
type committed struct {
	offset int64
	text   string
}

// extent is how far a partition's log goes.
type extent struct {
	start, end int64 // what can be read: from start on, below end
	topic      [16]byte
	back       int64 // the log was cut off here and went on; below 0: not known
}

// onAssigned starts partitions at the group's position. It returns the offsets to read
// from; an error lets the group try again.
func (s *Source) onAssigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ids := slices.Sorted(keys(offsets[s.topic]))
	if len(ids) == 0 {
		return offsets, nil
	}
	asking, cancel := context.WithTimeout(ctx, s.o.Answer)
	defer cancel()
	extents, err := s.extents(asking)
	if err != nil {
		s.worry(err)
		return nil, err
	}
	parts, losses, err := s.begun(ids, extents)
	if err != nil {
		s.worry(err)
		return nil, err
	}
	for _, l := range losses {
		// Logged when the topic no longer has records that the group had not settled: they ran out, or
		// were deleted. `counted` says whether the books count them.
		// To do: send them again if you can; make the topic keep records for longer than the longest
		// outage. With `kafka.on_lost: stop` the pipeline stands until then.
		s.o.Log.Error("kafka: records are gone that were not settled", "topic", l.Topic, "partition", l.Partition, "from", l.From, "to", l.To,
			"count", l.Records, "why", l.Cause, "counted", l.Counted)
		if s.o.Lost != nil {
			s.o.Lost(l)
		}
	}
	if err := s.save(asking, parts); err != nil { // count the start before anything is handed out
		s.worry(err)
		return nil, err
	}
	from := map[int32]kgo.Offset{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		s.parts[p.id] = p
		delete(s.before.back, p.id)
		from[p.id] = kgo.NewOffset().At(p.next)
	}
	s.order = slices.Sorted(keys(s.parts))
	s.trace(parts)
	signal(s.wake)
	return map[string]map[int32]kgo.Offset{s.topic: from}, nil
}

// begun makes the partitions from the commits and the logs. It leaves out those with a loss
// that needs a decision.
func (s *Source) begun(ids []int32, extents map[int32]extent) (parts []*partition, losses []Loss, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		x, ok := extents[id]
		if !ok {
			return nil, nil, fmt.Errorf("take over partition %d of topic %s: the brokers do not know how far it goes", id, s.topic)
		}
		x.back = -1
		if at, ok := s.before.back[id]; ok {
			x.back = at
		}
		if p := s.before.lost[id]; p != nil {
			p.finds(s.before.fetched[id])
			delete(s.before.lost, id)
			signal(s.found)
		}
		r, err := s.stand(id, s.before.fetched[id], x)
		if err != nil {
			return nil, nil, fmt.Errorf("take over partition %d of topic %s in group %s: %w", id, s.topic, s.group, err)
		}
		delete(s.stopped, id)
		if l, gone := r.missing(x); gone {
			l.Topic, l.Partition, l.Counted = s.topic, id, s.o.OnLost == Continue
			losses = append(losses, l)
			if !l.Counted {
				s.stopped[id] = l.err(s.group)
				signal(s.wake)
				continue
			}
			r.goOn(l, x)
		}
		r.lineage = r.orNext(r.mark, len(extents), r.Topic != x.topic, s.o.Now())
		r.Topic, r.End = x.topic, max(r.End, x.end)
		r.Starts++
		s.epochs++
		parts = append(parts, newPartition(id, s.epochs, r, int64(s.o.MaxAhead)))
	}
	s.before.taken = s.o.Now()
	return parts, losses, nil
}

// stand is the group's position in a partition: as committed; else, where the topic was
// recreated while we ran, as we last knew it; else the beginning of the log.
func (s *Source) stand(id int32, c committed, x extent) (row, error) {
	if c.offset >= 0 {
		r, ours, err := parseRow(c.offset, c.text)
		if !ours {
			r.Topic = x.topic
		}
		return r, err
	}
	if r, ok := s.before.past[id]; ok && r.Topic != x.topic && r.Topic != [16]byte{} {
		return r, nil
	}
	return row{mark: x.start, Base: x.start, Handed: x.start, Topic: x.topic, End: x.end}, nil
}

// missing says whether the log lacks records that the group has not settled.
func (r *row) missing(x extent) (Loss, bool) {
	l := Loss{From: r.mark, To: x.start}
	var ahead uint64
	for _, a := range r.ahead {
		ahead += uint64(a.to - a.from)
	}
	pending := uint64(max(r.End, r.mark)-r.mark) - min(ahead, uint64(max(r.End, r.mark)-r.mark))
	switch {
	case r.Topic != [16]byte{} && x.topic != [16]byte{} && r.Topic != x.topic:
		l.Cause, l.Records = "the topic was deleted and made anew", pending
	case r.mark > x.end:
		l.Cause, l.Records = "the log ends before what was settled: brokers went back", pending
		if x.back >= x.start {
			l.To = x.back
		}
	case x.back >= x.start && x.back < r.mark:
		l.Cause, l.Records, l.To = "the log was cut off and went on: brokers went back", pending, x.back
	case r.mark < x.start:
		l.Cause, l.Records = "records were deleted unread", uint64(x.start-r.mark)
		for _, a := range r.ahead {
			l.Records -= uint64(max(min(a.to, x.start)-a.from, 0))
		}
	default:
		return Loss{}, false
	}
	return l, true
}

// goOn counts a loss and goes on where the log does.
func (r *row) goOn(l Loss, x extent) {
	r.Lost += l.Records
	forward := l.To >= r.mark && r.Topic == x.topic
	r.mark = l.To
	var ahead, tries []span
	if forward {
		ahead, tries = from(r.ahead, l.To), from(r.tries, l.To)
	} else { // other records have these offsets now
		r.Handed, r.End = l.To, x.end
		r.Parts = 0 // its lineage has ended
	}
	r.ahead, r.tries = ahead, tries
	var n int64
	for _, a := range ahead {
		n += a.to - a.from
	}
	r.Base = r.mark + n - int64(r.Settled.Total()+r.Void+r.Lost)
}

// from are the spans from an offset on.
func from(spans []span, at int64) (rest []span) {
	for _, s := range spans {
		if s.from = max(s.from, at); s.from < s.to {
			rest = append(rest, s)
		}
	}
	return rest
}

// err is what Receive returns until somebody has decided.
func (l *Loss) err(group string) error {
	return tidemill.Fail(tidemill.Internal, "%d records of partition %d of topic %s are gone that group %s had not settled: %s; it was at offset %d, the log goes on at %d. "+
		"Nothing of this partition is read until somebody decides: restore the topic, or go on without them by letting the source continue where records are lost",
		l.Records, l.Partition, l.Topic, group, l.Cause, l.From, l.To)
}

// extents asks how far each partition's log goes.
func (s *Source) extents(ctx context.Context) (map[int32]extent, error) {
	asked := func(err error) error {
		return kafkaconn.Error(err, "ask how far topic %s goes", s.topic)
	}
	topics, err := s.admin.ListTopics(ctx, s.topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return nil, asked(err)
	}
	starts, err := s.admin.ListStartOffsets(ctx, s.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, asked(err)
	}
	ends, err := s.admin.ListCommittedOffsets(ctx, s.topic) // records of an open transaction do not count yet
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, asked(err)
	}
	found := map[int32]extent{}
	starts.Each(func(o kadm.ListedOffset) {
		if end, ok := ends.Lookup(s.topic, o.Partition); ok {
			found[o.Partition] = extent{start: o.Offset, end: max(end.Offset, o.Offset), topic: topics[s.topic].ID, back: -1}
		}
	})
	if len(found) == 0 {
		return nil, asked(errors.New("it has no partitions"))
	}
	return found, nil
}
