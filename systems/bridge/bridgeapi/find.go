package bridgeapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/bridge"
)

// Standing is where an entry of a stream on a server stands.
type Standing struct {
	ID       string
	Added    time.Time     // by its id
	Unread   bool          // no consumer has it yet
	Consumer string        // that has it; empty: none
	Idle     time.Duration // since it was handed out, or its lease was renewed
	Handed   int           // hand-outs
	Tries    int           // that failed
	Cause    string        // of the last one
	Due      time.Time     // it is not handed out again before; zero: it is not delayed
}

// Finder finds and explains entries of the bridge by their ids.
type Finder struct {
	Queues queue.Store // that embedded entries wait in; nil: there is a Stream
	// Stream says where an entry of a stream on a server stands; kind not_found: the stream does not
	// have it. Nil: there are Queues.
	Stream  func(ctx context.Context, id string) (*Standing, error)
	Letters deadletter.Store // nil: the dead are on their topic alone
	Acks    bool             // an entry ends when the subscriber says that it has it
	Lease   time.Duration    // after which an entry without an ack is published again
	Now     func() time.Time
}

// Lookups implements answer.Finder.
func (f *Finder) Lookups(id, _ string) []answer.Lookup {
	hits := func(known bool, err error) ([]api.Thing, error) {
		if !known || err != nil {
			return nil, err
		}
		return []api.Thing{answer.EventHit(bridge.Name, "entry", "", id, "entry of the bridge's stream")}, nil
	}
	all := []answer.Lookup{{Where: "stream", Do: func(ctx context.Context) ([]api.Thing, error) {
		if f.Stream != nil {
			st, err := f.Stream(ctx, id)
			return hits(st != nil, err)
		}
		known := []bool{false}
		err := f.Queues.Knows(ctx, []queue.Name{{Queue: bridge.Name, ID: id}}, known)
		return hits(known[0], err)
	}}}
	if f.Letters != nil {
		all = append(all, answer.Lookup{Where: "dead letters of entries", Do: func(ctx context.Context) ([]api.Thing, error) {
			l, err := f.letter(ctx, id)
			return hits(l != nil, err)
		}})
	}
	return all
}

// letter is an entry's dead letter; nil: it has none.
func (f *Finder) letter(ctx context.Context, id string) (*deadletter.Letter, error) {
	for l, err := range f.Letters.List(ctx, deadletter.Filter{Pipeline: bridge.Name, IDs: []string{id}, Max: 1}) {
		return l, err
	}
	return nil, nil
}

// Explain implements answer.Finder.
func (f *Finder) Explain(ctx context.Context, _, id string) (api.Explanation, error) {
	s := answer.NewStory(bridge.Name, "entry", "", id, f.Now())
	if f.Stream != nil {
		f.inStream(ctx, s, id)
	} else {
		f.inQueue(ctx, s, id)
	}
	if f.Letters != nil {
		l, err := f.letter(ctx, id)
		if s.Asked("dead letters", err) && l != nil {
			s.Letter(l)
			s.GivenUp(l, "nothing by itself: replay or discard its dead letter")
		}
	}
	return s.Tell()
}

// inStream says where an entry of a stream on a server stands.
func (f *Finder) inStream(ctx context.Context, s *answer.Story, id string) {
	const where = "stream"
	st, err := f.Stream(ctx, id)
	if !s.Asked(where, err) {
		if tidemill.KindOf(err) == tidemill.NotFound {
			s.Forgot("whether it was ever there: an entry leaves the stream when it has ended, and nothing is kept of it")
		}
		return
	}
	s.Ends(api.FateInFlight, "it is in the stream")
	s.Step(st.Added, "accepted", where, "a producer added it, by the time in its id")
	if st.Tries > 0 {
		s.Step(time.Time{}, "tried", where, fmt.Sprintf("%d tries failed, the last: %s", st.Tries, st.Cause))
	}
	switch {
	case st.Unread:
		s.Step(time.Time{}, "waiting", where, "no consumer has read it yet")
		s.Then(time.Time{}, "it is read when those before it have been")
	case !st.Due.IsZero():
		s.Step(time.Time{}, "waiting", where, "it waits for its next try")
		s.Then(st.Due, "it is published again")
	case f.Acks:
		s.Step(s.Now.Add(-st.Idle), "published", where, fmt.Sprintf("consumer %s has it, hand-out %d: it is published, or waits for its ack", st.Consumer, st.Handed))
		s.Then(s.Now.Add(f.Lease-st.Idle), "it is published again, unless an ack ends it before or its lease is renewed,")
	default:
		s.Step(s.Now.Add(-st.Idle), "running", where, fmt.Sprintf("consumer %s has it, hand-out %d", st.Consumer, st.Handed))
		s.Then(time.Time{}, "it ends when the broker has it")
	}
}

// inQueue says where an entry of the embedded stream stands.
func (f *Finder) inQueue(ctx context.Context, s *answer.Story, id string) {
	name := queue.Name{Queue: bridge.Name, ID: id}
	j, err := f.Queues.Look(ctx, name)
	if errors.Is(err, queue.ErrNotFound) {
		known := []bool{false}
		if err := f.Queues.Knows(ctx, []queue.Name{name}, known); s.Asked("embedded stream", err) && known[0] {
			s.Step(time.Time{}, "settled", "embedded stream", "it came, and has ended: it was published and acknowledged, or its dead letter is gone")
			s.Ends(api.FateUnknown, "it has ended")
			s.Forgot("how and when it ended: entries are not kept, and their ids are remembered for at least %s", answer.Long(queue.Remember))
		}
		return
	}
	if !s.Asked("embedded stream", err) {
		return
	}
	s.Step(j.Added, "accepted", "embedded stream", "it was added", answer.JobHit(bridge.Name, j.To, j.Tenant, j.ID, "its job"))
	s.Tried("embedded stream", j.Failures)
	switch {
	case j.State == queue.Leased && f.Acks:
		s.Ends(api.FateInFlight, "it is published, or waits for its ack")
		s.Step(time.Time{}, "published", "embedded stream", fmt.Sprintf("a worker has it, hand-out %d: it is published, or waits for its ack", j.Handed))
		s.Then(time.Time{}, "it is published again when its lease of %v is over, unless an ack ends it before", f.Lease)
	case j.State.Held():
		s.Ends(api.FateInFlight, "it is in the stream")
		s.Waiting(ctx, f.Queues, j)
	case j.Fate == tidemill.Delivered:
		s.Ends(api.FateDelivered, "it was published")
		s.Step(j.Ended, "delivered", "embedded stream", "it was published, and acknowledged")
	}
}
