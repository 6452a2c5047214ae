package redissource

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// draining is where Drain goes on.
type draining struct {
	turn chan struct{} // cap 1: its holder drains
	from string        // the stream was searched up to there
	said bool          // it was reported that there are several groups
}

// Drain finds entries that would never be delivered: they lie in the stream, the group is
// past them, and no consumer has them, because somebody acked them without deleting them,
// removed a consumer with its entries, or set the group's position. They are pending then,
// and Receive of one of the group's sources hands them out soon, with one more hand-out
// counted. It needs Options.Drains.
//
// It searches the stream in batches (0: 1000, which is also the most), goes on where it
// stopped, and returns with the first batch that had any, and how many; 0 says that a whole
// pass found nothing.
//
// Where the stream has several groups, an entry that one of them has settled stays until
// all have: then Drain does nothing and reports it once (NoDrain), and entries delivered
// until then are never drained.
func (s *Source) Drain(ctx context.Context, batch int) (n int, err error) {
	if !s.o.Drains {
		return 0, tidemill.Fail(tidemill.Internal, "drain stream %q: set Options.Drains, else what it looks for is trimmed", s.o.Stream)
	}
	if err := s.join(ctx); err != nil {
		return 0, err
	}
	if batch <= 0 || batch > pageOf {
		batch = pageOf
	}
	d := &s.draining
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for start, again := d.from, false; ; {
		found, next, err := s.drain(ctx, d.from, batch)
		if err != nil {
			return 0, err
		}
		d.from = next
		if len(found) > 0 {
			s.mu.Lock()
			s.gate++ // Receive first checks what is due
			s.mu.Unlock()
			s.o.Report(Report{What: Drained, Count: uint64(len(found)), IDs: found[:min(len(found), 100)],
				Text: fmt.Sprintf("%d entries of stream %q would never have been delivered to group %q: they are handed out", len(found), s.o.Stream, s.o.Group)})
			return len(found), nil
		}
		if next == "-" { // the end
			if again || start == "-" {
				return 0, nil
			}
			again = true
		} else if again && !reached(next, start) {
			continue
		} else if again {
			return 0, nil
		}
	}
}

// reached says whether a pass that is at next has come to where it began.
func reached(next, start string) bool {
	a, _ := parsePlace(strings.TrimPrefix(next, "("))
	b, _ := parsePlace(strings.TrimPrefix(start, "("))
	return a.compare(b) >= 0
}

// drain searches one batch.
func (s *Source) drain(ctx context.Context, from string, batch int) (found []string, next string, err error) {
	reply, err := drain.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due},
		[]string{s.o.Group, s.name(), from, strconv.Itoa(batch)}).AsStrSlice()
	if err == nil && len(reply) == 0 {
		err = errReply
	}
	if err != nil {
		return nil, "", s.fail(err, "drain")
	}
	if reply[0] == "shared" {
		if !s.draining.said {
			s.draining.said = true
			s.o.Report(Report{What: NoDrain, Text: fmt.Sprintf("stream %q has several consumer groups: it is not drained, since one group's entry stays until the others are done with it", s.o.Stream)})
		}
		return nil, "-", nil
	}
	return reply[1:], reply[0], nil
}

// drainLua takes entries of a page that the group is past and that no consumer has. They
// are due at once: the next source that looks hands them out.
//
//	KEYS stream books due
//	ARGV group consumer from most
//
// Entries that are older than the books are added to them.
//
// It answers {"shared"}, or where the next page begins (-: no more pages) and the ids.
const drainLua = `
local stream, books, due = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, from, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local g, groups = group_of(stream, group)
if groups > 1 then return {'shared'} end
if not g then return {'-'} end
local shared = call('HGET', books, 'shared')
if shared and (from == '-' or upto(string.gsub(from, '^%(', ''), shared)) then from = '(' .. shared end
local page = call('XRANGE', stream, from, g['last-delivered-id'], 'COUNT', most)
if #page == 0 then return {'-'} end
local at, last = page[1][1], page[#page][1]
local have = {}
while true do
  local pending = call('XPENDING', stream, group, at, last, 1000)
  for i = 1, #pending do have[pending[i][1]] = true end
  if #pending < 1000 then break end
  at = '(' .. pending[#pending][1]
end
local found, coming, t = {}, {}, now()
for i = 1, #page do
  local id = page[i][1]
  if not have[id] then
    found[#found + 1] = id
    coming[#coming + 1] = t
    coming[#coming + 1] = id
  end
end
local n = #found
local answer = {#page < most and '-' or '(' .. last, unpack(found)}
if n > 0 then
  found[n + 1], found[n + 2] = 'FORCE', 'JUSTID'
  call('XCLAIM', stream, group, consumer, 0, unpack(found))
  call('ZADD', due, unpack(coming))
  local unknown = math.min(n, tonumber(call('HGET', books, 'spare') or 0))
  if unknown > 0 then
    call('HINCRBY', books, 'spare', -unknown)
    call('HINCRBY', books, 'base', -unknown)
  end
end
return answer
`
