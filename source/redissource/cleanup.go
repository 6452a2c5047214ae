package redissource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// CleanUp removes consumers that have been idle for that time and have nothing pending, and
// returns how many. It never removes this one, or one whose name a live source uses.
// Entries pending with an idle consumer are taken over first, like all that are not
// renewed; then a later call removes it.
func (s *Source) CleanUp(ctx context.Context, idle time.Duration) (removed int, err error) {
	if err := s.join(ctx); err != nil {
		return 0, err
	}
	me := s.name()
	names, err := s.idlers(ctx, me, idle)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(names, 100) {
		keys := append(make([]string, 0, 1+len(some)), s.keys.stream)
		for _, name := range some {
			keys = append(keys, s.keys.consumer(name))
		}
		gone, err := remove.Exec(ctx, s.client, keys, append([]string{s.o.Group, me, millis(idle)}, some...)).AsStrSlice()
		if err != nil {
			return removed, s.fail(err, "remove consumers of")
		}
		if len(gone) > 0 {
			removed += len(gone)
			s.o.Report(Report{What: Removed, Count: uint64(len(gone)), IDs: gone,
				Text: fmt.Sprintf("%d consumers of group %q were idle for %v: they are removed (%s)", len(gone), s.o.Group, idle, strings.Join(gone[:min(len(gone), 5)], ", "))})
		}
	}
	return removed, nil
}

// idlers are consumers that may be removed: the script checks again.
func (s *Source) idlers(ctx context.Context, me string, idle time.Duration) ([]string, error) {
	consumers, err := s.client.Do(ctx, s.client.B().XinfoConsumers().Key(s.keys.stream).Group(s.o.Group).Build()).ToArray()
	if err != nil {
		return nil, s.fail(err, "look at the consumers of")
	}
	var names []string
	for i := range consumers {
		c, err := consumers[i].AsMap()
		if err != nil {
			return nil, s.fail(err, "look at the consumers of")
		}
		name, err1 := field(c, "name").ToString()
		pending, err2 := field(c, "pending").AsInt64()
		ms, err3 := field(c, "idle").AsInt64()
		if err1 == nil && err2 == nil && err3 == nil && name != me && pending == 0 && ms >= idle.Milliseconds() {
			names = append(names, name)
		}
	}
	return names, nil
}

// field is one field of an answer of Redis.
func field(of map[string]rueidis.RedisMessage, name string) *rueidis.RedisMessage {
	m := of[name]
	return &m
}

// removeLua removes consumers that are still idle, have nothing pending, and whose name is
// not in use.
//
//	KEYS stream, then for each name: the key of its lease
//	ARGV group consumer idle (ms), then names
//
// It answers the names of those removed.
const removeLua = `
local stream, group, consumer, idle = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local lease = {}
for i = 4, #ARGV do lease[ARGV[i]] = KEYS[i - 2] end
local removed = {}
local consumers = call('XINFO', 'CONSUMERS', stream, group)
for i = 1, #consumers do
  local c = flat(consumers[i])
  local name = c['name']
  if lease[name] and c['pending'] == 0 and c['idle'] >= idle and name ~= consumer and call('EXISTS', lease[name]) == 0 then
    call('XGROUP', 'DELCONSUMER', stream, group, name)
    removed[#removed + 1] = name
  end
end
return removed
`
