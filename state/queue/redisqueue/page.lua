-- page reads jobs for operators.
--
-- ARGV 2 queue, 3 what: "after" (in order of positions, after ARGV 4), "before" (from there down),
--        ARGV 5 at most, of the state ARGV 6 ("": all that have not ended), up to position ARGV 7
--        ("": those there are now), of the tenant ARGV 8 ("": of any), added before ARGV 9 (in ms; "":
--        at any time), until as many others as ARGV 10 were looked at (0: any number);
--      "these" (positions from ARGV 4 on);
--      "ids" (those that have one of the digests from ARGV 4 on, of 8 bytes or of 12; no records)
-- returns {number of the queue, {position, state, at, late, failures, record, …}, dictionary, where
--         to look on ("": there are no more), the newest position, how many others were looked at},
--         or {number, positions}
local q = open(ARGV[2], false)
if not q then return {0, {}, '', '', '', 0} end
look(q)
done()
local list, on = {}, ''
local newest = tonumber(ARGV[7] or '') or q.n['end']
local tenant, before, budget, passed = ARGV[8] or '', tonumber(ARGV[9] or ''), tonumber(ARGV[10] or 0), 0

-- Buckets with jobs of the state that one look searches, and all that it passes over; and how many
-- positions of a bucket are looked at together: a page has no more in most cases.
local SEARCHED, PASSED, SOME = 8, 4096, 128

-- sets are those that jobs of a state are in, or else those that they are not in.
local function sets(state)
  if state == 'delayed' or state == 'completed' or state == 'failed' then return {state}, true end
  return {'completed', 'failed', state == 'waiting' and 'delayed' or nil}, false
end

-- lacks says for buckets which have no job of a state.
local function lacks(buckets, state)
  local of, is = sets(state)
  local ids, without = {}, {}
  for _, b in ipairs(buckets) do
    for _, name in ipairs(of) do ids[#ids + 1] = name .. b end
  end
  local counts = read('HMGET', q.k .. 'of', ids)
  for i, b in ipairs(buckets) do
    local n = 0
    for j = 1, #of do n = n + tonumber(counts[(i - 1) * #of + j] or 0) end
    if is then without[i] = n == 0 else without[i] = n >= call('HLEN', q.k .. 'j' .. b) end
  end
  return without
end

-- those are the positions of a list that are of a state.
local function those(part, state)
  local of, is = sets(state)
  local found, chosen = {}, {}
  for _, name in ipairs(of) do
    if is or call('EXISTS', q.k .. name) == 1 then
      for i, score in ipairs(read('ZMSCORE', q.k .. name, part)) do found[i] = found[i] or score end
    end
  end
  if state == 'waiting' and call('EXISTS', q.k .. 'out') == 1 then
    for i, out in ipairs(read('HMGET', q.k .. 'out', part)) do found[i] = found[i] or out end
  end
  for i, pos in ipairs(part) do
    if (found[i] and true or false) == is then chosen[#chosen + 1] = pos end
  end
  return chosen
end

-- meant says whether a record may be of a job that is meant.
local function meant(rec)
  if #rec < 11 then return true end -- it was damaged
  local added, _, of = head(rec)
  return (tenant == '' or of == tenant) and (not before or added < before)
end

-- flows are where jobs of a tenant wait; nil: its keys are many, or their order is strict.
local MERGED = 256
local function flows()
  if q.c.ordered then return nil end
  local found, meta = {}, call('HGETALL', q.k .. 'meta')
  for i = 1, #meta, 2 do
    local p = match(meta[i], '^w(%d+)$')
    if p and tonumber(meta[i + 1]) > 0 then
      found[#found + 1] = flowof(p, tenant, '')
      for _, key in ipairs(call('ZRANGE', q.k .. 'H' .. p .. ':' .. tenant, 0, MERGED)) do
        if key ~= '' then found[#found + 1] = flowof(p, tenant, key) end
      end
    end
  end
  return #found <= MERGED and found or nil
end

-- inflow are the first positions of a flow that follow one, at most so many of those that came in
-- order and of those that came back.
local function inflow(flow, at, sign, most)
  local l, b = q.k .. 'l' .. flow, q.k .. 'b' .. flow
  local some = sign > 0 and call('ZRANGEBYSCORE', b, '(' .. at, '+inf', 'LIMIT', 0, most) or call('ZREVRANGEBYSCORE', b, '(' .. at, '-inf', 'LIMIT', 0, most)
  local low, high = 0, call('LLEN', l) -- those from low on are not before at
  while low < high do
    local mid = floor((low + high) / 2)
    local n = tonumber(call('LINDEX', l, mid))
    if n < tonumber(at) or sign > 0 and n == tonumber(at) then low = mid + 1 else high = mid end
  end
  local part
  if sign > 0 then part = call('LRANGE', l, low, low + most - 1) elseif low > 0 then part = call('LRANGE', l, max(0, low - most), low - 1) end
  for _, pos in ipairs(part or {}) do some[#some + 1] = pos end
  return some
end

if ARGV[3] == 'after' or ARGV[3] == 'before' then
  local at, most, sign, state = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[3] == 'after' and 1 or -1, ARGV[6]
  -- follow leaves the positions that follow, in order, as texts counts them.
  local function follow(part)
    local rest = {}
    for _, pos in ipairs(part) do
      local n = tonumber(pos)
      if sign * n > sign * at and n <= newest then rest[#rest + 1] = sign * n end
    end
    table.sort(rest) -- numbers, and without a function: that is most of the work
    return rest
  end
  -- texts are positions that follow left, from one to another.
  local function texts(rest, from, to)
    local part = {}
    for i = from, min(to, #rest) do part[#part + 1] = string.format('%d', sign * rest[i]) end
    return part
  end
  local function add(part)
    local recs = (tenant ~= '' or before) and recordsof(q, part)
    for i, pos in ipairs(part) do
      if #list >= most then break end
      if not recs or recs[i] and meant(recs[i]) then
        list[#list + 1] = pos
      elseif recs[i] then
        passed = passed + 1
        if passed == budget then
          on = pos
          return
        end
      end
    end
    if #list >= most then on = list[#list] end
  end
  local of = tenant ~= '' and state == 'waiting' and flows()
  if of then
    local some = {}
    for _, flow in ipairs(of) do
      for _, pos in ipairs(inflow(flow, ARGV[4], sign, most)) do some[#some + 1] = pos end
    end
    some = follow(some)
    local part = texts(some, 1, most)
    add(those(part, state)) -- some were removed, and lie there until they are passed over
    if on == '' and #some >= most then on = part[#part] end
  elseif state == 'leased' then
    local rest = follow(call('HKEYS', q.k .. 'out')) -- no more than engines work on
    add(texts(rest, 1, #rest))
  else
    local range, last, searched = sign > 0 and 'ZRANGEBYSCORE' or 'ZREVRANGEBYSCORE', sign > 0 and '+inf' or '-inf', 0
    local buckets = call(range, q.k .. 'buckets', floor(at / BUCKET), last, 'LIMIT', 0, PASSED)
    local without = lacks(buckets, state)
    for i, b in ipairs(buckets) do
      if on ~= '' then break end
      if not without[i] then
        local rest = follow(call('HKEYS', q.k .. 'j' .. b))
        for from = 1, #rest, SOME do
          if on ~= '' then break end
          add(those(texts(rest, from, from + SOME - 1), state))
        end
        searched = searched + 1
      end
      if on == '' and (searched == SEARCHED or i == PASSED) then on = string.format('%d', sign > 0 and (b + 1) * BUCKET - 1 or b * BUCKET) end
    end
  end
elseif ARGV[3] == 'these' then
  list = {unpack(ARGV, 4)}
else
  periods(q, 86400000)
  for i = 4, #ARGV do
    for _, period in ipairs(q.periods) do
      if #ARGV[i] == 12 then
        list[#list + 1] = call('HGET', place(q, period, ARGV[i]), ARGV[i]) or nil
      else
        local names = call('HGETALL', place(q, period, ARGV[i]))
        for j = 1, #names, 2 do
          if string.sub(names[j], 1, 8) == ARGV[i] then list[#list + 1] = names[j + 1] end
        end
      end
    end
  end
  return {q.no, list}
end
local recs, late, fails = records(q, list), lates(q, list)
local jobs, size = {}, 0

-- told are what a command says of the positions of the list; nil: nothing, of a key that there is not.
local function told(command, key)
  return call('EXISTS', key) == 1 and read(command, key, list)
end
local out, delayed, completed, failed = told('HMGET', q.k .. 'out'), told('ZMSCORE', q.k .. 'delayed'), told('ZMSCORE', q.k .. 'completed'), told('ZMSCORE', q.k .. 'failed')
for i, pos in ipairs(list) do
  local rec = recs[tonumber(pos)]
  if rec then
    local state, at = 'waiting', 0
    if out and out[i] then
      state = 'leased'
    elseif delayed and delayed[i] then
      state, at = 'delayed', tonumber(delayed[i])
    elseif completed and completed[i] then
      state = 'completed'
      late[i] = late[i] or lateof(0, 1, 'd', floor(completed[i] / 1000), '') -- see settle
    elseif failed and failed[i] then
      state = 'failed'
    end
    jobs[#jobs + 1] = pos
    jobs[#jobs + 1] = state
    jobs[#jobs + 1] = at
    jobs[#jobs + 1] = late[i] or ''
    jobs[#jobs + 1] = fails[i] or ''
    jobs[#jobs + 1] = rec
    size = size + #rec + #(fails[i] or '')
    if size > 4194304 then
      if i < #list then on = pos end
      break
    end
  end
end
return {q.no, jobs, q.dict or '', on, string.format('%d', newest), passed}
