package redissource

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// Scripts run alone on the server: what one does, it does in one stroke. All keys of one
// are in the stream's slot.
var (
	tend   = rueidis.NewLuaScript(common + tendLua)
	settle = rueidis.NewLuaScript(common + ownedLua + settleLua)
	keep   = rueidis.NewLuaScript(common + ownedLua + keepLua)
	take   = rueidis.NewLuaScript(common + takeLua)
	look   = rueidis.NewLuaScript(common + lookLua)
	shut   = rueidis.NewLuaScript(common + shutLua)
	permit = rueidis.NewLuaScript(common + permitLua)
	leave  = rueidis.NewLuaScript(leaveLua)

	lookSha = sha(common + lookLua) // it runs in one pipeline with a read
)

func sha(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// common are the words that several scripts use. A Redis that is full runs them: they are
// what makes room.
const common = `#!lua flags=allow-oom
local call = redis.call
local function now()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function flat(reply)
  local m = {}
  for i = 1, #reply, 2 do m[reply[i]] = reply[i + 1] end
  return m
end
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local function upto(a, b) -- a <= b
  local am, as = parts(a)
  local bm, bs = parts(b)
  return am < bm or am == bm and as <= bs
end
local function group_of(stream, name)
  local groups = call('XINFO', 'GROUPS', stream)
  for i = 1, #groups do
    local g = flat(groups[i])
    if g['name'] == name then return g, #groups end
  end
  return nil, #groups
end
`

// ownedLua finds which of some ids, in order, are pending under a consumer, and as their
// how-manieth hand-out. A page at a time covers ids that lie close together; where they do
// not, it goes on at the next one.
const ownedLua = `
local function owned(stream, group, consumer, ids)
  local have, at, last = {}, 1, ids[#ids]
  while at <= #ids do
    local want = math.min(#ids - at + 1, 200)
    local page = call('XPENDING', stream, group, ids[at], last, want, consumer)
    for i = 1, #page do have[page[i][1]] = page[i][4] end
    if #page < want then return have end
    local reached = page[#page][1]
    while at <= #ids and (have[ids[at]] or upto(ids[at], reached)) do at = at + 1 end
  end
  return have
end
`

// settleLua ends hand-outs. What is no longer the consumer's, or was handed out again,
// stays as it is.
//
//	KEYS stream books due again probes
//	ARGV group consumer codes, then an id for each code, in order, then a text for each ? of codes
//
// codes say with a letter each what entries come to, most of them after their first
// hand-out: d delivered, s skipped, x dead; ? means one of these texts, after the count of the
// hand-out:
//
//	d  s  x  l (left)  r<delivered>,<skipped>,<dead>  a<ms>,<burn>,<cause>
//
// A * before the count: another source handed it out, whose consumer we do not know. The
// count is enough to know a hand-out by: each raises it, and renewing does not.
//
// It answers a character for each entry: 1 applied, 0 stale; or just 1: all applied.
const settleLua = `
local stream, books, due, again, probes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, consumer, codes = ARGV[1], ARGV[2], ARGV[3]
local _, groups = group_of(stream, group)
local n = #codes
local ids = {unpack(ARGV, 4, 3 + n)}
local have = owned(stream, group, consumer, ids)
local took, done, all = {}, {}, {}
local count = {d = 0, s = 0, x = 0}
local extra, stale = 3 + n, false
for i = 1, n do
  local id, what, rest = ids[i], string.sub(codes, i, i), nil
  local is, wanted = have[id], 1
  if what == '?' then
    extra = extra + 1
    local any
    any, wanted, what, rest = string.match(ARGV[extra], '^(%*?)(%d+)(%a)(.*)$')
    wanted = tonumber(wanted)
    if any == '*' and not is then
      local p = call('XPENDING', stream, group, id, id, 1)[1]
      is = p and p[4]
    end
  end
  if is ~= wanted then
    took[i] = '0'
    stale = true
  else
    took[i] = '1'
    all[#all + 1] = id
    if count[what] then
      count[what] = count[what] + 1
      done[#done + 1] = id
    elseif what == 'r' then
      local d, s, x = string.match(rest, '^(%d+),(%d+),(%d+)$')
      count.d = count.d + d; count.s = count.s + s; count.x = count.x + x
      done[#done + 1] = id
    elseif what == 'a' then
      local wait, burn, cause = string.match(rest, '^(%d+),(%d),(.*)$')
      local tries = tonumber(string.match(call('HGET', again, id) or '0', '^%d+')) + burn
      if cause ~= '' then cause = ' ' .. cause end
      call('HSET', again, id, tries .. cause)
      if tonumber(wait) > 0 then wait = wait + 1 end -- now() is rounded down, and early is wrong
      call('ZADD', due, now() + wait, id)
    end
  end
end
if #done > 0 then
  call('XACK', stream, group, unpack(done))
  if groups == 1 then
    call('XDEL', stream, unpack(done))
  else
    call('HDEL', books, 'spare')
  end
  if call('EXISTS', again) == 1 then call('HDEL', again, unpack(done)) end
  if count.d > 0 then call('HINCRBY', books, 'delivered', count.d) end
  if count.s > 0 then call('HINCRBY', books, 'skipped', count.s) end
  if count.x > 0 then call('HINCRBY', books, 'dead', count.x) end
end
if #all > 0 and call('EXISTS', probes) == 1 then call('ZREM', probes, unpack(all)) end
if not stale then return '1' end
return table.concat(took)
`

// keepLua renews leases of what is still the consumer's, and the lease of its name.
//
//	KEYS stream probes name
//	ARGV group consumer token lease, then for each entry in order of ids: id, count
//
// An entry whose body is gone is not renewed, since Redis would forget that it is ours: it
// is still worked on, and its settlement counts if it comes within the lease. After that
// whoever finds it idle counts it as lost.
//
// It answers a character for each entry: 1 kept, 0 not ours.
const keepLua = `
local stream, probes = KEYS[1], KEYS[2]
local group, consumer, token, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if call('GET', KEYS[3]) == token then call('PEXPIRE', KEYS[3], lease) end
local ids = {}
for i = 5, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
if #ids == 0 then return '' end
local have = owned(stream, group, consumer, ids)
local mine, answer = {}, {}
for i = 1, #ids do
  local id = ids[i]
  answer[i] = '0'
  if have[id] == tonumber(ARGV[4 + 2 * i]) then
    answer[i] = '1'
    if #call('XRANGE', stream, id, id) > 0 then mine[#mine + 1] = id end
  end
end
if #mine > 0 then
  if call('EXISTS', probes) == 1 then
    local till = now() + lease
    for i = 1, #mine do call('ZADD', probes, 'XX', till, mine[i]) end
  end
  mine[#mine + 1] = 'JUSTID' -- the count of hand-outs stays
  call('XCLAIM', stream, group, consumer, 0, unpack(mine))
end
return table.concat(answer)
`

// takeLua makes pending entries the consumer's and returns them: given ones that are
// idle for long enough, or those that come due. What is put off is taken when it is due
// and not before. Entries whose body is gone are lost.
//
//	KEYS stream books due again
//	ARGV group consumer idle (ms) from (consumer; empty: anybody) most, then ids; none: those that are due
//
// It answers entries {id, count, tries, fields}, ids lost, and how long until the next
// comes due, in ms (-1: nothing is put off).
const takeLua = `
local stream, books, due, again = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, consumer, idle, from, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local at = now()
local ids = {}
if #ARGV == 5 then
  ids = call('ZRANGEBYSCORE', due, '-inf', at, 'LIMIT', 0, most)
else
  for i = 6, #ARGV do
    if not call('ZSCORE', due, ARGV[i]) then ids[#ids + 1] = ARGV[i] end
  end
end
local entries, lost = {}, {}
for i = 1, #ids do
  local id = ids[i]
  local p = call('XPENDING', stream, group, id, id, 1)[1]
  if not p then
    call('ZREM', due, id)
  elseif p[3] >= idle and (from == '' or p[2] == from) then
    call('ZREM', due, id)
    local got = call('XCLAIM', stream, group, consumer, idle, id)
    if #got == 1 and got[1] then
      local tries = call('HGET', again, id)
      entries[#entries + 1] = {id, p[4] + 1, tonumber(string.match(tries or '0', '^%d+')), got[1][2]}
    else
      call('XACK', stream, group, id)
      call('HDEL', again, id)
      lost[#lost + 1] = id
    end
  end
end
if #lost > 0 then call('HINCRBY', books, 'lost', #lost) end
local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
local wait = -1
if first[2] then wait = math.max(0, first[2] - at) end
return {entries, lost, wait}
`

// lookLua sees what a read must know: {ms until the gate lets probes out (-1: it is open),
// probes, ms until the next entry comes due (-1: nothing is put off)}.
//
//	KEYS gate due
const lookLua = `
local wait, probes, coming = -1, 0, -1
local gate = call('HMGET', KEYS[1], 'until', 'probes')
local first = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if gate[1] or first[2] then
  local at = now()
  if gate[1] then wait, probes = math.max(0, gate[1] - at), tonumber(gate[2]) end
  if first[2] then coming = math.max(0, first[2] - at) end
end
return {wait, probes, coming}
`

// shutLua closes the gate or opens it.
//
//	KEYS gate probes
//	ARGV ms until it lets probes out (-1: open it), probes, ms until it opens by itself
const shutLua = `
call('DEL', KEYS[1], KEYS[2])
if tonumber(ARGV[1]) >= 0 then
  call('HSET', KEYS[1], 'until', now() + 1 + ARGV[1], 'probes', ARGV[2])
  call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
`

// permitLua lets probes out: it answers how many of the ids, from the first on.
//
//	KEYS gate probes
//	ARGV lease, then ids
const permitLua = `
local gate = call('HMGET', KEYS[1], 'until', 'probes')
if not gate[1] then return #ARGV - 1 end
local at = now()
if at < tonumber(gate[1]) then return 0 end
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', at)
local n = math.min(#ARGV - 1, gate[2] - call('ZCARD', KEYS[2]))
if n <= 0 then return 0 end
for i = 1, n do call('ZADD', KEYS[2], at + ARGV[1], ARGV[1 + i]) end
call('PEXPIRE', KEYS[2], call('PTTL', KEYS[1]))
return n
`

// leaveLua gives up a consumer's name, and the consumer where nothing is pending.
//
//	KEYS stream name
//	ARGV group consumer token
const leaveLua = `
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return 0 end
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
for i = 1, #consumers do
  local c = {}
  for j = 1, #consumers[i], 2 do c[consumers[i][j]] = consumers[i][j + 1] end
  if c['name'] == ARGV[2] and c['pending'] == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
end
return 1
`
