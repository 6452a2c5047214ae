-- commit changes dead letters if they still are what was read, and writes the books.
--
-- KEYS   1 stream, 2 seq, 3 mark, 4 ids, 5 meta, 6 history, 7 order, 8 deaths, 9 known, 10 group,
--        11 died, 12 causes, 13 pipelines, then of each pipeline: held, ready, later, books, wakes,
--        groups, owners
-- ARGV   1 "all" (all changes or none) or "each" (those that still fit)
--        2 the mark that was read, empty: not checked; 3 the mark to write
--        4 how many dead letters a pipeline may have, 0: not checked; 5 how many changes
--        then of each change: kind, seq, pipeline (a number), id field, what was read,
--        meta, entry, place, time, history, group (its id, kind and cause), owner (of a pipeline),
--        book (del: how it ended; add, set: how many messages of its name it replaces, or empty),
--        how many fields, the fields. Kinds are add, set, del, drop (an entry), join and leave (a
--        group)
-- returns {1, which were made…}, {0}: not what was read, {2, pipeline, dead letters}: no room
local stream, ids, meta, history, order = KEYS[1], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local mark = redis.call('GET', KEYS[3]) or '0-0'
local all = ARGV[1] == 'all'
local n, at = tonumber(ARGV[5]), 6
local changes = {}
for i = 1, n do
  local c = {kind = ARGV[at], seq = ARGV[at + 1], p = tonumber(ARGV[at + 2]), id = ARGV[at + 3], old = ARGV[at + 4],
    meta = ARGV[at + 5], entry = ARGV[at + 6], place = ARGV[at + 7], time = ARGV[at + 8], history = ARGV[at + 9],
    group = ARGV[at + 10], owner = ARGV[at + 11], book = ARGV[at + 12], from = at + 14, to = at + 13 + tonumber(ARGV[at + 13])}
  changes[i] = c
  at = c.to + 1
end
local OWN, EACH = 13, 7
local pipelines = (#KEYS - OWN) / EACH
local function key(p, k) return KEYS[OWN + EACH * (p - 1) + k] end
local HELD, READY, LATER, BOOKS, WAKES, GROUPS, OWNERS = 1, 2, 3, 4, 5, 6, 7

local function fits(c)
  if c.kind == 'add' then return (redis.call('HGET', ids, c.id) or '') == c.old end
  if c.kind == 'drop' then return true end
  if c.kind == 'leave' then return redis.call('HEXISTS', meta, c.seq) == 0 end
  return redis.call('HGET', meta, c.seq) == c.old
end
if ARGV[2] ~= '' and ARGV[2] ~= mark then return {0} end
if all then
  for _, c in ipairs(changes) do
    if not fits(c) then return {0} end
  end
end
local limit = tonumber(ARGV[4])
if limit > 0 then
  local more = {}
  for _, c in ipairs(changes) do
    if c.kind == 'add' then more[c.p] = (more[c.p] or 0) + 1 end
    if c.kind == 'del' then more[c.p] = (more[c.p] or 0) - 1 end
  end
  for p = 1, pipelines do
    local there = redis.call('ZCARD', key(p, HELD)) + redis.call('ZCARD', key(p, READY)) + redis.call('ZCARD', key(p, LATER))
    if (more[p] or 0) > 0 and there + more[p] > limit then return {2, p, there} end
  end
end

-- Whether all of the stream is known: then what is written here moves the mark. It is asked before
-- anything is written: where the key holds no stream, the script fails here.
local clean = #redis.call('XRANGE', stream, '(' .. mark, '+', 'COUNT', 1) == 0
local function append(c)
  local args = {}
  for i = c.from, c.to do args[#args + 1] = ARGV[i] end
  args[#args + 1] = 'seq'
  args[#args + 1] = c.seq
  local entry = redis.call('XADD', stream, '*', unpack(args))
  if clean then mark = entry end
  return entry
end
local function place(c)
  local to = {held = HELD, ready = READY, later = LATER, lease = LATER}
  for k = HELD, LATER do
    if k ~= to[c.place] then redis.call('ZREM', key(c.p, k), c.seq) end
  end
  if to[c.place] then
    local score = c.seq
    if to[c.place] == LATER then score = c.time end
    redis.call('ZADD', key(c.p, to[c.place]), score, c.seq)
  end
end

-- The group of a dead letter: in group its id, then the owner as it is given; in died the id and the
-- seq; in groups its size; in causes its kind and cause.
local group, died, causes = KEYS[10], KEYS[11], KEYS[12]
local function member(id, seq) return id .. string.format('%016.0f', seq) end
local function split(owner) -- its pipeline, which its length is before, and its name
  local n = string.match(owner, '^%d+')
  return string.sub(owner, #n + 2, #n + 1 + n), string.sub(owner, #n + 2 + n)
end
local counts, cause, pipeline = {}, {}, {} -- what is written at the end, once for each name
local function count(c, of, name, n)
  local all = counts[c.p] or {[GROUPS] = {}, [OWNERS] = {}}
  counts[c.p] = all
  all[of][name] = (all[of][name] or 0) + n
end
local function leave(c)
  local of = redis.call('HGET', group, c.seq)
  if not of then return end
  local id = string.sub(of, 1, 16)
  local _, owner = split(string.sub(of, 17))
  redis.call('HDEL', group, c.seq)
  redis.call('ZREM', died, member(id, c.seq))
  count(c, GROUPS, id, -1)
  count(c, OWNERS, owner, -1)
end
local function join(c, fresh)
  local id, owner = string.sub(c.group, 1, 16), nil
  if not fresh then
    if redis.call('HGET', group, c.seq) == id .. c.owner then return end
    leave(c)
  end
  pipeline[c.p], owner = split(c.owner)
  cause[id] = string.sub(c.group, 17)
  redis.call('HSET', group, c.seq, id .. c.owner)
  redis.call('ZADD', died, 0, member(id, c.seq))
  count(c, GROUPS, id, 1)
  count(c, OWNERS, owner, 1)
end
local function write(p, of, name, n)
  if tonumber(redis.call('ZINCRBY', key(p, of), n, name)) <= 0 then
    redis.call('ZREM', key(p, of), name)
    if of == GROUPS then redis.call('HDEL', causes, name) end
  elseif of == GROUPS and n > 0 then
    redis.call('HSET', causes, name, cause[name])
  end
end

local made, wake, deaths = {1}, {}, false
for i, c in ipairs(changes) do
  made[i + 1] = 1
  if not all and not fits(c) then
    made[i + 1] = 0
  elseif c.kind == 'add' and c.entry ~= '' and #redis.call('XRANGE', stream, c.entry, c.entry) == 0 then
    made[i + 1] = 0 -- found in the stream, and ended since
  elseif c.kind == 'drop' then
    redis.call('XDEL', stream, c.entry)
  elseif c.kind == 'join' then
    join(c)
  elseif c.kind == 'leave' then
    leave(c)
  elseif c.kind == 'del' then
    deaths = true
    redis.call('XDEL', stream, string.match(c.old, '^[^\n]*'))
    redis.call('HDEL', meta, c.seq)
    redis.call('HDEL', history, c.seq)
    redis.call('ZREM', order, c.seq)
    leave(c)
    place(c)
    local left = {}
    for s in string.gmatch(redis.call('HGET', ids, c.id) or '', '[^,]+') do
      if s ~= c.seq then left[#left + 1] = s end
    end
    if #left > 0 then
      redis.call('HSET', ids, c.id, table.concat(left, ','))
    else
      redis.call('HDEL', ids, c.id)
    end
    redis.call('HINCRBY', key(c.p, BOOKS), c.book, 1)
  else
    local entry, fresh = c.entry, false
    if c.kind == 'add' then
      if c.seq == '' or redis.call('HEXISTS', meta, c.seq) == 1 then
        c.seq, fresh = string.format('%.0f', redis.call('INCR', KEYS[2])), true
      elseif tonumber(c.seq) > tonumber(redis.call('GET', KEYS[2]) or '0') then
        redis.call('SET', KEYS[2], c.seq)
      end
      local list = redis.call('HGET', ids, c.id)
      redis.call('HSET', ids, c.id, list and list .. ',' .. c.seq or c.seq)
      redis.call('ZADD', order, c.seq, c.seq)
      redis.call('HINCRBY', key(c.p, BOOKS), 'put', 1)
    else
      entry = string.match(c.old, '^[^\n]*')
    end
    if c.to >= c.from then
      if c.kind == 'set' then redis.call('XDEL', stream, entry) end
      entry = append(c)
    end
    redis.call('HSET', meta, c.seq, entry .. '\n' .. c.meta)
    if c.book ~= '' then
      redis.call('HINCRBY', key(c.p, BOOKS), 'put', c.book)
      redis.call('HINCRBY', key(c.p, BOOKS), 'skipped', c.book)
    end
    if c.history ~= '' then
      deaths = true
      redis.call('HSET', history, c.seq, c.history)
      join(c, fresh)
    end
    place(c)
    if c.place == 'ready' or c.place == 'later' then wake[c.p] = true end
  end
end
for p, all in pairs(counts) do
  for of, names in pairs(all) do
    for name, n in pairs(names) do
      if n ~= 0 then write(p, of, name, n) end
    end
  end
  if pipeline[p] then redis.call('SADD', KEYS[13], pipeline[p]) end
end
if ARGV[3] ~= '' then mark = ARGV[3] end
redis.call('SET', KEYS[3], mark)
if deaths then
  redis.call('INCR', KEYS[8])
  redis.call('INCR', KEYS[9])
end
for p = 1, pipelines do
  if wake[p] then redis.call('XADD', key(p, WAKES), 'MAXLEN', 1, '*', 'w', '1') end
end
return made
