-- sweep: what time alone brings about, a bounded part of it at a time.

-- putback lets a handed-out job wait again; counted: its hand-out counts.
local function putback(q, pos, o, counted)
  call('HDEL', q.k .. 'out', pos)
  local _, p, tenant, key = head(call('HGET', bucket(q, pos), pos))
  if counted then
    local tries, handed, fate, at, cause = late(call('HGET', q.k .. 'late', pos))
    setlate(q, pos, tries, handed + 1, fate, at, cause)
  end
  release(q, o, 1)
  due(q, pos, p, tenant, key)
end

-- expire lets the jobs of leases that have ended wait again.
local function expire(q)
  local ended = call('ZRANGEBYSCORE', q.k .. 'leases', '-inf', now, 'LIMIT', 0, 64)
  local jobs = 0
  for _, lease in ipairs(ended) do
    if jobs >= 1000 then return true end
    local epoch, one = match(lease, '^(%d+):?(%d*)$')
    local list, n = {}, 0
    if one ~= '' then
      list[1] = one
    else
      for pos in string.gmatch(call('GET', q.k .. 'g' .. epoch) or '', '%d+') do list[#list + 1] = pos end
    end
    jobs = jobs + #list
    for i = 1, #list, 1000 do
      local part = {unpack(list, i, min(#list, i + 999))}
      local outs = call('HMGET', q.k .. 'out', unpack(part))
      for j = 1, #part do
        local o = saidof(q, outs[j] or '0', part[j])
        if o.epoch == epoch and (one ~= '' or not find(o.flags, 'l', 1, true)) then
          putback(q, part[j], o, true)
        end
      end
    end
    if one ~= '' then call('ZREM', q.k .. 'leases', lease) else over(q, {epoch}) end
  end
  return #ended == 64
end

-- come lets jobs wait that have come due.
local function come(q)
  local found = call('ZRANGEBYSCORE', q.k .. 'delayed', '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #found == 0 then return false end
  local list, at = {}, {} -- Redis orders those of one moment by their text
  for i = 1, #found, 2 do
    list[#list + 1] = found[i]
    at[found[i]] = tonumber(found[i + 1])
  end
  table.sort(list, function(a, b)
    if at[a] ~= at[b] then return at[a] < at[b] end
    return tonumber(a) < tonumber(b)
  end)
  local recs = records(q, list)
  for _, pos in ipairs(list) do
    local rec = recs[tonumber(pos)]
    leave(q, 'delayed', pos)
    local _, p, tenant, key = head(rec)
    due(q, pos, p, tenant, key)
  end
  return #list == 1000
end

-- forget deletes kept jobs that need not be kept any longer.
local function forget(q)
  for _, name in ipairs({'completed', 'failed'}) do
    local set, keep = q.k .. name, q.c[name]
    local over = call('ZCARD', set)
    if keep then over = over - keep.count end
    local list = {}
    if over > 0 then
      list = call('ZRANGE', set, 0, min(over, 1000) - 1)
    elseif keep and keep.age then
      list = call('ZRANGEBYSCORE', set, '-inf', (now - keep.age) * 1000 + 999, 'LIMIT', 0, 1000)
    end
    if #list > 0 then
      call('ZREMRANGEBYRANK', set, 0, #list - 1)
      for _, pos in ipairs(list) do tally(q, name, pos, -1) end
      drop(q, list)
    end
  end
end

-- look does all of it; it answers whether there is more.
local function look(q)
  local more = expire(q)
  more = come(q) or more
  free(q)
  local list = {}
  if q.asides ~= false then
    list = call('ZRANGEBYSCORE', q.k .. 'aside', '-inf', now, 'LIMIT', 0, 1000)
    for _, id in ipairs(list) do back(q, id) end
    if q.c.longest and asides(q) then -- longer than any rate lets wait: the clock stepped back
      for _, id in ipairs(call('ZRANGEBYSCORE', q.k .. 'aside', now + q.c.longest, '(' .. string.format('%.0f', FAR), 'LIMIT', 0, 1000)) do back(q, id) end
    end
  end
  if q.c.completed or q.c.failed or q.c.kept then forget(q) end
  if q.c.rated and call('ZCARD', q.k .. 'spent') > 1000 then
    call('ZREMRANGEBYSCORE', q.k .. 'spent', '-inf', string.format('%.0f', us))
  end
  return more or #list == 1000
end

-- idle is called where nothing could be handed out. If nothing is handed out either, no holder
-- has anything: so a count that a process left behind, which did not know some mark, holds
-- nothing back for ever. It answers whether a holder was held back.
local function idle(q)
  if not q.c.limited or call('EXISTS', q.k .. 'out') == 1 then return false end
  call('DEL', q.k .. 'outs')
  local list = asides(q) and call('ZRANGEBYSCORE', q.k .. 'aside', FAR, FAR, 'LIMIT', 0, 1000) or {}
  for _, id in ipairs(list) do back(q, id) end
  return #list > 0
end
