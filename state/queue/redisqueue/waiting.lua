-- waiting: where jobs wait, and whose turn it is.
--
-- Of each priority p and tenant, and of each key where a tenant's jobs are kept apart by
-- their keys, the jobs that came in order are a list, and those that came back a sorted set:
--   l<flow>, b<flow>   flow = p:length:tenant key
-- Who has such jobs, by the oldest, and of those whoever is not held back by a limit, by turn:
--   h<p>, r<p>                  tenants of a priority; levels is the set of priorities
--   H<p>:<tenant>, R<p>:<tenant> keys of a tenant
-- Held back until a time: aside, a sorted set of t<tenant> and k<length>:<tenant><key>.
-- Where order is strict: first, a hash chain → position, and c<chain>, a list of those behind.

local function flowof(p, tenant, key) return p .. ':' .. #tenant .. ':' .. tenant .. key end
local function keyid(tenant, key) return 'k' .. #tenant .. ':' .. tenant .. key end

local function aside(q, id)
  if q.asides == nil then q.asides = call('EXISTS', q.k .. 'aside') == 1 end
  return q.asides and call('ZSCORE', q.k .. 'aside', id)
end

-- ring lets somebody take turns again, after all others; unfair: by the oldest job.
local function ring(q, key, member, oldest, new)
  if q.c.fair == 'unfair' then
    call('ZADD', key, oldest, member)
  elseif new then
    q.n.turn = q.n.turn + 1
    call('ZADD', key, 'NX', q.n.turn, member)
  else
    q.n.turn = q.n.turn + 1
    call('ZADD', key, q.n.turn, member)
  end
end

-- push lets jobs of one priority, tenant and key wait for their turn, in order.
local function push(q, p, tenant, key, list, fresh)
  if not q.c.keyed then key = '' end
  local flow = flowof(p, tenant, key)
  q.wakes = true
  if fresh then
    local long
    for i = 1, #list, 1000 do long = call('RPUSH', q.k .. 'l' .. flow, unpack(list, i, min(#list, i + 999))) end
    if long > #list then return end -- it has its turns already
  else
    for i = 1, #list do call('ZADD', q.k .. 'b' .. flow, list[i], list[i]) end
  end
  local free = not aside(q, 't' .. tenant)
  if q.c.keyed or q.c.waskeyed then
    local under = p .. ':' .. tenant
    if q.c.keyed or call('EXISTS', q.k .. 'H' .. under) == 1 then
      call('ZADD', q.k .. 'H' .. under, 'LT', list[1], key)
      if key == '' or not aside(q, keyid(tenant, key)) then
        if q.c.fair == 'keys' then
          ring(q, q.k .. 'R' .. under, key, list[1], true)
        else
          call('ZADD', q.k .. 'R' .. under, 'LT', list[1], key)
        end
      elseif call('EXISTS', q.k .. 'R' .. under) == 0 then
        free = false
      end
    end
  end
  local new = call('ZADD', q.k .. 'h' .. p, 'LT', list[1], tenant) == 1
  if new then call('SADD', q.k .. 'levels', p) end
  if free then
    if q.c.fair ~= 'unfair' then
      ring(q, q.k .. 'r' .. p, tenant, list[1], true)
    else
      call('ZADD', q.k .. 'r' .. p, 'LT', list[1], tenant)
    end
  end
end

-- due lets a job wait that came back or came due; where order is strict it may have to wait
-- behind another of its key. Its priority counts one more.
local function due(q, pos, p, tenant, key)
  wait(q, p, 1)
  if q.c.ordered and key ~= '' then
    local chain = #tenant .. ':' .. tenant .. key
    if call('HSETNX', q.k .. 'first', chain, pos) == 0 and tonumber(call('HGET', q.k .. 'first', chain)) ~= tonumber(pos) then
      call('RPUSH', q.k .. 'c' .. chain, pos)
      return
    end
  end
  push(q, p, tenant, key, {pos}, false)
end

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

-- oldest is the first position of a flow, or nil; jobs that are gone are passed over.
local function oldest(q, flow)
  while true do
    local l, b = call('LINDEX', q.k .. 'l' .. flow, 0), call('ZRANGE', q.k .. 'b' .. flow, 0, 0)[1]
    if not l and not b then return nil end
    local from = not b or l and tonumber(l) < tonumber(b)
    local pos = from and l or b
    if call('HEXISTS', bucket(q, pos), pos) == 1 then return tonumber(pos) end
    if from then call('LPOP', q.k .. 'l' .. flow) else call('ZREM', q.k .. 'b' .. flow, b) end
  end
end

-- settled makes the rings of a tenant agree with what waits in one of its flows, after jobs
-- were taken from it. turn: it had its turn.
local function settled(q, p, tenant, key, turn)
  local under, first = p .. ':' .. tenant, oldest(q, flowof(p, tenant, key))
  if (q.c.keyed or q.c.waskeyed) and call('EXISTS', q.k .. 'H' .. under) == 1 then
    if first then
      call('ZADD', q.k .. 'H' .. under, first, key)
      if turn and call('ZSCORE', q.k .. 'R' .. under, key) then
        if q.c.fair == 'keys' then ring(q, q.k .. 'R' .. under, key, first) else call('ZADD', q.k .. 'R' .. under, first, key) end
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
    if turn and call('ZSCORE', q.k .. 'r' .. p, tenant) then ring(q, q.k .. 'r' .. p, tenant, first) end
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
          ring(q, q.k .. 'r' .. p, tenant, first, true)
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
        if q.c.fair == 'keys' then ring(q, q.k .. 'R' .. under, key, first, true) else call('ZADD', q.k .. 'R' .. under, first, key) end
        if not aside(q, 't' .. tenant) then
          ring(q, q.k .. 'r' .. p, tenant, call('ZSCORE', q.k .. 'h' .. p, tenant), true)
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

-- release takes a job from whoever holds it.
local function release(q, flags, tenant, key)
  if q.c.limit then q.wakes = true end
  if flags == '' then return end
  local turn = match(flags, 'p(%d+)')
  if turn and q.gate >= 0 and tonumber(turn) == q.gated then
    call('HINCRBY', q.k .. 'meta', 'probing', -1)
    q.wakes = true
  end
  if find(flags, 't', 1, true) then
    local id = 't' .. tenant
    q.freed[id] = (q.freed[id] or 0) + 1
  end
  if find(flags, 'k', 1, true) then
    local id = keyid(tenant, key)
    q.freed[id] = (q.freed[id] or 0) + 1
  end
end

-- free makes room for those whose jobs were released, who may be aside for the want of it.
local function free(q)
  for id, n in pairs(q.freed) do
    if call('HINCRBY', q.k .. 'outs', id, -n) <= 0 then call('HDEL', q.k .. 'outs', id) end
    if tonumber(aside(q, id) or 0) == FAR then back(q, id) end
  end
  q.freed = {}
end
