package kafkasource

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/sleep"
)

// maxRest is the longest wait of the reader before it begins a new session.
const maxRest = 5 * time.Second

// fetchWait is how long a broker holds a fetch that brings nothing. A partition that was
// held up is fetched again at the latest after that.
const fetchWait = 500 * time.Millisecond

// join starts the reader, once.
func (s *Source) join() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go s.read(ctx)
	}
	return nil
}

// read is a member of the group until ctx ends. An event after which a client cannot go on
// (a recreated topic, records deleted under it) ends its session; the next one begins with
// what the brokers have.
func (s *Source) read(ctx context.Context) {
	defer close(s.ended)
	for rest := time.Duration(0); ctx.Err() == nil; {
		began := s.o.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		// Logged when a consumer loses its group or its brokers; it joins again after a rest.
		// To do: see whether the brokers are up, if it goes on.
		s.o.Log.Warn("kafka: the session of a consumer ended", "topic", s.topic, "group", s.group, "error", err)
		s.worry(err)
		if s.o.Now().Sub(began) > maxRest {
			rest = 0
		}
		rest = min(max(2*rest, 50*time.Millisecond), maxRest)
		_ = sleep.For(ctx, rest)
	}
}

// worry lets Receive return the error.
func (s *Source) worry(err error) {
	s.mu.Lock()
	s.trouble = err
	s.mu.Unlock()
	signal(s.wake)
}

// session reads with one client until ctx ends or the client cannot go on.
func (s *Source) session(ctx context.Context) error {
	living, end := context.WithCancel(context.Background())
	defer end()
	s.mu.Lock()
	s.member = membership{end: end, paused: map[int32]bool{}}
	s.mu.Unlock()
	client, err := s.cluster.Client(s.membership(living)...) // it may be assigned partitions before this returns
	if err != nil {
		return err
	}
	defer s.leave(client, end)
	for ctx.Err() == nil {
		s.balance(client)
		room := s.reserve()
		if room == 0 {
			_ = await(ctx, s.room, 0)
			continue
		}
		polling, cut := context.WithCancel(ctx)
		if !s.begin(cut) {
			fetches := client.PollRecords(polling, room)
			s.push(fetches)
		}
		cut()
		client.AllowRebalance() // read records belong to their partition, or are dropped
		if err := s.over(); err != nil {
			return err
		}
		s.tidy(ctx)
	}
	return ctx.Err()
}

// membership returns the options of a client that is a member of the group.
func (s *Source) membership(living context.Context) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.WithContext(living),
		kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(fetchWait), kgo.FetchMaxBytes(int32(s.o.FetchBytes)), kgo.FetchMaxPartitionBytes(int32(min(s.o.FetchBytes, 1<<20))),
		kgo.SessionTimeout(s.o.Session), kgo.HeartbeatInterval(s.o.Session / 15), kgo.RebalanceTimeout(s.o.Rebalance),
		kgo.OnOffsetsFetched(s.onFetched), kgo.AdjustFetchOffsetsFn(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked), kgo.OnPartitionsLost(s.onLost),
	}
	if s.o.Instance != "" {
		opts = append(opts, kgo.InstanceID(s.o.Instance))
	}
	return opts
}

// leave gives the partitions up, leaves the group and closes the client, each bounded.
func (s *Source) leave(client *kgo.Client, end context.CancelFunc) {
	client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Drain+s.o.Answer)
	defer cancel()
	if err := client.LeaveGroupContext(ctx); err != nil {
		// Logged when a consumer stops and the brokers do not answer; others get its partitions when
		// its session has run out.
		// To do: nothing, if the brokers are up again.
		s.o.Log.Warn("kafka: a consumer could not leave its group", "topic", s.topic, "group", s.group, "error", err)
		end() // others wait for Session
	}
	s.mu.Lock()
	s.member.client = nil
	s.mu.Unlock()
	client.CloseAllowingRebalance()
	s.discard(s.assigned()) // those that were not taken away from us
}

// assigned are the partitions that we have.
func (s *Source) assigned() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// reserve is how many records may be read now.
func (s *Source) reserve() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.o.Buffer
	for _, p := range s.parts {
		if !p.full() { // a full one is not fetched, and must not keep others from being fetched
			room -= len(p.waiting)
		}
	}
	return max(room, 0)
}

// begin notes how to cut the next poll, or says that the session is over.
func (s *Source) begin(cut context.CancelFunc) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member.cut = cut
	return s.member.restart != nil
}

// over is why the session has to end, or nil.
func (s *Source) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member.cut = nil
	return s.member.restart
}

// push takes the fetched records.
func (s *Source) push(fetches kgo.Fetches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Err != nil {
			s.wrong(f.Topic, f.Partition, f.Err)
			return
		}
		p := s.parts[f.Partition]
		if p == nil || p.leaving {
			return
		}
		for _, r := range f.Records {
			p.push(r)
		}
		if end := max(f.LastStableOffset, p.next); end > p.row.End {
			p.row.End = end
		}
		p.pass()
	})
	signal(s.wake)
}

// wrong notes an error of reading.
func (s *Source) wrong(topic string, partition int32, err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return
	case errors.Is(err, kerr.OffsetOutOfRange), errors.Is(err, kerr.UnknownTopicID):
		s.member.anew(fmt.Errorf("read partition %d of topic %s: the log is not what it was: %w", partition, s.topic, err))
		return
	}
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		s.before.back[partition] = loss.ResetTo
		s.member.anew(fmt.Errorf("read partition %d of topic %s: %w", partition, s.topic, err))
		return
	}
	s.trouble = kafkaconn.Error(err, "read topic %s as a member of group %s", s.topic, s.group)
}

// balance stops fetching partitions that wait for their oldest record, and fetches them
// again when they do not.
func (s *Source) balance(client *kgo.Client) {
	var pause, resume []int32
	s.mu.Lock()
	for _, id := range s.order {
		if s.parts[id].full() && !s.member.paused[id] {
			s.member.paused[id] = true
			pause = append(pause, id)
		}
	}
	for _, id := range slices.Sorted(keys(s.member.paused)) {
		if p := s.parts[id]; p == nil || !p.full() {
			delete(s.member.paused, id)
			resume = append(resume, id)
		}
	}
	s.mu.Unlock()
	if len(pause) > 0 {
		client.PauseFetchPartitions(map[string][]int32{s.topic: pause})
	}
	if len(resume) > 0 {
		client.ResumeFetchPartitions(map[string][]int32{s.topic: resume})
	}
}

// tidy commits what ended without a settlement: gaps, where nothing is handed out.
func (s *Source) tidy(ctx context.Context) {
	s.mu.Lock()
	var dirty []*partition
	for _, id := range s.order {
		if p := s.parts[id]; p.gap && p.out == 0 && !p.leaving {
			dirty = append(dirty, p)
		}
	}
	s.mu.Unlock()
	if len(dirty) == 0 {
		return
	}
	if err := s.save(ctx, dirty); err != nil && ctx.Err() == nil {
		// Logged when what was settled could not be committed; the next commit has it too.
		// To do: see whether the brokers are up, if it goes on: after a crash what is not committed is
		// handed out again.
		s.o.Log.Warn("kafka: offsets were not committed", "topic", s.topic, "group", s.group, "error", err)
	}
}

// onFetched keeps what the group has committed. It is the first call for a client that has
// partitions.
func (s *Source) onFetched(_ context.Context, client *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member.client = client
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				c := committed{offset: p.Offset}
				if p.Metadata != nil {
					c.text = *p.Metadata
				}
				s.before.fetched[p.Partition] = c
			}
		}
	}
	return nil
}

// onRevoked gives partitions up: their handed-out records may be settled for a while, then
// they are committed and discarded. The group waits for this.
func (s *Source) onRevoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	ids := revoked[s.topic]
	if len(ids) == 0 {
		return
	}
	leaving := s.give(ids)
	if s.drain(ctx, leaving) {
		ctx, cancel := context.WithTimeout(ctx, s.o.Answer)
		defer cancel()
		if err := s.save(ctx, leaving); err != nil {
			// Logged when partitions go to another member, and what was settled of them could not be
			// committed before.
			// To do: nothing: the other member hands out again what was not committed, and doubles are
			// recognised.
			s.o.Log.Warn("kafka: offsets of partitions that move were not committed", "topic", s.topic, "group", s.group, "error", err)
		}
	}
	s.discard(ids)
}

// give marks partitions as leaving and flushes their handed-out records.
func (s *Source) give(ids []int32) (leaving []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if p := s.parts[id]; p != nil {
			p.leaving = true
			p.version++ // how far it was handed out is to be said exactly
			leaving = append(leaving, p)
			s.flush = s.flush || p.out > 0
		}
	}
	signal(s.wake)
	return leaving
}

// drain waits until no record of the partitions is handed out, or time is up. False: the
// client is gone, nothing can be committed.
func (s *Source) drain(ctx context.Context, leaving []*partition) bool {
	end := time.NewTimer(s.o.Drain)
	defer end.Stop()
	for s.outOf(leaving) > 0 {
		select {
		case <-s.quiet:
		case <-end.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// outOf is the number of records worth waiting for.
func (s *Source) outOf(ps []*partition) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // nothing settles any more
		return 0
	}
	for _, p := range ps {
		n += p.out
	}
	return n
}

// onLost discards partitions that others may have already.
func (s *Source) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	s.discard(lost[s.topic])
}

// discard forgets partitions. Settlements of them are stale from here on.
func (s *Source) discard(ids []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.stopped, id)
		if p := s.parts[id]; p != nil {
			p.gone = true
			delete(s.before.lost, id)
			if len(p.doubts) > 0 {
				p.lost = s.o.Now()
				s.before.lost[id] = p
			}
			s.before.past[id] = p.state(false)
			delete(s.parts, id)
		}
	}
	s.order = slices.Sorted(keys(s.parts))
	s.later = slices.DeleteFunc(s.later, func(a appointment) bool { return a.p.gone })
	heap.Init(&s.later)
	signal(s.wake)
	signal(s.room)
}

func keys[V any](m map[int32]V) iter.Seq[int32] { return maps.Keys(m) }
