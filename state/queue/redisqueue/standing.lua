-- standing says how queues stand.
-- ARGV 2 queues from here on
-- returns for each: waiting, delayed, leased, completed, failed, when the oldest held was added (-1:
--         none, -2: ask again), accepted, delivered, skipped, dead, settings ("": none)

-- oldest finds when the oldest job that is held was added. Below meta low no job is held, for good:
-- so the last answer is the first place to look at, and kept jobs are read once, some buckets at a time.
local function oldest(q, kept)
  local low, buckets = tonumber(call('HGET', q.k .. 'meta', 'low') or 0), 8
  local rec = call('HGET', bucket(q, low), low)
  if rec and not (kept and (call('ZSCORE', q.k .. 'completed', low) or call('ZSCORE', q.k .. 'failed', low))) then return (head(rec)) end
  local some = call('ZRANGEBYSCORE', q.k .. 'buckets', floor(low / BUCKET), '+inf', 'LIMIT', 0, buckets)
  for _, b in ipairs(some) do
    local list, first = {}, nil
    for _, pos in ipairs(call('HKEYS', q.k .. 'j' .. b)) do
      if tonumber(pos) >= low then list[#list + 1] = pos end
    end
    for i = 1, #list, 1000 do
      local to = min(#list, i + 999)
      local completed = kept and call('ZMSCORE', q.k .. 'completed', unpack(list, i, to))
      local failed = kept and call('ZMSCORE', q.k .. 'failed', unpack(list, i, to))
      for j = i, to do
        local n = tonumber(list[j])
        if (not first or n < first) and not (kept and (completed[j - i + 1] or failed[j - i + 1])) then first = n end
      end
    end
    if first then
      keep(q, 'low', string.format('%d', first))
      return (head(call('HGET', q.k .. 'j' .. b, string.format('%d', first))))
    end
    low = min((b + 1) * BUCKET, q.n['end'] + 1)
  end
  keep(q, 'low', string.format('%d', low))
  return #some == buckets and -2 or -1
end

local answer = {}
local function say(...)
  for _, one in ipairs({...}) do answer[#answer + 1] = one end
end
for i = 2, #ARGV do
  local q = open(ARGV[i], false)
  if q then
    look(q)
    local delayed, out, completed, failed = call('ZCARD', q.k .. 'delayed'), call('HLEN', q.k .. 'out'), call('ZCARD', q.k .. 'completed'), call('ZCARD', q.k .. 'failed')
    say(q.n.wait, delayed, out, completed, failed, q.n.wait + delayed + out > 0 and oldest(q, completed + failed > 0) or -1,
      q.n['end'], q.n.delivered, q.n.skipped, q.n.dead, call('HGET', q.k .. 'meta', 's') or '')
  else
    say(0, 0, 0, 0, 0, -1, 0, 0, 0, 0, '')
  end
end
done()
return answer
