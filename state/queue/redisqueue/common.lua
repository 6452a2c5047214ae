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

-- The numbers of a queue, in its meta: positions given so far, turns, jobs that wait,
-- jobs held, epochs, books.
local numbers = {'end', 'turn', 'wait', 'held', 'epoch', 'delivered', 'skipped', 'dead'}

-- open reads a queue; nil: there is none, unless it is to be made.
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
  local m = call('HMGET', k .. 'meta', 'end', 'turn', 'wait', 'held', 'epoch', 'delivered', 'skipped', 'dead',
    'c', 'idle', 'gate', 'probes', 'gated', 'names', 'pass')
  q = {no = tonumber(no), k = k, idle = m[10], gate = tonumber(m[11] or -1), probes = tonumber(m[12] or 0),
    gated = tonumber(m[13] or 0), names = m[14], pass = m[15], n = {}, was = {}, more = {}, freed = {}, c = {}}
  for i, name in ipairs(numbers) do
    q.n[name] = tonumber(m[i] or 0)
    q.was[name] = q.n[name]
  end
  if m[9] then q.c = cjson.decode(m[9]) end
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

-- done writes what changed in queues, and wakes sources where that is of use to them.
local function done()
  for _, q in ipairs(order) do
    local meta, set = q.k .. 'meta', {}
    for p, n in pairs(q.more) do
      if n ~= 0 then call('HINCRBY', meta, 'w' .. p, n) end
    end
    for name, n in pairs(q.n) do
      if n ~= q.was[name] then
        set[#set + 1] = name
        set[#set + 1] = string.format('%.0f', n)
      end
    end
    for name, text in pairs(q.set or {}) do
      set[#set + 1] = name
      set[#set + 1] = text
    end
    if #set > 0 then call('HSET', meta, unpack(set)) end
    if q.wakes and q.idle then
      call('HDEL', meta, 'idle')
      call('XADD', q.k .. 'wake', 'MAXLEN', 1, '*', 'w', '')
    end
  end
end

-- keep writes a text of a queue's meta when all is done.
local function keep(q, name, text)
  q.set = q.set or {}
  q.set[name] = text
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

-- records reads jobs: position → record.
local function records(q, list)
  local found = {}
  many(q, 'HMGET', list, function(part, got)
    for i = 1, #part do found[tonumber(part[i])] = got[i] end
  end)
  return found
end

-- drop deletes jobs.
local function drop(q, list)
  if #list == 0 then return end
  local current = floor(q.n['end'] / BUCKET) -- it is being filled
  many(q, 'HDEL', list, function(_, _, b)
    if b < current and call('EXISTS', q.k .. 'j' .. b) == 0 then call('ZREM', q.k .. 'buckets', b) end
  end)
  if call('EXISTS', q.k .. 'late') == 1 then all('HDEL', q.k .. 'late', list, 1000) end
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
  return tries .. ' ' .. handed .. ' ' .. fate .. ' ' .. string.format('%.0f', ended) .. ' ' .. cause
end
local function setlate(q, pos, ...) call('HSET', q.k .. 'late', pos, lateof(...)) end
