-- accept: how jobs come in.
--
-- Names are known for at least a day, and for as long as their job is stored. They lie in hashes,
-- digest → position, that Redis packs while they are small: shards of periods of half a day. A
-- name is looked up in all periods. A script that adds jobs sweeps the periods that have been
-- over for long enough, and carries over the names of stored jobs.
--   n<period>:<shard>
--   meta names: of each period, the newest first: its number, how many shards, the last
--   position before it began, how many shards are swept

local function shard(digest, shards)
  local a, b, c = byte(digest, 1, 3)
  return ((a * 256 + b) * 256 + c) % shards
end

-- periods finds those that a queue has, the current one first; make: it has one.
local function periods(q, remember, make)
  if not q.periods then
    q.periods = {}
    for period, shards, from, swept in string.gmatch(q.names or '', '(%d+) (%d+) (%d+) (%d+)') do
      q.periods[#q.periods + 1] = {period = tonumber(period), shards = tonumber(shards), from = tonumber(from), swept = tonumber(swept)}
    end
  end
  q.part = now / (remember / 2)
  q.this = floor(q.part)
  q.part = q.part - q.this -- of the current one that has passed
  local newest = q.periods[1]
  if make and (not newest or newest.period < q.this) then
    local shards = 8192
    while newest and shards < 262144 and shards * 80 < q.n['end'] - newest.from do shards = shards * 2 end
    table.insert(q.periods, 1, {period = q.this, shards = shards, from = q.n['end'], swept = 0})
    q.renamed = true
  end
end

local function keepperiods(q)
  if not q.renamed then return end
  local text = {}
  for i, p in ipairs(q.periods) do text[i] = string.format('%d %d %d %d', p.period, p.shards, p.from, p.swept) end
  keep(q, 'names', table.concat(text, ' '))
end

local function place(q, period, digest) return q.k .. string.format('n%d:%d', period.period, shard(digest, period.shards)) end

-- known is the position of a name in one of the periods from the given one on, or nil.
local function known(q, digest, from)
  for i = from, #q.periods do
    local pos = call('HGET', place(q, q.periods[i], digest), digest)
    if pos then return pos end
  end
end

-- knows says whether a queue knows a name.
local function knows(q, digest, remember)
  periods(q, remember)
  return known(q, digest, 1) ~= nil
end

-- room is how many more jobs a queue takes; FAR as the capacity: it was asked before
local function room(q, capacity)
  if q.c.max and capacity < FAR then capacity = q.c.max end
  return capacity - q.n.held
end

-- justnow says whether that is when jobs were added: by the clock of who adds them. Where it
-- is not, the clocks differ, or the jobs have been on their way for long.
local function justnow(first, last) return now - first <= 1000 and now - last >= 0 end

-- bytes6 is a time as records begin with it.
local function bytes6(ms)
  local t = {}
  for i = 6, 1, -1 do
    t[i] = ms % 256
    ms = floor(ms / 256)
  end
  return string.char(unpack(t))
end

-- accept takes in jobs of one queue: digests and records, and when they come due (0: now).
-- Where n is given they are n pairs in digests, from a place on: digest (12 bytes, then when
-- it comes due in ms, if not now) and record, as they lie in ARGV. Those records begin with
-- when they were added, which is right if dated is true, and now if not. It answers for each:
-- 1 new, 2 known, 3 full, 4 closed.
local function accept(q, digests, recs, ats, capacity, remember, from, n, dated)
  periods(q, remember, true)
  local took, flows, names, buckets, fields = {}, {}, {}, {}, nil
  local room, older, pos, format = room(q, capacity), #q.periods > 1, q.n['end'], string.format
  local left, closed, ordered, keyed = room, q.c.closed, q.c.ordered, q.c.keyed
  local added = not dated and bytes6(now)
  local current = q.periods[1]
  local k, shards, id, flow = q.k .. 'n' .. current.period .. ':', current.shards, nil, nil
  for i = 1, n or #recs do
    local digest, rec, at
    if n then
      digest, rec, at = digests[from], digests[from + 1], 0
      from = from + 2
      if not dated then rec = added .. sub(rec, 7) end
      if #digest > 12 then digest, at = sub(digest, 1, 12), tonumber(sub(digest, 13)) end
    else
      digest, rec, at = digests[i], added .. recs[i], ats[i]
    end
    local text = format('%d', pos + 1) -- once: Redis wants texts
    local a, b, c = byte(digest, 1, 3)
    local shard = k .. format('%d', ((a * 256 + b) * 256 + c) % shards)
    if older and known(q, digest, 2) then
      took[i] = 2
    elseif closed or left <= 0 then
      took[i] = call('HEXISTS', shard, digest) == 1 and 2 or closed and 4 or 3
    elseif call('HSETNX', shard, digest, text) == 0 then
      took[i] = 2
    else
      took[i], pos, left = 1, pos + 1, left - 1
      if not fields or pos % BUCKET == 0 then
        fields = {n = floor(pos / BUCKET), first = pos % BUCKET == 0 or pos == 1}
        buckets[#buckets + 1] = fields
      end
      local last = #fields
      fields[last + 1], fields[last + 2] = text, rec
      local kl, p, t1, t2 = byte(rec, 8, 11)
      local tl = t1 * 256 + t2
      if at > now then
        call('ZADD', q.k .. 'delayed', at, text)
        tally(q, 'delayed', text, 1)
        q.wakes = true
      elseif ordered and kl > 0 then
        due(q, text, p, sub(rec, 12, 11 + tl), sub(rec, 12 + tl, 11 + tl + kl))
      else
        local is = keyed and sub(rec, 8, 11 + tl + kl) or sub(rec, 9, 11 + tl)
        if is ~= id then
          id, flow = is, flows[is]
          if not flow then
            flow = {p = p, tenant = sub(rec, 12, 11 + tl), key = sub(rec, 12 + tl, 11 + tl + kl), list = {}}
            flows[id] = flow
            names[#names + 1] = flow
          end
        end
        flow.list[#flow.list + 1] = text
      end
    end
  end
  q.n['end'], q.n.held = pos, q.n.held + room - left
  for _, f in ipairs(buckets) do -- in order
    if f.first then
      call('ZADD', q.k .. 'buckets', f.n, f.n)
      if f.n > 0 and call('EXISTS', q.k .. 'j' .. f.n - 1) == 0 then call('ZREM', q.k .. 'buckets', f.n - 1) end
    end
    all('HSET', q.k .. 'j' .. f.n, f, 1000)
  end
  for _, flow in ipairs(names) do
    wait(q, flow.p, #flow.list)
    push(q, flow.p, flow.tenant, flow.key, flow.list, true)
  end
  keepperiods(q)
  return took
end

-- sweep forgets names whose time is over, a few shards at a time: more where few callers come,
-- so that a period is swept while another lasts, but then of no more than SWEPT names.
local SWEPT = 1000
local function sweep(q, shards)
  local last = q.periods[#q.periods]
  if last.period > q.this - 3 then return end
  local k, at, least, seen, current = q.k .. 'n' .. last.period .. ':', last.swept, last.swept + shards, 0, q.periods[1]
  local to = max(least, math.ceil(q.part * last.shards))
  if q.periods[#q.periods - 1].period <= q.this - 3 then to = last.shards end -- it should have been
  to = min(to, last.shards, at + 8192)
  while at < to and (at < least or seen < SWEPT) do
    local keys = {}
    for i = at, min(at + 63, to - 1) do keys[#keys + 1] = k .. i end
    if #keys < 8 or call('EXISTS', unpack(keys)) > 0 then -- most are empty where names are few
      for _, key in ipairs(keys) do
        local names = call('HGETALL', key)
        for j = 1, #names, 2 do
          if call('HEXISTS', bucket(q, names[j + 1]), names[j + 1]) == 1 then
            call('HSETNX', place(q, current, names[j]), names[j], names[j + 1])
          end
        end
        if #names > 0 then call('DEL', key) end
        seen, at = seen + #names / 2, at + 1
        if at >= least and seen >= SWEPT then break end
      end
    else
      at = at + #keys
    end
  end
  last.swept, q.renamed = at, true
  if at == last.shards then q.periods[#q.periods] = nil end
  keepperiods(q)
end
