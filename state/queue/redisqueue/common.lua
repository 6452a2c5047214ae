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

-- open reads a queue; nil: it does not exist, unless it is to be made. Of its meta:
--   n     its numbers: positions given so far, turns, jobs that wait, jobs held, epochs, books
--   c     settings, as scripts read them
--   idle  1 where sources wait to be woken, else 0, and the last wake
--   gate  until when it is closed (ms; -1: open), how many probes, how often it was changed
--   names, pass: see accept, turns; dict: the sum of its dictionary
-- of is a hash: delayed, completed or failed, and a bucket → how many jobs of it are so
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
  local m = call('HMGET', k .. 'meta', 'n', 'c', 'idle', 'gate', 'names', 'pass', 'dict')
  local a, b, c, d, e, f, g, h = match(m[1] or '0 0 0 0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local idle, woke, gate, probes, gated = '0', '0-0', -1, 0, 0
  if m[3] then idle, woke = match(m[3], '^(%d) (.*)$') end
  if m[4] then gate, probes, gated = match(m[4], '^(%S+) (%d+) (%d+)$') end
  q = { -- with all that it comes to have: a table that grows is made anew
    no = tonumber(no), k = k, was = m[1], names = m[5], pass = m[6], dict = m[7], more = {}, freed = {}, c = m[2] and cjson.decode(m[2]) or {},
    n = {['end'] = a + 0, turn = b + 0, wait = c + 0, held = d + 0, epoch = e + 0, delivered = f + 0, skipped = g + 0, dead = h + 0},
    idle = idle == '1', woke = woke, gate = gate + 0, probes = probes + 0, gated = gated + 0,
    of = false, set = false, wakes = false, rests = false, periods = false, renamed = false, this = false, part = false,
  }
  if not q.c.limited then q.asides = false end
  opened[name] = q
  order[#order + 1] = q
  return q
end

-- packed says whether queues have the dictionaries that records here are packed with. Arguments
-- end with them: queue, sum, …, how many.
local function packed()
  for i = #ARGV - 2 * ARGV[#ARGV], #ARGV - 1, 2 do
    if open(ARGV[i], true).dict ~= ARGV[i + 1] then return false end
  end
  return true
end

-- wait counts n more jobs of a priority that wait.
local function wait(q, p, n)
  q.more[p] = (q.more[p] or 0) + n
  q.n.wait = q.n.wait + n
end

-- tally counts n more jobs that are delayed, completed or failed, in the bucket of a position.
local function tally(q, state, pos, n)
  q.of = q.of or {delayed = {}, completed = {}, failed = {}}
  local of, b = q.of[state], floor(pos / BUCKET)
  of[b] = (of[b] or 0) + n
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
    for state, of in pairs(q.of or {}) do
      for b, more in pairs(of) do
        if more ~= 0 and call('HINCRBY', q.k .. 'of', state .. b, more) == 0 then call('HDEL', q.k .. 'of', state .. b) end
      end
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
