-- leaving: what happens to parents, deduplications and old jobs when a job ends.

-- wake_parent lets a parent wait for its turn, that waited for its children.
local function wake_parent(q, key, id)
  local f = call('HMGET', key, 'priority', 'delay')
  local ms = tonumber(f[2]) or 0
  if ms > 0 then
    put_off(q, id, ms)
  else
    line(q, id, tonumber(f[1]) or 0, 'RPUSH')
    event(q, 'waiting', id, 'prev', 'waiting-children')
  end
end

-- release lets a parent go on that waits for no child any more, or need not wait.
local function release(q, key, id, anyhow)
  if call('EXISTS', key) == 1 and (anyhow or call('SCARD', key .. ':dependencies') == 0)
    and call('ZREM', q.at .. 'waiting-children', id) == 1 then
    wake_parent(q, key, id)
  end
end

-- parent is whose child a job is, by its fields parentKey and parent.
local function parent(key, text)
  if not key and not text then return nil end
  local p
  if text then
    local ok, said = pcall(cjson.decode, text)
    if ok and type(said) == 'table' and said['id'] and said['queueKey'] then
      p = {id = tostring(said['id']), at = said['queueKey'] .. ':', fpof = said['fpof'], cpof = said['cpof'], idof = said['idof'], rdof = said['rdof']}
    end
  end
  if not p then
    if not key then return nil end
    local at, id = match(key, '^(.*:)([^:]*)$')
    if not id then return nil end
    p = {id = id, at = at}
  end
  p.key = key or p.at .. p.id
  return p
end

-- child_done tells a parent that a child has completed.
local function child_done(p, child, value)
  if call('SREM', p.key .. ':dependencies', child) == 0 then return end
  call('HSET', p.key .. ':processed', child, value)
  release(open(p.at), p.key, p.id)
end

-- child_failed tells a parent that a child has failed, where the child's options say what that
-- means: the parent fails (fpof), goes on at once (cpof), or waits for the others only (idof, rdof).
local function child_failed(p, child, reason)
  local q = open(p.at)
  local function gone() return call('SREM', p.key .. ':dependencies', child) == 1 end
  if p.fpof and not q.defers then -- before 5.53 parents fail by themselves
    if call('ZREM', q.at .. 'waiting-children', p.id) == 1 then
      local why = 'child ' .. child .. ' failed'
      call('ZADD', q.at .. 'failed', now, p.id)
      call('HSET', p.key, 'failedReason', why, 'finishedOn', now)
      event(q, 'failed', p.id, 'failedReason', why, 'prev', 'waiting-children')
      local f = call('HMGET', p.key, 'parentKey', 'parent')
      local grand = parent(f[1], f[2])
      if grand then child_failed(grand, p.key, why) end
    end
  elseif p.fpof then
    if not gone() then return end
    call('ZADD', p.key .. ':unsuccessful', now, child)
    if call('EXISTS', p.key) == 0 then return end
    local waits = call('ZREM', q.at .. 'waiting-children', p.id) == 1
    if not waits and call('ZREM', q.at .. 'delayed', p.id) == 1 then
      waits = true
      call('HSET', p.key, 'delay', 0)
    end
    if waits or not call('ZSCORE', q.at .. 'failed', p.id) then call('HSET', p.key, 'defa', 'child ' .. child .. ' failed') end
    if waits then wake_parent(q, p.key, p.id) end
  elseif p.cpof then
    if not gone() then return end
    call('HSET', p.key .. ':failed', child, reason)
    release(q, p.key, p.id, true)
  elseif p.idof or p.rdof then
    if not gone() then return end
    if p.idof then call('HSET', p.key .. ':failed', child, reason) end
    release(q, p.key, p.id)
  end
end

-- child_removed: a job that is no more is not waited for.
local function child_removed(key, child)
  if not key or key == '' or call('SREM', key .. ':dependencies', child) == 0 then return end
  local at, id = match(key, '^(.*:)([^:]*)$')
  if id then release(open(at), key, id) end
end

-- remove deletes all that belongs to a job.
local removed = {}
local function remove(key)
  local n = #removed
  removed[n + 1], removed[n + 2], removed[n + 3], removed[n + 4] = key, key .. ':logs', key .. ':dependencies', key .. ':processed'
  removed[n + 5], removed[n + 6] = key .. ':failed', key .. ':unsuccessful'
end
local function removal()
  for i = 1, #removed, 1000 do call('DEL', unpack(removed, i, min(#removed, i + 999))) end
end

-- trim removes ended jobs that are too old (age, s, so many at a time) or too many (count), the
-- oldest first. BullMQ removes all that are too many at once; here a script has an end.
local function trim(set, rule)
  local count, age, limit = match(rule, '^(%S+) (%S+) (%S+)$')
  local function drop(ids)
    for i = 1, #ids do
      child_removed(call('HGET', base .. ids[i], 'parentKey'), base .. ids[i])
      remove(base .. ids[i])
    end
    if #ids > 0 then all('ZREM', base .. set, ids) end
  end
  if age ~= '-' then
    drop(call('ZREVRANGEBYSCORE', base .. set, now - age * 1000, '-inf', 'LIMIT', 0, tonumber(limit) or 1000))
  end
  if count ~= '-' then
    local over = min(call('ZCARD', base .. set) - count, 5000)
    if over > 0 then drop(call('ZRANGE', base .. set, 0, over - 1)) end
  end
end

-- after ends a deduplication with its job, and adds the job that came in meanwhile and was kept
-- for afterwards.
local function after(q, deid, id)
  local key = base .. 'de:' .. deid
  local ttl = call('PTTL', key)
  if ttl == 0 or ttl == -1 and call('GET', key) == id then call('DEL', key) end
  local kept = base .. 'dn:' .. deid
  if call('EXISTS', kept) == 0 then return end
  local f = call('HMGET', kept, 'name', 'data', 'opts', 'pk', 'pd', 'pdk', 'rjk', 'jid')
  local n = call('INCR', base .. 'id')
  local new = f[8] or tostring(n)
  local ok, opts = pcall(cjson.decode, f[3] or '{}')
  if not ok or type(opts) ~= 'table' then opts = {} end
  local de = type(opts['de']) == 'table' and opts['de'] or {}
  local lasts = tonumber(de['ttl']) or 0
  if not de['keepLastIfActive'] and lasts > 0 then
    call('SET', key, new, 'PX', lasts)
  else
    call('SET', key, new)
  end
  local also = {'deid', deid}
  for i, name in ipairs({'parentKey', 'parent'}) do
    if f[3 + i] then
      also[#also + 1] = name
      also[#also + 1] = f[3 + i]
    end
  end
  if f[7] then
    also[#also + 1] = 'rjk'
    also[#also + 1] = f[7]
  end
  add(q, new, f[1] or '', f[2] or '', f[3], tonumber(opts['delay']) or 0, unpack(also))
  if f[6] then call('SADD', f[6], base .. new) end
  call('DEL', kept)
end

-- measure counts ended jobs, by the minute, as workers with metrics do: where points says how many
-- minutes are kept, or where others count already.
local function measure(q, set, n, points)
  local key = base .. 'metrics:' .. set
  if points == 0 then
    if call('EXISTS', key) == 0 then return end
    points = 20160 -- two weeks: a worker that keeps fewer trims them
  end
  local count = call('HINCRBY', key, 'count', n)
  local f = call('HMGET', key, 'prevTS', 'prevCount')
  if not f[1] then
    call('HSET', key, 'prevTS', now, 'prevCount', 0)
    return
  end
  -- What this call brought belongs to the minute that begins.
  local minutes, before = min(floor(now / 60000) - floor(f[1] / 60000), points), count - n
  if minutes <= 0 then return end
  call('LPUSH', key .. ':data', before - (tonumber(f[2]) or 0))
  local zeros = {}
  for i = 2, minutes do zeros[#zeros + 1] = 0 end
  if #zeros > 0 then all('LPUSH', key .. ':data', zeros) end
  call('LTRIM', key .. ':data', 0, points - 1)
  call('HSET', key, 'prevCount', before, 'prevTS', now)
end
