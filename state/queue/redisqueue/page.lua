-- page reads jobs for a desk.
--
-- ARGV 2 queue, 3 what: "after" (in order of positions, after ARGV 4, ARGV 5 at most),
--      "before" (the same from there down),
--      "these" (positions from ARGV 4 on), "state" (positions of a state, ARGV 4: out,
--      delayed, completed, failed; no records), "ids" (those that have one of the digests
--      from ARGV 4 on, of 8 bytes or of 12; no records)
-- returns {number of the queue, {position, state, at, late, failures, record, …}, dictionary} or {number, positions}
local q = open(ARGV[2], false)
if not q then return {0, {}, ''} end
look(q)
done()
local list = {}
if ARGV[3] == 'after' or ARGV[3] == 'before' then
  local at, most, sign = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[3] == 'after' and 1 or -1
  local range, last = 'ZRANGEBYSCORE', '+inf'
  if sign < 0 then range, last = 'ZREVRANGEBYSCORE', '-inf' end
  for _, b in ipairs(call(range, q.k .. 'buckets', math.floor(at / BUCKET), last, 'LIMIT', 0, most + 1)) do
    local part = call('HKEYS', q.k .. 'j' .. b)
    table.sort(part, function(x, y) return sign * tonumber(x) < sign * tonumber(y) end)
    for _, pos in ipairs(part) do
      if #list < most and sign * tonumber(pos) > sign * at then list[#list + 1] = pos end
    end
    if #list >= most then break end
  end
elseif ARGV[3] == 'these' then
  list = {unpack(ARGV, 4)}
elseif ARGV[3] == 'state' then
  if ARGV[4] == 'out' then return {q.no, call('HKEYS', q.k .. 'out')} end
  return {q.no, call('ZRANGE', q.k .. ARGV[4], 0, -1)}
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
for i, pos in ipairs(list) do
  local rec = recs[tonumber(pos)]
  if rec then
    local state, at = 'waiting', 0
    if call('HEXISTS', q.k .. 'out', pos) == 1 then
      state = 'leased'
    else
      for _, s in ipairs({'delayed', 'completed', 'failed'}) do
        local score = call('ZSCORE', q.k .. s, pos)
        if score then
          state = s
          if s == 'delayed' then at = tonumber(score) end
          if s == 'completed' and not late[i] then late[i] = lateof(0, 1, 'd', floor(score / 1000), '') end -- see settle
        end
      end
    end
    jobs[#jobs + 1] = pos
    jobs[#jobs + 1] = state
    jobs[#jobs + 1] = at
    jobs[#jobs + 1] = late[i] or ''
    jobs[#jobs + 1] = fails[i] or ''
    jobs[#jobs + 1] = rec
    size = size + #rec + #(fails[i] or '')
    if size > 4194304 then break end
  end
end
return {q.no, jobs, q.dict or ''}
