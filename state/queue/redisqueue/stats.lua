-- stats counts jobs by state.
-- ARGV 2 queue
-- returns {waiting, delayed, leased, completed, failed, when the oldest held was added (-1: none)}
local q = open(ARGV[2], false)
if not q then return {0, 0, 0, 0, 0, -1} end
look(q)
done()
local kept = call('ZCARD', q.k .. 'completed') + call('ZCARD', q.k .. 'failed')
local answer = {q.n.wait, call('ZCARD', q.k .. 'delayed'), call('HLEN', q.k .. 'out'), call('ZCARD', q.k .. 'completed'), call('ZCARD', q.k .. 'failed'), -1}
if answer[1] + answer[2] + answer[3] > 0 then
  -- The first bucket with a job that is held: one bucket, unless what is kept fills some.
  for _, b in ipairs(call('ZRANGE', q.k .. 'buckets', 0, 1000)) do
    local list = call('HKEYS', q.k .. 'j' .. b)
    table.sort(list, function(x, y) return tonumber(x) < tonumber(y) end)
    for _, pos in ipairs(list) do
      if kept == 0 or not call('ZSCORE', q.k .. 'completed', pos) and not call('ZSCORE', q.k .. 'failed', pos) then
        answer[6] = head(call('HGET', q.k .. 'j' .. b, pos))
        return answer
      end
    end
  end
end
return answer
