package redissource

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// Outline is how the stream stands with the group.
type Outline struct {
	Length    int64      // entries in the stream
	Oldest    time.Time  // when the first of them was added, where Redis gave the id; zero: there is none
	Pending   int64      // handed out and not settled
	Delayed   int64      // of these: failed, and not handed out again before their time
	Consumers []Consumer // of the group
}

// Consumer is one of the group.
type Consumer struct {
	Name    string
	Pending int64         // entries that it has
	Idle    time.Duration // since it last asked for entries or renewed them
}

// Outline says how the stream stands: from counters, and from its first entry. It changes nothing. A
// stream or a group that there is not (yet) is empty.
func (s *Source) Outline(ctx context.Context) (*Outline, error) {
	b, fail := s.client.B, func(err error) error { return redisconn.Error(err, "look at stream %q", s.o.Stream) }
	got := s.client.DoMulti(ctx,
		b().Xlen().Key(s.keys.stream).Build(),
		b().Xrange().Key(s.keys.stream).Start("-").End("+").Count(1).Build(),
		b().XinfoConsumers().Key(s.keys.stream).Group(s.o.Group).Build(),
		b().Zcard().Key(s.keys.due).Build())
	o := &Outline{}
	var err error
	if o.Length, err = got[0].AsInt64(); err != nil {
		return nil, fail(err)
	}
	first, err := got[1].AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fail(err)
	}
	for _, e := range first {
		o.Oldest = addedAt(e.ID)
	}
	if o.Delayed, err = got[3].AsInt64(); err != nil {
		return nil, fail(err)
	}
	consumers, err := got[2].ToArray()
	if err != nil && !lostGroup(err) {
		return nil, fail(err)
	}
	for _, m := range consumers {
		c, err := consumerOf(&m)
		if err != nil {
			return nil, fail(err)
		}
		o.Pending += c.Pending
		o.Consumers = append(o.Consumers, c)
	}
	return o, nil
}

// consumerOf reads a row of XINFO CONSUMERS.
func consumerOf(m *rueidis.RedisMessage) (c Consumer, err error) {
	row, err := m.AsMap()
	if err != nil {
		return c, err
	}
	for name, read := range map[string]func(rueidis.RedisMessage) error{
		"name":    func(v rueidis.RedisMessage) (err error) { c.Name, err = v.ToString(); return err },
		"pending": func(v rueidis.RedisMessage) (err error) { c.Pending, err = v.AsInt64(); return err },
		"idle": func(v rueidis.RedisMessage) error {
			ms, err := v.AsInt64()
			c.Idle = time.Duration(ms) * time.Millisecond
			return err
		},
	} {
		v, ok := row[name]
		if !ok {
			return c, fmt.Errorf("a consumer without %s", name)
		}
		if err := read(v); err != nil {
			return c, err
		}
	}
	return c, nil
}

// addedAt is when an entry was added, by its id.
func addedAt(id string) time.Time {
	p, _ := canonical(id)
	return time.UnixMilli(int64(min(p.ms, 1<<52))).UTC()
}
