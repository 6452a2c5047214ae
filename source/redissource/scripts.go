package redissource

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// Scripts run alone on the server: each one runs atomically. All keys of one are in the
// stream's slot.
var (
	tend     = rueidis.NewLuaScript(common + tendLua)
	settle   = rueidis.NewLuaScript(common + ownedLua + settleLua)
	keep     = rueidis.NewLuaScript(common + ownedLua + keepLua)
	take     = rueidis.NewLuaScript(common + takeLua)
	read     = rueidis.NewLuaScript(common + lookFunc + readLua)
	look     = rueidis.NewLuaScript(common + lookFunc + lookLua)
	shut     = rueidis.NewLuaScript(common + shutLua)
	permit   = rueidis.NewLuaScript(common + permitLua)
	leave    = rueidis.NewLuaScript(leaveLua)
	drain    = rueidis.NewLuaScript(common + drainLua)
	remove   = rueidis.NewLuaScript(common + removeLua)
	takeOver = rueidis.NewLuaScript(common + takeOverLua)

	lookSha = sha(common + lookFunc + lookLua) // it runs in one pipeline with a read
)

func sha(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// common are the functions that several scripts use. A full Redis runs them too: they make
// room.
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
local function parts(id) return string.match(id, '^(%d+)-(%d+)$') end
local function less(a, b) -- of numbers as texts: those of producers may be too large for Lua
  return #a < #b or #a == #b and a < b
end
local function upto(a, b) -- a <= b
  local am, as = parts(a)
  local bm, bs = parts(b)
  return less(am, bm) or am == bm and not less(bs, as)
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

// keepLua renews leases of entries that are still the consumer's, and the lease of its
// name.
//
//	KEYS stream probes name
//	ARGV group consumer token lease, then for each entry in order of ids: id, count
//
// An entry whose body is gone is not renewed, since Redis would forget that it is ours: it
// is still worked on, and its settlement counts if it comes within the lease. After that
// the first source that finds it idle counts it as lost.
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

// takeLua makes pending entries the consumer's and returns them: given ones that are idle
// for long enough, or those that are due. It takes delayed entries when they are due and
// not before. Entries without a body are lost.
//
//	KEYS stream books due again
//	ARGV group consumer idle (ms) from (consumer; empty: anybody) most, then ids; none: those that are due
//
// It answers entries {id, count, tries, fields}, ids lost, and how long until the next
// comes due, in ms (-1: nothing is delayed).
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
