-- settle ends hand-outs, in order.
--
-- ARGV 1 token, 2 minutes that metrics keep (0: as others do), then for each:
--   id, hand-out, what it comes to, and
--     c  value, keep                                    completed
--     f  reason, keep, trace, limit, attempts, flags    failed for good
--     r  ms, LPUSH or RPUSH, reason, trace, limit       failed, to be tried again
--     p  ms                                             to be handed out again; no attempt
--     l                                                 left: it stays active until its lock ends
--
-- hand-out: which one of ours; * before it: of any source of this kind, since no two of a
--   job have the same number; empty: any, of any holder; -: it must have none
-- keep: "<count> <age> <limit>" (count 0: it is removed; -: no bound), see trim; trace: a JSON
-- string for stacktrace, which keeps so many (limit; empty: 100); flags: what its failure means to
-- its parent, where 5.x says that in the job's own options
-- returns a character for each: 1 applied, 0 stale, 2 it has children that have not ended well:
-- nothing was done
local q = open(base)
local token, points = ARGV[1], tonumber(ARGV[2])
local n, ends, ids = 3, {}, {}
local SIZE = {c = 2, f = 6, r = 5, p = 1, l = 0}
while n <= #ARGV do
  ends[#ends + 1] = n
  ids[#ids + 1] = ARGV[n]
  n = n + 3 + SIZE[ARGV[n + 2]]
end
local held = locks(ids)
local check = call('EXISTS', base .. 'stalled') == 1
local unlocked, unstalled = {}, {}
local finished, rules = {completed = {}, failed = {}}, {completed = {}, failed = {}}
local counts = {completed = 0, failed = 0}
local took, gone = {}, {}

-- traced adds a trace to those of earlier failures.
local function traced(old, trace, limit)
  local most = tonumber(limit) or 100
  if most <= 0 then return '[]' end
  local ok, list = pcall(cjson.decode, old or '[]')
  if not ok or type(list) ~= 'table' then list = {} end
  local out = {}
  for i = max(1, #list - most + 2), #list do out[#out + 1] = cjson.encode(list[i]) end
  out[#out + 1] = trace
  return '[' .. table.concat(out, ',') .. ']'
end

local function leave(id)
  unlocked[#unlocked + 1] = base .. id .. ':lock'
  if check then unstalled[#unstalled + 1] = id end
  return call('LREM', base .. 'active', -1, id) > 0
end

local function keep(set, id, key, rule, f)
  if sub(rule, 1, 2) == '0 ' then
    remove(key)
    child_removed(f[3], key)
    return false
  end
  local list = finished[set]
  list[#list + 1] = now
  list[#list + 1] = id
  rules[set][rule] = true
  return true
end

local function finish(set, id, key, f, a)
  if f[5] then after(q, f[5], id) end
  counts[set] = counts[set] + 1
  local p, atm = parent(f[3], f[4]), (tonumber(f[2]) or 0) + 1
  if set == 'completed' then
    if p then child_done(p, key, ARGV[a + 3]) end
    if keep(set, id, key, ARGV[a + 4], f) then
      call('HSET', key, 'returnvalue', ARGV[a + 3], 'finishedOn', now, 'atm', atm)
    end
    event(q, set, id, 'returnvalue', ARGV[a + 3], 'prev', 'active')
    return
  end
  if p then
    for flag in string.gmatch(ARGV[a + 8], '%a+') do p[flag] = true end
    child_failed(p, key, ARGV[a + 3])
  end
  if keep(set, id, key, ARGV[a + 4], f) then
    call('HSET', key, 'failedReason', ARGV[a + 3], 'finishedOn', now, 'atm', atm,
      'stacktrace', traced(f[7], ARGV[a + 5], ARGV[a + 6]))
    call('HINCRBY', key, 'tidemill-failed', 1)
    call('HDEL', key, 'defa')
  end
  event(q, set, id, 'failedReason', ARGV[a + 3], 'prev', 'active')
  if atm >= tonumber(ARGV[a + 7]) then event(q, 'retries-exhausted', id, 'attemptsMade', atm) end
end

local function settle(i)
  local a, id = ends[i], ids[i]
  local hand, what, key, lock = ARGV[a + 1], ARGV[a + 2], base .. id, held[i]
  if gone[id] then return '0' end
  if hand == '-' then
    if lock then return '0' end
  elseif sub(hand, 1, 1) == '*' then
    if not lock or not match(lock, '^tidemill%-%w+:' .. sub(hand, 2) .. '$') then return '0' end
  elseif hand ~= '' and lock ~= token .. ':' .. hand then
    return '0'
  end
  local f = call('HMGET', key, 'timestamp', 'atm', 'parentKey', 'parent', 'deid', 'priority', 'stacktrace')
  if not f[1] then -- it was removed
    gone[id] = true
    leave(id)
    return '0'
  end
  if what == 'l' then
    -- Nobody died: the check that brings it back is not to count.
    if lock then call('HINCRBY', key, q.stalls, -1) end
    return lock and '1' or '0'
  end
  if what == 'c' and call('EXISTS', key .. ':dependencies', key .. ':unsuccessful') > 0 then return '2' end
  gone[id] = true
  if not leave(id) then return '0' end
  if what == 'c' or what == 'f' then
    finish(what == 'c' and 'completed' or 'failed', id, key, f, a)
    return '1'
  end
  local ms, push = tonumber(ARGV[a + 3]), 'LPUSH'
  if what == 'r' then
    push = ARGV[a + 4]
    call('HSET', key, 'failedReason', ARGV[a + 5], 'stacktrace', traced(f[7], ARGV[a + 6], ARGV[a + 7]), 'atm', (tonumber(f[2]) or 0) + 1)
  end
  call('HSET', key, 'delay', ms)
  if ms > 0 then
    put_off(q, id, ms)
  else
    line(q, id, tonumber(f[6]) or 0, push)
    event(q, 'waiting', id, 'prev', 'active')
  end
  return '1'
end
for i = 1, #ends do took[i] = settle(i) end

for i = 1, #unlocked, 1000 do call('DEL', unpack(unlocked, i, min(#unlocked, i + 999))) end
if #unstalled > 0 then all('SREM', base .. 'stalled', unstalled) end
for set, list in pairs(finished) do
  if #list > 0 then all('ZADD', base .. set, list) end
  for rule in pairs(rules[set]) do trim(set, rule) end
  if counts[set] > 0 then measure(q, set, counts[set], points) end
end
removal()
if counts.completed + counts.failed > 0 then
  local waiting = call('LLEN', base .. 'wait') + call('ZCARD', base .. 'prioritized')
  if waiting == 0 and call('LLEN', base .. 'active') == 0 then
    call('XADD', base .. 'events', '*', 'event', 'drained')
  elseif waiting > 0 and q.limit then
    q.wakes = true -- there is room again
  end
end
done()
return table.concat(took)
