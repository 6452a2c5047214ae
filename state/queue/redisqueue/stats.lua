-- stats counts jobs by state.
-- ARGV 2 queue
-- returns {waiting, delayed, leased, completed, failed, when the oldest held was added (-1: none, -2: ask again)}
local q = open(ARGV[2], false)
if not q then return {0, 0, 0, 0, 0, -1} end
look(q)
local answer = {q.n.wait, call('ZCARD', q.k .. 'delayed'), call('HLEN', q.k .. 'out'), call('ZCARD', q.k .. 'completed'), call('ZCARD', q.k .. 'failed'), -1}

-- oldest finds when the oldest job that is held was added. Below meta low no job is held, for
-- good: kept jobs are read once, some buckets at a time.
local function oldest()
  local low, buckets = tonumber(call('HGET', q.k .. 'meta', 'low') or 0), 8
  local some = call('ZRANGEBYSCORE', q.k .. 'buckets', floor(low / BUCKET), '+inf', 'LIMIT', 0, buckets)
  for _, b in ipairs(some) do
    local list = {}
    for _, pos in ipairs(call('HKEYS', q.k .. 'j' .. b)) do
      if tonumber(pos) >= low then list[#list + 1] = pos end
    end
    table.sort(list, function(x, y) return tonumber(x) < tonumber(y) end)
    for i = 1, #list, 1000 do
      local part = {unpack(list, i, min(#list, i + 999))}
      local completed, failed = call('ZMSCORE', q.k .. 'completed', unpack(part)), call('ZMSCORE', q.k .. 'failed', unpack(part))
      for j, pos in ipairs(part) do
        if not completed[j] and not failed[j] then
          keep(q, 'low', pos)
          return (head(call('HGET', q.k .. 'j' .. b, pos)))
        end
      end
    end
    low = min((b + 1) * BUCKET, q.n['end'] + 1)
  end
  keep(q, 'low', string.format('%d', low))
  return #some == buckets and -2 or -1
end
if answer[1] + answer[2] + answer[3] > 0 then answer[6] = oldest() end
done()
return answer
