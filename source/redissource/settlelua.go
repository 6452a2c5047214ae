package redissource

// ownedLua finds which of some ids, in order, are pending, and which hand-out of theirs
// that is: under one consumer, or under any (empty). Pages of pending entries cover ids
// that lie close together. The more of a page was of use, the larger the next one is, so
// that ids that lie far apart are looked up one by one.
const ownedLua = `
local function owned(stream, group, consumer, ids)
  local have, at, n, last = {}, 1, #ids, ids[#ids]
  local want = math.min(n, 128)
  while at <= n do
    local page
    if consumer == '' then
      page = call('XPENDING', stream, group, ids[at], want == 1 and ids[at] or last, want)
    else
      page = call('XPENDING', stream, group, ids[at], want == 1 and ids[at] or last, want, consumer)
    end
    local rows = #page
    for i = 1, rows do
      local row = page[i]
      have[row[1]] = row[4]
    end
    local from = at
    if want == 1 then
      at = at + 1
    elseif rows < want then
      return have
    else
      local reached = page[rows][1]
      while at <= n and (have[ids[at]] or upto(ids[at], reached)) do at = at + 1 end
    end
    local used = at - from
    if used * 2 >= want then
      want = math.min(want * 2, 512)
    elseif used * 8 < want then
      want = math.max(1, math.floor(want / 8))
    end
  end
  return have
end
`

// settleLua ends hand-outs. An entry that is no longer the consumer's, or was handed out
// again or delayed, stays as it is.
//
//	KEYS stream books due again probes
//	ARGV group consumer codes, then an id for each code, in order, then a text for each ? of codes
//
// No consumer: acks from outside, for pending entries of any consumer.
//
// codes say with one character each how entries end, most of them after their first hand-out:
// d delivered, s skipped, x dead; ? means one of these texts, after the count of the hand-out
// (0: any):
//
//	d  s  x  l (left)  r<delivered>,<skipped>,<dead>  a<ms>,<burn>,<cause>
//
// A * before the count: another source handed it out, whose consumer we do not know. The
// count identifies a hand-out: each hand-out raises it, and renewing does not.
//
// It answers a character for each entry: 1 applied, 0 stale; or just 1: all applied.
const settleLua = `
local stream, books, due, again, probes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, consumer, codes = ARGV[1], ARGV[2], ARGV[3]
local n = #codes
local ids, code = {unpack(ARGV, 4, 3 + n)}, {string.byte(codes, 1, n)}
local have = owned(stream, group, consumer, ids)
local acks = consumer == ''
local off = {} -- what is put off is out for nobody
if call('EXISTS', due) == 1 then off = call('ZMSCORE', due, unpack(ids)) end
local stale, done, counts = {}, {}, {[100] = 0, [115] = 0, [120] = 0}
local nstale, ndone, text = 0, 0, 3 + n
for i = 1, n do
  local id, what = ids[i], code[i]
  local is = have[id]
  local fits, rest = acks and is or is == 1, nil
  if what == 63 then
    text = text + 1
    local any, wanted, letter
    any, wanted, letter, rest = string.match(ARGV[text], '^(%*?)(%d+)(%a)(.*)$')
    what = string.byte(letter)
    if any == '*' and not is then
      local p = call('XPENDING', stream, group, id, id, 1)[1]
      is = p and p[4]
    end
    fits = is and (wanted == '0' or is == tonumber(wanted))
  end
  if not fits or off[i] and not (acks and what ~= 97) then
    stale[i] = true
    nstale = nstale + 1
  elseif counts[what] then
    counts[what] = counts[what] + 1
    ndone = ndone + 1
    done[ndone] = id
  elseif what == 114 then -- r
    local d, s, x = string.match(rest, '^(%d+),(%d+),(%d+)$')
    counts[100] = counts[100] + d
    counts[115] = counts[115] + s
    counts[120] = counts[120] + x
    ndone = ndone + 1
    done[ndone] = id
  elseif what == 97 then -- a
    local wait, burn, cause = string.match(rest, '^(%d+),(%d),(.*)$')
    local tries = tonumber(string.match(call('HGET', again, id) or '0', '^%d+')) + burn
    if cause ~= '' then cause = ' ' .. cause end
    call('HSET', again, id, tries .. cause)
    if tonumber(wait) > 0 then wait = wait + 1 end -- now() is rounded down, and early is wrong
    call('ZADD', due, now() + wait, id)
  end
end
if ndone > 0 then
  call('XACK', stream, group, unpack(done))
  local groups = call('XINFO', 'GROUPS', stream)
  if #groups == 1 then
    call('XDEL', stream, unpack(done))
  else
    -- Others need them still. They are done for us, and Drain must not bring them back.
    call('HDEL', books, 'spare')
    local shared = call('HGET', books, 'shared')
    if not shared or upto(shared, done[ndone]) then call('HSET', books, 'shared', done[ndone]) end
  end
  if call('EXISTS', again) == 1 then call('HDEL', again, unpack(done)) end
  if acks and next(off) then call('ZREM', due, unpack(done)) end
  if counts[100] > 0 then call('HINCRBY', books, 'delivered', counts[100]) end
  if counts[115] > 0 then call('HINCRBY', books, 'skipped', counts[115]) end
  if counts[120] > 0 then call('HINCRBY', books, 'dead', counts[120]) end
end
if nstale < n and call('EXISTS', probes) == 1 then
  for i = 1, n do
    if not stale[i] then call('ZREM', probes, ids[i]) end
  end
end
if nstale == 0 then return '1' end
local took = {}
for i = 1, n do took[i] = stale[i] and '0' or '1' end
return table.concat(took)
`
