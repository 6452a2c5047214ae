-- turns: who is handed out next. See waiting for where.

local again = FAR -- when somebody whom a limit holds back may go on, in ms
local spents = {} -- until when rates are used up, as far as they were asked for

-- allowed is how many of most jobs a limit lets go now; 0 with a time: not before that, in
-- ms. A rate is one number, until when it is used up, in the sorted set spent.
local function allowed(q, limit, id, most)
  if not limit then return most end
  if limit.at_once then
    local out
    if id == 'q' then out = call('HLEN', q.k .. 'out') else out = tonumber(call('HGET', q.k .. 'outs', id) or 0) end
    most = min(most, max(0, limit.at_once - out))
    if most == 0 then return 0, FAR end
  end
  if limit.each then
    local spent = spents[id] or tonumber(call('ZSCORE', q.k .. 'spent', id) or 0)
    spents[id] = spent
    local n = floor((us + limit.ahead * limit.each - max(spent, us)) / limit.each + 1e-6)
    if n < 1 then return 0, math.ceil((spent + limit.each - limit.ahead * limit.each) / 1000) end
    most = min(most, n)
  end
  return most
end

-- charge counts n jobs that are handed out against a limit of the rate.
local function charge(q, limit, id, n)
  if limit and limit.each then
    spents[id] = max(spents[id], us) + n * limit.each -- it was asked for
    call('ZADD', q.k .. 'spent', spents[id], id)
  end
end

-- limit of a tenant; nil: none.
local function limitof(q, tenant)
  if q.c.named then
    local own = call('HGET', q.k .. 'named', tenant)
    if own then
      own = cjson.decode(own)
      if own.each or own.at_once then return own end
      return nil
    end
  end
  return q.c.tenant
end

local function putaside(q, id, at)
  call('ZADD', q.k .. 'aside', at, id)
  q.asides = true
  if at < FAR then again = min(again, at) end
end

-- What is taken: n jobs, their positions (pos) and records (rec); flags of those that count
-- for a limit, and then whose they are (of).
local function nothing() return {n = 0, pos = {}, rec = {}, flags = {}, of = {}} end

-- take takes up to most jobs out of a flow, in the order of their positions, into got. It
-- answers how many, and what is left for sure: nothing ('none'), or none that came back ('new').
local function take(q, flow, most, got)
  local list, back, n = q.k .. 'l' .. flow, q.k .. 'b' .. flow, 0
  local left
  while n < most and left ~= 'none' do
    local ready = call('ZRANGE', back, 0, most - n - 1)
    if #ready == 0 then
      ready = call('LPOP', list, most - n)
      if not ready then return n, 'none' end
      left = #ready < most - n and 'none' or 'new'
    else
      local fresh, merged, i, j = call('LRANGE', list, 0, most - n - 1), {}, 1, 1
      while #merged < most - n and (ready[i] or fresh[j]) do
        if not fresh[j] or ready[i] and tonumber(ready[i]) < tonumber(fresh[j]) then
          merged[#merged + 1] = ready[i]
          i = i + 1
        else
          merged[#merged + 1] = fresh[j]
          j = j + 1
        end
      end
      if i > 1 then call('ZREMRANGEBYRANK', back, 0, i - 2) end
      if j > 1 then call('LPOP', list, j - 1) end
      ready = merged
    end
    local recs, at = recordsof(q, ready), got.n
    for k = 1, #ready do
      if recs[k] then -- else it was removed
        at = at + 1
        got.pos[at], got.rec[at] = ready[k], recs[k]
      end
    end
    n, got.n = n + at - got.n, at
  end
  return n, left
end

-- count counts the jobs from one on, which were taken, for somebody's limit of what is out.
local function count(q, got, from, id, flag, tenant)
  call('HINCRBY', q.k .. 'outs', id, got.n - from)
  for i = from + 1, got.n do
    got.flags[i] = (got.flags[i] or '') .. flag
    got.of[i] = tenant
  end
end

-- fromkey takes from a tenant's key (empty: those that are not kept apart). It answers
-- what is left, as take does.
local function fromkey(q, p, tenant, key, most, got)
  local limit, at = q.c.key, nil
  if key == '' then limit = nil end
  if limit then
    most, at = allowed(q, limit, keyid(tenant, key), most)
    if most == 0 then
      putaside(q, keyid(tenant, key), at)
      call('ZREM', q.k .. 'R' .. p .. ':' .. tenant, key)
      return nil
    end
  end
  local from = got.n
  local n, left = take(q, flowof(p, tenant, key), most, got)
  if limit and n > 0 then
    charge(q, limit, keyid(tenant, key), n)
    if limit.at_once then count(q, got, from, keyid(tenant, key), 'k', tenant) end
  end
  return left
end

-- fromtenant takes from a tenant's jobs of a priority.
local function fromtenant(q, p, tenant, most, got)
  local limit = limitof(q, tenant)
  local id, at = 't' .. tenant, nil
  most, at = allowed(q, limit, id, most)
  if most == 0 then
    putaside(q, id, at)
    call('ZREM', q.k .. 'r' .. p, tenant)
    return 0
  end
  local from, under = got.n, q.k .. 'R' .. p .. ':' .. tenant
  local apart = (q.c.keyed or q.c.waskeyed) and call('EXISTS', q.k .. 'H' .. p .. ':' .. tenant) == 1
  if not apart then
    settled(q, p, tenant, '', true, fromkey(q, p, tenant, '', most, got))
  else
    while got.n - from < most do
      local keys = call('ZRANGE', under, 0, most - (got.n - from) - 1, 'WITHSCORES')
      local n = call('ZCARD', under)
      if n == 0 then break end
      if q.c.fair ~= 'keys' then -- the oldest of all keys
        keys, n = {keys[1], keys[2], keys[3], keys[4]}, n > 1 and 0 or 1
      end
      for i = 1, #keys, 2 do
        local left = most - (got.n - from)
        if left == 0 then break end
        local share = 1
        if n > 0 then share = max(1, floor(left / (n - (i - 1) / 2))) end
        settled(q, p, tenant, keys[i], true, fromkey(q, p, tenant, keys[i], share, got))
        if n == 0 then break end
      end
    end
    settled(q, p, tenant, '', true)
  end
  local n = got.n - from
  if limit and n > 0 then
    charge(q, limit, id, n)
    if limit.at_once then count(q, got, from, id, 't', tenant) end
  end
  return n
end

-- fromlevel takes from a priority: tenants take turns and share alike, or else the oldest
-- job goes first.
local function fromlevel(q, p, most, got)
  local from, ring = got.n, q.k .. 'r' .. p
  while got.n - from < most do
    local n = call('ZCARD', ring)
    if n == 0 then break end
    if q.c.fair == 'unfair' and n > 1 then
      local first = call('ZRANGE', ring, 0, 0, 'WITHSCORES')
      local is = tonumber(call('ZSCORE', q.k .. 'h' .. p, first[1]) or -1)
      if is ~= tonumber(first[2]) and is >= 0 then
        call('ZADD', ring, is, first[1]) -- it had a turn, from when those were fair
      else
        fromtenant(q, p, first[1], 1, got)
      end
    else
      local round = call('ZRANGE', ring, 0, most - (got.n - from) - 1)
      for i = 1, #round do
        local left = most - (got.n - from)
        if left == 0 then break end
        fromtenant(q, p, round[i], max(1, floor(left / (n - i + 1))), got)
      end
    end
  end
  return got.n - from
end

local function weight(q, p)
  return q.c.weights and tonumber(q.c.weights[tostring(p)]) or 4 ^ min(p, 4)
end

-- serve takes up to most jobs: priorities by weight. pass is a text: how much each has had,
-- in jobs for each of its weight; that with the least comes next, the higher of equals.
-- One that had nothing to hand out gains nothing by that.
local function serve(q, most, got)
  local levels = call('SMEMBERS', q.k .. 'levels')
  table.sort(levels, function(a, b) return tonumber(a) > tonumber(b) end)
  local going = {}
  for _, p in ipairs(levels) do
    if call('EXISTS', q.k .. 'r' .. p) == 1 then going[#going + 1] = p end
  end
  if #going == 0 then return end
  local had, pass = {}, tonumber(match(q.pass or '', '^%S+') or 0)
  for p, n in string.gmatch(q.pass or '', '(%d+):(%S+)') do had[p] = tonumber(n) end
  for _, p in ipairs(going) do had[p] = had[p] or 0 end
  local was, changed = pass, false
  while got.n < most and #going > 0 do
    local at = 1
    for i = 2, #going do
      if max(had[going[i]], pass) < max(had[going[at]], pass) then at = i end
    end
    local p = going[at]
    local share = most - got.n
    if #going > 1 then share = min(share, weight(q, p)) end
    had[p] = max(had[p], pass)
    local n = fromlevel(q, p, share, got)
    if n > 0 then
      pass = had[p]
      if #going > 1 then -- who is alone takes nothing from anybody
        had[p] = had[p] + n / weight(q, p)
        changed = true
      end
      wait(q, p, -n)
    end
    if n < share then table.remove(going, at) end
  end
  if changed or pass ~= was then
    local text = {string.format('%.6f', pass)}
    for p, n in pairs(had) do
      if n > pass then text[#text + 1] = p .. ':' .. string.format('%.6f', n) end
    end
    keep(q, 'pass', table.concat(text, ' '))
  end
end
