-- turns: who is handed out next. See waiting for where.

local again = FAR -- when a limit lets a held-back holder go, in ms

-- A holder has a limit: id, limit, spent: until when its rate is used up, out: how many jobs are
-- handed out, used: it had some now. Two commands read the state of all holders that may have a
-- turn, and two write it when all were served: outs, see leaving, and the sorted set spent.
local holders, used = {}, {}

-- hold reads the state of ids that have limits.
local function hold(q, ids, limits)
  local rated, bounded
  for i = 1, #ids do rated, bounded = rated or limits[i].each, bounded or limits[i].at_once end
  local spent, out = rated and read('ZMSCORE', q.k .. 'spent', ids), bounded and read('HMGET', q.k .. 'outs', ids)
  for i = 1, #ids do
    local at, n = spent and spent[i], out and out[i]
    holders[ids[i]] = {id = ids[i], limit = limits[i], spent = at and tonumber(at) or 0, out = n and tonumber(n) or 0, new = not at}
  end
end

-- sane is until when the rate of a holder is used up: not later than it can be, which it seems
-- to be where the clock stepped back.
local function sane(h)
  if h.spent > us + (h.limit.ahead + 1) * h.limit.each then h.spent = 0 end
  return h.spent
end

-- prepare makes holders of tenants that may have a turn, where they have limits.
local forms = {}
local function prepare(q, tenants)
  local limit, n, ids, limits = q.c.tenant, 0, {}, {}
  if not (limit or q.c.named) then return end
  local named = q.c.named and read('HMGET', q.k .. 'named', tenants)
  for i = 1, #tenants do
    local id, own = 't' .. tenants[i], named and named[i]
    if holders[id] == nil then
      local is = limit
      if own then
        is = forms[own] or cjson.decode(own)
        forms[own] = is
      end
      if is and (is.each or is.at_once) then
        n = n + 1
        ids[n], limits[n] = id, is
      else
        holders[id] = false
      end
    end
  end
  hold(q, ids, limits)
end

-- allowed is how many of most jobs a limit lets go now; 0 with a time: not before that, in ms.
local function allowed(h, most)
  if not h then return most end
  local limit = h.limit
  if limit.at_once then
    most = min(most, max(0, limit.at_once - h.out))
    if most == 0 then return 0, FAR end
  end
  if limit.each then
    local spent = sane(h)
    local n = floor((us + limit.ahead * limit.each - max(spent, us)) / limit.each + 1e-6)
    if n < 1 then return 0, math.ceil((spent + limit.each - limit.ahead * limit.each) / 1000) end
    most = min(most, n)
  end
  return most
end

-- charge counts n jobs that are handed out against a limit.
local function charge(h, n)
  if not h.used then
    used[#used + 1] = h
    h.used = true
  end
  if h.limit.each then h.spent = max(h.spent, us) + n * h.limit.each end
  if h.limit.at_once then h.out = h.out + n end
end

-- spend writes what limits have to know next time. Times are whole numbers, which Redis keeps
-- and compares best: as often rounded up as down. In a small sorted set it would look through
-- half of it for each; one long member makes it another kind.
local LONG = string.rep('-', 65)
local function spend(q)
  local format, part, times, counts, new = string.format, us % 1000 * 0.618034 % 1, {}, {}, false
  for i = 1, #used do
    local h = used[i]
    if h.limit.each then
      local n = #times
      times[n + 1], times[n + 2] = format('%d', h.spent + part), h.id
      new = new or h.new
    end
    if h.limit.at_once and h.id ~= 'q' then
      local n = #counts
      counts[n + 1], counts[n + 2] = h.id, format('%d', h.out)
    end
  end
  if new then
    times[#times + 1] = FAR
    times[#times + 1] = LONG
  end
  all('ZADD', q.k .. 'spent', times, 2000)
  all('HSET', q.k .. 'outs', counts, 2000)
end

-- putaside holds one of a ring back until then.
local function putaside(q, id, at, ring, member)
  call('ZREM', ring, member)
  call('ZADD', q.k .. 'aside', at, id)
  q.asides = true
  if at < FAR then again = min(again, at) end
end

-- What is taken: n jobs, their positions (pos) and records (rec); counted: which of them count
-- for a bound: from, to, tenant's or key's holder, tenant, …; keys: some for a key's.
local function nothing() return {n = 0, pos = {}, rec = {}, counted = {}, keys = false} end

-- take takes up to most jobs out of a flow, in the order of their positions, into got. It answers
-- how many, and what is certainly left: nothing ('none'), or none that came back ('new').
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
      if recs[k] then
        at = at + 1
        got.pos[at], got.rec[at] = ready[k], recs[k]
      else -- it was removed
        passed(q, flow)
      end
    end
    n, got.n = n + at - got.n, at
  end
  return n, left
end

-- count counts the jobs from one on, which were taken, against a limit.
local function count(got, from, h, tenant)
  if not h or got.n == from then return end
  charge(h, got.n - from)
  if not h.limit.at_once then return end
  local c = got.counted
  local n = #c
  c[n + 1], c[n + 2], c[n + 3], c[n + 4] = from + 1, got.n, h, tenant
end

-- fromkey takes from a tenant's key (empty: those that are not kept apart). It answers
-- what is left, as take does.
local function fromkey(q, p, tenant, key, most, got)
  local h, at = key ~= '' and q.c.key and holders[keyid(tenant, key)], nil
  most, at = allowed(h, most)
  if most == 0 then
    putaside(q, h.id, at, q.k .. 'R' .. p .. ':' .. tenant, key)
    return nil
  end
  local from = got.n
  local _, left = take(q, flowof(p, tenant, key), most, got)
  count(got, from, h, tenant)
  got.keys = got.keys or h and h.limit.at_once and got.n > from
  return left
end

-- preparekeys makes holders of keys that may have a turn: every second of a list.
local function preparekeys(q, tenant, keys)
  local ids, limits = {}, {}
  for i = 1, q.c.key and #keys or 0, 2 do
    local id = keyid(tenant, keys[i])
    if keys[i] ~= '' and not holders[id] then
      ids[#ids + 1] = id
      limits[#ids] = q.c.key
    end
  end
  hold(q, ids, limits)
end

-- fromtenant takes from a tenant's jobs of a priority.
local function fromtenant(q, p, tenant, most, got)
  local h, at = holders['t' .. tenant], nil
  most, at = allowed(h, most)
  if most == 0 then
    putaside(q, h.id, at, q.k .. 'r' .. p, tenant)
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
      preparekeys(q, tenant, keys)
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
  count(got, from, h, tenant)
  return got.n - from
end

-- simple says whether each tenant of a round has its jobs in one list, and nothing else in it: none
-- came back, none was removed, none is apart for its key.
local function simple(q, p, round)
  if q.c.keyed or q.c.waskeyed or q.c.fair == 'unfair' or not even(q) then return false end
  local back = {}
  for i = 1, #round do back[i] = q.k .. 'b' .. flowof(p, round[i], '') end
  for i = 1, #back, 1000 do
    if call('EXISTS', unpack(back, i, min(#back, i + 999))) > 0 then return false end
  end
  return true
end

-- fromround takes from the tenants of a simple round: two commands for each, and some for all. n is
-- how many take turns, those of the round among them.
local function fromround(q, p, round, n, most, got)
  local list, spans, heads, turns, gone = {}, {}, {}, {}, {}
  for i = 1, #round do
    local left, tenant = most - #list, round[i]
    if left == 0 then break end
    local h = holders['t' .. tenant]
    local share, at = allowed(h, max(1, floor(left / (n - i + 1))))
    if share == 0 then
      putaside(q, h.id, at, q.k .. 'r' .. p, tenant)
    else
      local flow = q.k .. 'l' .. flowof(p, tenant, '')
      local ready = call('LPOP', flow, share) or {}
      for j = 1, #ready do list[#list + 1] = ready[j] end
      spans[#spans + 1] = {to = #list, h = h, tenant = tenant}
      local nxt = #ready == share and call('LINDEX', flow, 0)
      if nxt then
        local k = #heads
        q.n.turn = q.n.turn + 1
        heads[k + 1], heads[k + 2], turns[k + 1], turns[k + 2] = nxt, tenant, q.n.turn, tenant
      else
        gone[#gone + 1] = tenant
      end
    end
  end
  all('ZADD', q.k .. 'h' .. p, heads, 2000)
  all('ZADD', q.k .. 'r' .. p, turns, 2000)
  if #gone > 0 then
    all('ZREM', q.k .. 'h' .. p, gone, 1000)
    all('ZREM', q.k .. 'r' .. p, gone, 1000)
    if call('EXISTS', q.k .. 'h' .. p) == 0 then call('SREM', q.k .. 'levels', p) end
  end
  local recs, at = records(q, list), 1
  for _, span in ipairs(spans) do
    local from = got.n
    for k = at, span.to do
      local rec = recs[tonumber(list[k])]
      if rec then
        got.n = got.n + 1
        got.pos[got.n], got.rec[got.n] = list[k], rec
      else
        passed(q, flowof(p, span.tenant, ''))
      end
    end
    at = span.to + 1
    count(got, from, span.h, span.tenant)
  end
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
        prepare(q, {first[1]})
        fromtenant(q, p, first[1], 1, got)
      end
    else
      local round = call('ZRANGE', ring, 0, most - (got.n - from) - 1)
      prepare(q, round)
      if simple(q, p, round) then
        fromround(q, p, round, n, most - (got.n - from), got)
      else
        for i = 1, #round do
          local left = most - (got.n - from)
          if left == 0 then break end
          fromtenant(q, p, round[i], max(1, floor(left / (n - i + 1))), got)
        end
      end
    end
  end
  return got.n - from
end

local function weight(q, p)
  return q.c.weights and tonumber(q.c.weights[tostring(p)]) or 4 ^ min(p, 4)
end

-- shares divides most jobs among priorities by their weights, as if each had enough, or says who
-- comes next. It counts them in had: how much each has had, in jobs for each of its weight. The one
-- with the least comes next, the higher of equals.
local function shares(q, going, most, had, pass)
  local of = {}
  if #going == 1 then -- it takes no share from others
    had[going[1]] = max(had[going[1]], pass)
    of[going[1]] = most
    return of, had[going[1]]
  end
  while most > 0 do
    local at = 1
    for i = 2, #going do
      if max(had[going[i]], pass) < max(had[going[at]], pass) then at = i end
    end
    local p = going[at]
    local n = min(most, weight(q, p))
    pass = max(had[p], pass)
    had[p] = pass + n / weight(q, p)
    of[p] = (of[p] or 0) + n
    most = most - n
    if q.c.tenant or q.c.named or q.c.key then break end -- what these let go is divided too: one share at a time
  end
  return of, pass
end

-- serve takes up to most jobs: priorities by weight, the higher first. pass is a text: how far all are,
-- and those that have had more. A priority gains nothing while it has nothing to hand out.
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
    local alone, more, before = #going == 1, {}, got.n
    local of, after = shares(q, going, most - got.n, had, pass)
    changed = changed or not alone
    for _, p in ipairs(going) do
      local share, n = of[p] or 0, 0
      if share > 0 then n = fromlevel(q, p, share, got) end
      if n > 0 then wait(q, p, -n) end
      if n == share then more[#more + 1] = p elseif not alone then had[p] = had[p] - (share - n) / weight(q, p) end
    end
    if got.n > before then pass = after end
    going = more
  end
  if changed or pass ~= was then
    local text = {string.format('%.6f', pass)}
    for p, n in pairs(had) do
      if n > pass then text[#text + 1] = p .. ':' .. string.format('%.6f', n) end
    end
    keep(q, 'pass', table.concat(text, ' '))
  end
end
