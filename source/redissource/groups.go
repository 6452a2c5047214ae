package redissource

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// Trimmed is how many entries this source has removed because every group of the stream had finished
// them, since it was made. Where the group is the stream's only one, what it settles is deleted and not
// counted here.
func (s *Source) Trimmed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trimmed
}

// Other is another group of the stream: what it has not finished stays in the stream.
type Other struct {
	Group  string
	Oldest time.Time     // when the first entry was added that it has not finished; zero: it has finished all
	Held   int64         // entries that it has not finished, where Redis knows: -1: it does not
	Idle   time.Duration // since one of its consumers last asked for entries; -1: it has none
}

// Others are the other groups of the stream, by their names. It changes nothing. Of a stream that is not
// there (yet) there are none.
func (s *Source) Others(ctx context.Context) ([]Other, error) {
	fail := func(err error) error { return redisconn.Error(err, "look at the groups of stream %q", s.o.Stream) }
	groups, err := s.client.Do(ctx, s.client.B().XinfoGroups().Key(s.keys.stream).Build()).ToArray()
	if err != nil {
		if lostGroup(err) {
			return nil, nil
		}
		return nil, fail(err)
	}
	var all []Other
	for i := range groups {
		g, err := groups[i].AsMap()
		if err != nil {
			return nil, fail(err)
		}
		name, err1 := field(g, "name").ToString()
		pending, err2 := field(g, "pending").AsInt64()
		last, err3 := field(g, "last-delivered-id").ToString()
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fail(errReply)
		}
		if name == s.o.Group {
			continue
		}
		o := Other{Group: name, Held: -1, Idle: -1}
		if lag, err := field(g, "lag").AsInt64(); err == nil {
			o.Held = pending + lag
		}
		if err := s.look(ctx, &o, pending, last); err != nil {
			return nil, fail(err)
		}
		all = append(all, o)
	}
	return all, nil
}

// look finds a group's oldest entry and the consumer that was last there.
func (s *Source) look(ctx context.Context, o *Other, pending int64, last string) error {
	b := s.client.B
	got := s.client.DoMulti(ctx,
		b().Xrange().Key(s.keys.stream).Start("("+last).End("+").Count(1).Build(),
		b().Xpending().Key(s.keys.stream).Group(o.Group).Build(),
		b().XinfoConsumers().Key(s.keys.stream).Group(o.Group).Build())
	unread, err := got[0].AsXRange()
	if err != nil {
		return err
	}
	for _, e := range unread {
		o.Oldest = addedAt(e.ID)
	}
	if pending > 0 {
		summary, err := got[1].ToArray()
		if err != nil || len(summary) < 2 {
			return errReply
		}
		if first, err := summary[1].ToString(); err == nil { // none: they were settled meanwhile
			o.Oldest = addedAt(first)
		}
	}
	consumers, err := got[2].ToArray()
	if err != nil {
		return err
	}
	for i := range consumers {
		c, err := consumerOf(&consumers[i])
		if err != nil {
			return err
		}
		if o.Idle < 0 || c.Idle < o.Idle {
			o.Idle = c.Idle
		}
	}
	return nil
}
