-- leaving: how jobs leave where they wait, and come back from a hand-out.

-- pass lets the next of a key go when a job has ended; p matters where it was behind others.
local function pass(q, pos, p, tenant, key)
  if not q.c.ordered or key == '' then return end
  local chain = #tenant .. ':' .. tenant .. key
  if tonumber(call('HGET', q.k .. 'first', chain) or -1) ~= tonumber(pos) then
    if call('LREM', q.k .. 'c' .. chain, 0, pos) > 0 then uneven(q, p, tenant, -1) end
    return
  end
  local nxt = call('LPOP', q.k .. 'c' .. chain)
  if not nxt then
    call('HDEL', q.k .. 'first', chain)
    return
  end
  call('HSET', q.k .. 'first', chain, nxt)
  local _, is = head(call('HGET', bucket(q, nxt), nxt))
  uneven(q, is, tenant, -1)
  push(q, is, tenant, key, {nxt}, false)
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
    passed(q, flow)
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
  if not first and key ~= '' then first = oldest(q, flowof(p, tenant, '')) end -- that wait without keys
  if first then
    call('ZADD', q.k .. 'h' .. p, first, tenant)
    if turn then ring(q, q.k .. 'r' .. p, tenant, first, 'XX') end
  else
    call('ZREM', q.k .. 'h' .. p, tenant)
    call('ZREM', q.k .. 'r' .. p, tenant)
    if call('EXISTS', q.k .. 'h' .. p) == 0 then call('SREM', q.k .. 'levels', p) end
  end
end

-- back lets a holder that was aside take turns again.
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

-- read asks for something of each of many, with a command for 1,000 of them: texts, or false.
local function read(command, key, ids)
  local got = {}
  for i = 1, #ids, 1000 do
    local part = call(command, key, unpack(ids, i, min(#ids, i + 999)))
    if #ids <= 1000 then return part end
    for j = 1, #part do got[i + j - 1] = part[j] end
  end
  return got
end

-- The mark of a job that is handed out: the epoch of its hand-out, then characters: p<turn of the
-- gate>, u<number> (counted for a tenant of the hand-out), t, k (counted for tenant, for key), l
-- (left); where it matters, | and the job's tenant and key: length:tenant key.
--
-- outs is a hash, of whom jobs are counted: t<tenant>, k<length>:<tenant><key> → how many are
-- out; epoch → the tenants that marks of its hand-out have the numbers of, so that the mark of
-- each job is short. Among these it is no list for Redis, which would look through all of it.
local function outof(out)
  local epoch, flags, n, rest = match(out, '^(%d+)([^|]*)|(%d+):(.*)$')
  if not epoch then return match(out, '^(%d+)(.*)$') end
  n = tonumber(n)
  return epoch, flags, sub(rest, 1, n), sub(rest, n + 1)
end

-- tenantof is the tenant with a number; pos is a job of it, whose record knows, too.
local numbers = {}
local function tenantof(q, epoch, number, pos)
  local tenants = numbers[epoch]
  if not tenants then
    local packed = call('HGET', q.k .. 'outs', epoch)
    tenants = packed and cmsgpack.unpack(packed) or {}
    numbers[epoch] = tenants
  end
  local tenant, rec, _ = tenants[tonumber(number)], nil, nil
  if not tenant then
    rec = call('HGET', bucket(q, pos), pos)
    if rec then _, _, tenant = head(rec) end
  end
  return tenant
end

-- saidof is what a mark says, in parts; many jobs of a hand-out have the same. pos is one of them.
local parts = {}
local function saidof(q, out, pos)
  local o = parts[out]
  if o then return o end
  local epoch, number = match(out, '^(%d+)u(%d+)$') -- nearly all are so, or as short as can be
  if epoch then
    local tenant = tenantof(q, epoch, number, pos)
    o = {epoch = epoch, flags = 't', tenant = tenant, key = '', t = tenant and 't' .. tenant}
  else
    local flags, tenant, key, before, after
    epoch, flags, tenant, key = outof(out)
    before, number, after = match(flags, '^(.*)u(%d+)(.*)$')
    if number then flags, tenant = before .. 't' .. after, tenantof(q, epoch, number, pos) end
    o = {epoch = epoch, flags = flags, tenant = tenant, key = key or '', probe = tonumber(match(flags, 'p(%d+)'))}
    if tenant and find(flags, 't', 1, true) then o.t = 't' .. tenant end
    if find(flags, 'k', 1, true) then o.k = keyid(tenant, key) end
  end
  parts[out] = o
  return o
end

-- over deletes hand-outs without jobs.
local function over(q, epochs)
  if #epochs == 0 then return end
  local lists = {}
  for i, epoch in ipairs(epochs) do lists[i] = q.k .. 'g' .. epoch end
  all('ZREM', q.k .. 'leases', epochs, 1000)
  for i = 1, #lists, 1000 do call('DEL', unpack(lists, i, min(#lists, i + 999))) end
  if q.c.limited then all('HDEL', q.k .. 'outs', epochs, 1000) end
end

-- release takes n jobs from their holders.
local function release(q, o, n)
  if q.c.limit then q.wakes = true end
  if o.probe and q.gate >= 0 and o.probe == q.gated then
    call('HINCRBY', q.k .. 'meta', 'probing', -n)
    q.wakes = true
  end
  for f = 1, 2 do
    local freed, id = q.freed, f == 1 and o.t or f == 2 and o.k
    if id then
      if not freed[id] then freed[#freed + 1], freed[id] = id, 0 end
      freed[id] = freed[id] + n
    end
  end
end

-- free makes room for those whose jobs were released, who may be aside for the want of it.
local function free(q)
  local ids, outs, set, none = q.freed, q.k .. 'outs', {}, {}
  if #ids == 0 then return end
  for i, n in ipairs(read('HMGET', outs, ids)) do
    n = tonumber(n or 0) - ids[ids[i]]
    if n > 0 then
      set[#set + 1] = ids[i]
      set[#set + 1] = string.format('%d', n)
    else
      none[#none + 1] = ids[i]
    end
  end
  all('HSET', outs, set, 2000)
  all('HDEL', outs, none, 1000)
  q.freed = {}
  if not asides(q) then return end
  for i, at in ipairs(read('ZMSCORE', q.k .. 'aside', ids)) do
    if tonumber(at or 0) == FAR then back(q, ids[i]) end
  end
end
