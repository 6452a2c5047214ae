-- common: what all scripts of a queue share.
--
-- KEYS[1] {tag}:queues, a hash: queue name → number; all else is named from it, on its slot
-- ARGV[1] by how much the clock is ahead, in ms: 0 but in tests
local call, byte, sub, match, find = redis.call, string.byte, string.sub, string.match, string.find
local floor, min, max = math.floor, math.min, math.max
local base = sub(KEYS[1], 1, -7)
local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2] + ARGV[1] * 1000
local now = floor(us / 1000)
local FAR = 9000000000000000 -- a time that does not come: aside until an end makes room
local BUCKET = 1024 -- jobs of one hash

local opened, order = {}, {} -- queues that this script has to do with

-- open reads a queue; nil: there is none, unless it is to be made. Of its meta:
--   n     its numbers: positions given so far, turns, jobs that wait, jobs held, epochs, books
--   c     settings, as scripts read them
--   idle  1 where sources wait to be woken, else 0, and the last wake
--   gate  until when it is closed (ms; -1: open), how many probes, how often it was changed
--   names, pass: see accept, turns
local function open(name, make)
  local q = opened[name]
  if q then return q end
  local no = call('HGET', KEYS[1], name)
  if not no then
    if not make then return nil end
    no = call('HLEN', KEYS[1]) + 1
    call('HSET', KEYS[1], name, no)
  end
  local k = base .. no .. ':'
  local m = call('HMGET', k .. 'meta', 'n', 'c', 'idle', 'gate', 'names', 'pass')
  q = {no = tonumber(no), k = k, was = m[1], names = m[5], pass = m[6], n = {}, more = {}, freed = {}, c = m[2] and cjson.decode(m[2]) or {}}
  local n, a, b, c, d, e, f, g, h = q.n, match(m[1] or '0 0 0 0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  n['end'], n.turn, n.wait, n.held, n.epoch, n.delivered, n.skipped, n.dead = a + 0, b + 0, c + 0, d + 0, e + 0, f + 0, g + 0, h + 0
  local idle, woke = match(m[3] or '', '^(%d) (.*)$')
  q.idle, q.woke = idle == '1', woke or '0-0'
  local gate, probes, gated = match(m[4] or '-1 0 0', '^(%S+) (%d+) (%d+)$')
  q.gate, q.probes, q.gated = tonumber(gate), tonumber(probes), tonumber(gated)
  if not q.c.limited then q.asides = false end
  opened[name] = q
  order[#order + 1] = q
  return q
end

-- wait counts n more jobs of a priority that wait.
local function wait(q, p, n)
  q.more[p] = (q.more[p] or 0) + n
  q.n.wait = q.n.wait + n
end

-- keep writes a text of a queue's meta when all is done.
local function keep(q, name, text)
  local set = q.set or {}
  q.set = set
  set[#set + 1] = name
  set[#set + 1] = text
end

-- done writes what changed in queues, and wakes sources where that is of use to them.
local function done()
  for _, q in ipairs(order) do
    local n, meta = q.n, q.k .. 'meta'
    for p, more in pairs(q.more) do
      if more ~= 0 then call('HINCRBY', meta, 'w' .. p, more) end
    end
    local text = string.format('%d %d %d %d %d %d %d %d', n['end'], n.turn, n.wait, n.held, n.epoch, n.delivered, n.skipped, n.dead)
    if text ~= q.was then keep(q, 'n', text) end
    if q.wakes and q.idle then
      keep(q, 'idle', '0 ' .. call('XADD', q.k .. 'wake', 'MAXLEN', 1, '*', 'w', ''))
    elseif q.rests and not q.idle then
      keep(q, 'idle', '1 ' .. q.woke)
    end
    if q.set then call('HSET', meta, unpack(q.set)) end
  end
end

local function bucket(q, pos) return q.k .. 'j' .. floor(pos / BUCKET) end

-- all calls a command with many arguments in parts: Lua has room for some thousands.
local function all(command, key, args, part)
  for i = 1, #args, part do call(command, key, unpack(args, i, min(#args, i + part - 1))) end
end

-- many calls a command with positions for each bucket that they lie in.
local function many(q, command, list, each)
  local at, rest = {}, {}
  for i = 1, #list do
    local b = floor(list[i] / BUCKET)
    if not at[b] then
      at[b] = {}
      rest[#rest + 1] = b
    end
    at[b][#at[b] + 1] = list[i]
  end
  for _, b in ipairs(rest) do
    for i = 1, #at[b], 1000 do
      local part = {unpack(at[b], i, min(#at[b], i + 999))}
      each(part, call(command, q.k .. 'j' .. b, unpack(part)), b)
    end
  end
end

-- recordsof reads jobs whose positions ascend: their records, in the same order. Most lie in
-- one bucket, and cost a command and nothing else.
local function recordsof(q, list)
  local n, i, recs = #list, 1, nil
  while i <= n do
    local b = floor(list[i] / BUCKET)
    local to, after = n, n + 1 -- the last of the bucket: it is looked for by halves
    if floor(list[n] / BUCKET) ~= b then
      to = i
      while after - to > 1 do
        local mid = floor((to + after) / 2)
        if floor(list[mid] / BUCKET) == b then to = mid else after = mid end
      end
    end
    to = min(to, i + 999)
    local part = call('HMGET', q.k .. 'j' .. b, unpack(list, i, to))
    if i == 1 and to == n then return part end
    recs = recs or {}
    for j = 1, #part do recs[i + j - 1] = part[j] end
    i = to + 1
  end
  return recs or {}
end

-- records reads jobs: position → record.
local function records(q, list)
  local found = {}
  many(q, 'HMGET', list, function(part, got)
    for i = 1, #part do found[tonumber(part[i])] = got[i] end
  end)
  return found
end

-- emptied forgets a bucket that has no jobs any more, unless it is being filled.
local function emptied(q, b)
  if b < floor(q.n['end'] / BUCKET) and call('EXISTS', q.k .. 'j' .. b) == 0 then call('ZREM', q.k .. 'buckets', b) end
end

-- notlate forgets what was known of jobs that are gone.
local function notlate(q, list)
  if call('EXISTS', q.k .. 'late') == 0 then return end
  all('HDEL', q.k .. 'late', list, 1000)
  if call('EXISTS', q.k .. 'failures') == 1 then all('HDEL', q.k .. 'failures', list, 1000) end
end

-- drop deletes jobs.
local function drop(q, list)
  if #list == 0 then return end
  many(q, 'HDEL', list, function(_, _, b) emptied(q, b) end)
  notlate(q, list)
end

-- head is what a record says of its job: added, priority, tenant, key (a digest).
--   6 bytes added (ms)  1 form  1 length of key  1 priority  2 length of tenant  tenant  key  body
local function head(rec)
  local a, b, c, d, e, f, _, kl, p, t1, t2 = byte(rec, 1, 11)
  local tl = t1 * 256 + t2
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f, p, sub(rec, 12, 11 + tl), sub(rec, 12 + tl, 11 + tl + kl)
end

-- late is what is known of a job that is not as it came: failed tries, hand-outs that came
-- back, and, where it has ended, its fate and when; then the cause.
local function late(text)
  if not text then return 0, 0, '', '0', '' end
  local tries, handed, fate, ended, cause = match(text, '^(%d+) (%d+) (%a?) (%d+) (.*)$')
  return tonumber(tries), tonumber(handed), fate, ended, cause
end
local function lateof(tries, handed, fate, ended, cause)
  return tries .. ' ' .. handed .. ' ' .. fate .. ' ' .. string.format('%d', ended) .. ' ' .. cause
end
local function setlate(q, pos, ...) call('HSET', q.k .. 'late', pos, lateof(...)) end

-- lates reads what is known of jobs that are not as they came, and the failed tries of those
-- that have some: texts by their place in the list. Jobs with failures are late.
local function lates(q, list)
  local found, fails = {}, {}
  if call('EXISTS', q.k .. 'late') == 0 then return found, fails end
  for i = 1, #list, 1000 do
    local part = call('HMGET', q.k .. 'late', unpack(list, i, min(#list, i + 999)))
    for j = 1, #part do found[i + j - 1] = part[j] or nil end
  end
  if call('EXISTS', q.k .. 'failures') == 1 then
    for i in pairs(found) do fails[i] = call('HGET', q.k .. 'failures', list[i]) or nil end
  end
  return found, fails
end

-- failure keeps a failed try, of the newest FAILURES: "count;" and of each "ms kind length
-- cause". said is its kind and how much of the cause is kept.
local FAILURES = 20
local function failure(q, pos, said, cause)
  local n, rest = match(call('HGET', q.k .. 'failures', pos) or '0;', '^(%d+);(.*)$')
  n = tonumber(n)
  while n >= FAILURES do
    local _, to, length = find(rest, '^%d+ [%a_]+ (%d+) ')
    n, rest = n - 1, sub(rest, to + length + 1)
  end
  cause = sub(cause, 1, match(said, '%d+$'))
  call('HSET', q.k .. 'failures', pos, n + 1 .. ';' .. rest .. string.format('%d', now) .. ' ' .. said .. ' ' .. cause)
end
