-- leaving: how jobs leave where they wait, and come back from where they are out.

-- pass lets the next of a key go when a job has ended.
local function pass(q, pos, tenant, key)
  if not q.c.ordered or key == '' then return end
  local chain = #tenant .. ':' .. tenant .. key
  if tonumber(call('HGET', q.k .. 'first', chain) or -1) ~= tonumber(pos) then
    call('LREM', q.k .. 'c' .. chain, 0, pos)
    return
  end
  local nxt = call('LPOP', q.k .. 'c' .. chain)
  if not nxt then
    call('HDEL', q.k .. 'first', chain)
    return
  end
  call('HSET', q.k .. 'first', chain, nxt)
  local _, p = head(call('HGET', bucket(q, nxt), nxt))
  push(q, p, tenant, key, {nxt}, false)
end

-- oldest is the first position of a flow, or nil; jobs that are gone are passed over. left:
-- what take said of the flow, if it did.
local function oldest(q, flow, left)
  while left ~= 'none' do
    local l, b = call('LINDEX', q.k .. 'l' .. flow, 0), left ~= 'new' and call('ZRANGE', q.k .. 'b' .. flow, 0, 0)[1]
    if not l and not b then return nil end
    local from = not b or l and tonumber(l) < tonumber(b)
    local pos = from and l or b
    if call('HEXISTS', bucket(q, pos), pos) == 1 then return tonumber(pos) end
    if from then call('LPOP', q.k .. 'l' .. flow) else call('ZREM', q.k .. 'b' .. flow, b) end
  end
end

-- settled makes the rings of a tenant agree with what waits in one of its flows, after jobs
-- were taken from it. turn: it had its turn. left: see oldest.
local function settled(q, p, tenant, key, turn, left)
  local under, first = p .. ':' .. tenant, oldest(q, flowof(p, tenant, key), left)
  if (q.c.keyed or q.c.waskeyed) and call('EXISTS', q.k .. 'H' .. under) == 1 then
    if first then
      call('ZADD', q.k .. 'H' .. under, first, key)
      if turn then
        if q.c.fair == 'keys' then ring(q, q.k .. 'R' .. under, key, first, 'XX') else call('ZADD', q.k .. 'R' .. under, 'XX', first, key) end
      end
    else
      call('ZREM', q.k .. 'H' .. under, key)
      call('ZREM', q.k .. 'R' .. under, key)
    end
    first = tonumber(call('ZRANGE', q.k .. 'H' .. under, 0, 0, 'WITHSCORES')[2])
    if first and call('EXISTS', q.k .. 'R' .. under) == 0 then call('ZREM', q.k .. 'r' .. p, tenant) end
  end
  if first then
    call('ZADD', q.k .. 'h' .. p, first, tenant)
    if turn then ring(q, q.k .. 'r' .. p, tenant, first, 'XX') end
  else
    call('ZREM', q.k .. 'h' .. p, tenant)
    call('ZREM', q.k .. 'r' .. p, tenant)
    if call('EXISTS', q.k .. 'h' .. p) == 0 then call('SREM', q.k .. 'levels', p) end
  end
end

-- back lets somebody who was aside take turns again.
local function back(q, id)
  call('ZREM', q.k .. 'aside', id)
  local levels = call('SMEMBERS', q.k .. 'levels')
  if sub(id, 1, 1) == 't' then
    local tenant = sub(id, 2)
    for _, p in ipairs(levels) do
      local first = call('ZSCORE', q.k .. 'h' .. p, tenant)
      if first then
        local under = p .. ':' .. tenant
        if call('EXISTS', q.k .. 'H' .. under) == 0 or call('EXISTS', q.k .. 'R' .. under) == 1 then
          ring(q, q.k .. 'r' .. p, tenant, first, 'NX')
        end
      end
    end
  else
    local n, rest = match(id, '^k(%d+):(.*)$')
    local tenant, key = sub(rest, 1, n), sub(rest, n + 1)
    for _, p in ipairs(levels) do
      local under = p .. ':' .. tenant
      local first = call('ZSCORE', q.k .. 'H' .. under, key)
      if first then
        if q.c.fair == 'keys' then ring(q, q.k .. 'R' .. under, key, first, 'NX') else call('ZADD', q.k .. 'R' .. under, first, key) end
        if not aside(q, 't' .. tenant) then
          ring(q, q.k .. 'r' .. p, tenant, call('ZSCORE', q.k .. 'h' .. p, tenant), 'NX')
        end
      end
    end
  end
  q.wakes = true
end

-- What is said of a hand-out: its epoch, then letters: p<turn of the gate>, t, k (counted
-- for tenant, for key), l (left); where it matters, | and the job's tenant and key: length:tenant key.
local function outof(out)
  local epoch, flags, n, rest = match(out, '^(%d+)([^|]*)|(%d+):(.*)$')
  if not epoch then return match(out, '^(%d+)(.*)$') end
  n = tonumber(n)
  return epoch, flags, sub(rest, 1, n), sub(rest, n + 1)
end

-- saidof is the same in parts; many jobs of a hand-out have the same.
local parts = {}
local function saidof(out)
  local o = parts[out]
  if not o then
    local epoch, flags, tenant, key = outof(out)
    o = {epoch = epoch, flags = flags, tenant = tenant, key = key or '', probe = tonumber(match(flags, 'p(%d+)'))}
    if find(flags, 't', 1, true) then o.t = 't' .. tenant end
    if find(flags, 'k', 1, true) then o.k = keyid(tenant, key) end
    parts[out] = o
  end
  return o
end

-- release takes n jobs from whoever holds them.
local function release(q, o, n)
  if q.c.limit then q.wakes = true end
  if o.probe and q.gate >= 0 and o.probe == q.gated then
    call('HINCRBY', q.k .. 'meta', 'probing', -n)
    q.wakes = true
  end
  if o.t then q.freed[o.t] = (q.freed[o.t] or 0) + n end
  if o.k then q.freed[o.k] = (q.freed[o.k] or 0) + n end
end

-- free makes room for those whose jobs were released, who may be aside for the want of it.
local function free(q)
  for id, n in pairs(q.freed) do
    if call('HINCRBY', q.k .. 'outs', id, -n) <= 0 then call('HDEL', q.k .. 'outs', id) end
    if tonumber(aside(q, id) or 0) == FAR then back(q, id) end
  end
  q.freed = {}
end
