package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/sleep"
)

// Waits between commits that the group refuses while it rebalances.
const (
	minPause = 10 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// errNoMember says that we are not in the group now.
var errNoMember = errors.New("we are no member of the group at this moment")

// save commits partitions in their current state; nil: all that need it. It returns nil
// once the brokers have answered that the commit is durable. One commit is in flight at a
// time, so that none overtakes another. The group's generation separates commits of an
// owner that lost its partitions from those of the new one.
func (s *Source) save(ctx context.Context, parts []*partition) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Answer)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.commit(ctx, parts)
		if err == nil || !passing(err) {
			return kafkaconn.Error(err, "commit to group %s of topic %s", s.group, s.topic)
		}
		if sleep.For(ctx, pause) != nil {
			return kafkaconn.Error(err, "commit to group %s of topic %s", s.group, s.topic)
		}
	}
}

// passing says that an error ends with the rebalance that caused it: then the partition is
// ours in the new generation, or discarded.
func passing(err error) bool {
	for _, e := range []error{errNoMember, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// commit sends one commit and waits for its answer. If ctx ends before, a goroutine still
// awaits the answer before the next commit may go.
func (s *Source) commit(ctx context.Context, parts []*partition) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	f, err := s.flight(parts)
	if err != nil || f == nil {
		<-s.turn
		return err
	}
	answer := make(chan error, 1)
	go func() { // ends with the client's context, and with Answer
		sending, cancel := context.WithTimeout(f.client.Context(), s.o.Answer)
		defer cancel()
		resp, err := f.request.RequestWith(sending, f.client)
		if err == nil {
			err = s.landed(f, resp)
		}
		<-s.turn
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A flight is a commit in flight.
type flight struct {
	client  *kgo.Client
	request *kmsg.OffsetCommitRequest
	parts   []*partition
	marks   []int64
	text    []string
	first   []bool // no equal commit was sent before without an answer
	version []uint64
}

// flight is the commit to send; nil: none.
func (s *Source) flight(parts []*partition) (*flight, error) {
	s.mu.Lock()
	client := s.member.client
	s.mu.Unlock()
	member, generation := "", int32(-1)
	// Read the generation first, then whether the partitions are ours: a partition that is
	// ours after the second check was ours in that generation, and the group accepts
	// nothing of an older one.
	if client != nil {
		member, generation = client.GroupMetadata()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if parts == nil {
		for _, id := range s.order {
			parts = append(parts, s.parts[id])
		}
	}
	f := &flight{client: client, request: kmsg.NewPtrOffsetCommitRequest()}
	byTopic := map[[16]byte]int{}
	for _, p := range parts {
		if p.gone || p.version == p.saved {
			continue
		}
		r := p.state(p.leaving)
		r.By = s.by
		p.gap = false
		text := r.text()
		at := kmsg.NewOffsetCommitRequestTopicPartition()
		at.Partition, at.Offset, at.Metadata = p.id, p.mark, &text
		i, ok := byTopic[r.Topic]
		if !ok {
			i = len(f.request.Topics)
			byTopic[r.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = s.topic, r.Topic
			f.request.Topics = append(f.request.Topics, t)
		}
		f.request.Topics[i].Partitions = append(f.request.Topics[i].Partitions, at)
		f.parts, f.marks, f.version = append(f.parts, p), append(f.marks, p.mark), append(f.version, p.version)
		f.text = append(f.text, text)
	}
	switch {
	case len(f.parts) == 0:
		return nil, nil
	case member == "":
		return nil, errNoMember
	}
	for i, p := range f.parts {
		f.first = append(f.first, p.sends(doubt{f.marks[i], f.text[i], f.version[i]}))
	}
	f.request.Group, f.request.MemberID, f.request.Generation = s.group, member, generation
	if s.o.Instance != "" {
		f.request.InstanceID = &s.o.Instance
	}
	return f, nil
}

// landed notes what is durable now, and returns the errors of the rest.
func (s *Source) landed(f *flight, resp *kmsg.OffsetCommitResponse) (wrong error) {
	failed := map[int32]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			failed[p.Partition] = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range f.parts {
		err, answered := failed[p.id]
		if !answered {
			err = fmt.Errorf("the broker did not answer for partition %d", p.id)
		}
		switch {
		case err == nil:
			p.saved, p.committed = f.version[i], f.marks[i]
			p.doubts = nil
			continue
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			s.member.anew(fmt.Errorf("commit partition %d of topic %s: %w", p.id, s.topic, err))
		}
		if passing(err) && f.first[i] { // it was refused, and cannot have arrived before
			p.doubts = slices.DeleteFunc(p.doubts, func(d doubt) bool { return d == doubt{f.marks[i], f.text[i], f.version[i]} })
		}
		p.gap = true
		if wrong == nil || passing(wrong) {
			wrong = fmt.Errorf("partition %d: %w", p.id, err)
		}
	}
	signal(s.wake) // hand-outs may have waited for the mark
	for _, p := range f.parts {
		if s.member.paused[p.id] && !p.full() {
			s.member.look()
			break
		}
	}
	signal(s.room)
	return wrong
}
