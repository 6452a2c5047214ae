package redissource

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
)

// Possession is what a consumer of the group has.
type Possession struct {
	Consumer
	Held    time.Duration // how long its name is still a process's, which renews that while it runs; 0: nobody goes by it
	Entries []Possessed   // its oldest entries, at most 20
}

// Possessed is an entry that a consumer has.
type Possessed struct {
	ID     string
	Idle   time.Duration // since it was handed out, or its lease was renewed
	Handed int           // hand-outs
}

// shownEntries is how many entries of a consumer are shown.
const shownEntries = 20

// Of says what a consumer has: kind not_found where the group does not know it. It changes nothing.
func (s *Source) Of(ctx context.Context, consumer string) (*Possession, error) {
	o, err := s.Outline(ctx)
	if err != nil {
		return nil, err
	}
	p := &Possession{}
	for _, c := range o.Consumers {
		if c.Name == consumer {
			p.Consumer = c
		}
	}
	if p.Name == "" {
		return nil, tidemill.Fail(tidemill.NotFound, "group %q of stream %q has no consumer %q", s.o.Group, s.o.Stream, consumer)
	}
	b := s.client.B
	got := s.client.DoMulti(ctx,
		b().Pttl().Key(s.keys.consumer(consumer)).Build(),
		b().Xpending().Key(s.keys.stream).Group(s.o.Group).Start("-").End("+").Count(shownEntries).Consumer(consumer).Build())
	fail := func(err error) error {
		return redisconn.Error(err, "look at consumer %q of stream %q", consumer, s.o.Stream)
	}
	ms, err := got[0].AsInt64()
	if err != nil {
		return nil, fail(err)
	}
	p.Held = time.Duration(max(ms, 0)) * time.Millisecond
	rows, err := got[1].ToArray()
	if err != nil {
		return nil, fail(err)
	}
	for _, m := range rows {
		row, err := m.ToArray()
		if err != nil || len(row) < 4 {
			continue // as no Redis answers
		}
		var e Possessed
		e.ID, _ = row[0].ToString()
		idle, _ := row[2].AsInt64()
		handed, _ := row[3].AsInt64()
		e.Idle, e.Handed = time.Duration(idle)*time.Millisecond, int(handed)
		p.Entries = append(p.Entries, e)
	}
	return p, nil
}

// TakeOver makes this source the owner of all that a consumer has, and returns how many entries that
// are; they are handed out again at once, those that are delayed at their time. The consumer is
// removed from the group when it has nothing any more. A name that a process goes by is refused with
// kind rate_limit: it works, or died less than a lease ago. A program that reads the group without
// such a name, and still works, goes on with entries that are handed out here too.
func (s *Source) TakeOver(ctx context.Context, consumer string) (taken int, err error) {
	if _, err := s.Of(ctx, consumer); err != nil {
		return 0, err
	}
	if err := s.join(ctx); err != nil {
		return 0, err
	}
	defer func() {
		s.mu.Lock()
		s.missed = s.missed || taken > 0
		s.mu.Unlock()
	}()
	for from := "-"; from != ""; {
		reply, err := takeOver.Exec(ctx, s.client, []string{s.keys.stream, s.keys.consumer(consumer)}, []string{s.o.Group, consumer, s.name(), from}).ToArray()
		if err != nil {
			return taken, s.fail(err, "take over a consumer of")
		}
		n, err := reply[0].AsInt64()
		if err != nil {
			return taken, s.fail(err, "take over a consumer of")
		}
		if n < 0 {
			return taken, tidemill.Fail(tidemill.RateLimit, "consumer %q of stream %q is a process that runs, or ended less than %v ago: stop it, or wait", consumer, s.o.Stream, s.o.Lease)
		}
		taken += int(n)
		if from, err = reply[1].ToString(); err != nil {
			return taken, s.fail(err, "take over a consumer of")
		}
	}
	return taken, nil
}

// takeOverLua gives a page of a consumer's entries to another one, and removes a consumer that has
// nothing. Entries without a body stay: they are counted as lost when they are found idle.
//
//	KEYS stream name
//	ARGV group consumer to from
//
// It answers how many were given (-1: a process goes by the name), and where to go on (empty: it is done).
const takeOverLua = `
local stream, group, consumer, to = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if consumer == to or call('EXISTS', KEYS[2]) == 1 then return {-1, ''} end
local page = call('XPENDING', stream, group, ARGV[4], '+', 500, consumer)
local ids = {}
for i = 1, #page do
  local id = page[i][1]
  if #call('XRANGE', stream, id, id) > 0 then ids[#ids + 1] = id end
end
local given = #ids
if given > 0 then
  ids[given + 1] = 'JUSTID' -- the count of hand-outs stays
  call('XCLAIM', stream, group, to, 0, unpack(ids))
end
if #page == 500 then return {given, '(' .. page[500][1]} end
if #call('XPENDING', stream, group, '-', '+', 1, consumer) == 0 then call('XGROUP', 'DELCONSUMER', stream, group, consumer) end
return {given, ''}
`
