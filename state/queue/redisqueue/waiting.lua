-- waiting: where jobs wait, and whose turn it is.
--
-- For each priority p and tenant, and each key where a tenant's jobs are kept apart by their
-- keys, the jobs that came in order are a list, and those that came back a sorted set:
--   l<flow>, b<flow>   flow = p:length:tenant key
-- Tenants and keys with such jobs, by the oldest, and those that no limit holds back, by turn:
--   h<p>, r<p>                  tenants of a priority; levels is the set of priorities
--   H<p>:<tenant>, R<p>:<tenant> keys of a tenant
-- Held back until a time: aside, a sorted set of t<tenant> and k<length>:<tenant><key>.
-- Where order is strict: first, a hash chain → position, and c<chain>, a list of those behind.
-- uneven is a hash, p:tenant → how many more wait than lie in l and b: those behind, less those
-- that were removed, which lie there until they are passed over.

local function flowof(p, tenant, key) return p .. ':' .. #tenant .. ':' .. tenant .. key end
local function keyid(tenant, key) return 'k' .. #tenant .. ':' .. tenant .. key end

local function uneven(q, p, tenant, n)
  local of = p .. ':' .. tenant
  if call('HINCRBY', q.k .. 'uneven', of, n) == 0 then call('HDEL', q.k .. 'uneven', of) end
end

-- even says whether lists have what waits, all of it and nothing else.
local evens = {}
local function even(q)
  if evens[q.no] == nil then evens[q.no] = call('EXISTS', q.k .. 'uneven') == 0 end
  return evens[q.no]
end

-- passed counts that one of a flow was passed over, which was removed.
local function passed(q, flow)
  local p, n, rest = match(flow, '^(%d+):(%d+):(.*)$')
  uneven(q, p, sub(rest, 1, n), 1)
end

-- asides says whether any holder is aside.
local function asides(q)
  if q.asides == nil then q.asides = call('EXISTS', q.k .. 'aside') == 1 end
  return q.asides
end

local function aside(q, id) return asides(q) and call('ZSCORE', q.k .. 'aside', id) end

-- ring lets a tenant or key take turns, after all others; unfair: by the oldest job. how is NX:
-- one in the ring stays where it is, or XX: one outside stays out.
local function ring(q, key, member, oldest, how)
  if q.c.fair ~= 'unfair' then
    q.n.turn = q.n.turn + 1
    call('ZADD', key, how, q.n.turn, member)
  elseif how == 'XX' then
    call('ZADD', key, how, oldest, member)
  else
    call('ZADD', key, oldest, member)
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
      if key ~= '' and call('EXISTS', q.k .. 'H' .. under) == 0 then -- those that wait without keys take turns with them
        local f = flowof(p, tenant, '')
        local l, b = call('LINDEX', q.k .. 'l' .. f, 0), call('ZRANGE', q.k .. 'b' .. f, 0, 0)[1]
        if l or b then
          local first = min(tonumber(l or FAR), tonumber(b or FAR))
          call('ZADD', q.k .. 'H' .. under, first, '')
          if q.c.fair == 'keys' then ring(q, q.k .. 'R' .. under, '', first, 'NX') else call('ZADD', q.k .. 'R' .. under, first, '') end
        end
      end
      call('ZADD', q.k .. 'H' .. under, 'LT', list[1], key)
      if key == '' or not aside(q, keyid(tenant, key)) then
        if q.c.fair == 'keys' then
          ring(q, q.k .. 'R' .. under, key, list[1], 'NX')
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
      ring(q, q.k .. 'r' .. p, tenant, list[1], 'NX')
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
      uneven(q, p, tenant, 1)
      return
    end
  end
  push(q, p, tenant, key, {pos}, false)
end
