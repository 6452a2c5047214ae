-- keep renews leases that have not ended.
-- ARGV 2 queue, 3 lease (ms), then epochs
-- returns a digit for each epoch: 1 renewed, 0 nothing of it is out any more
local q = open(ARGV[2], false)
if not q then return string.rep('0', #ARGV - 3) end
local answer = {}
for i = 4, #ARGV do
  local epoch, left = ARGV[i], false
  local ends = tonumber(call('ZSCORE', q.k .. 'leases', epoch) or 0)
  local list = {}
  for pos in string.gmatch(call('GET', q.k .. 'g' .. epoch) or '', '%d+') do list[#list + 1] = pos end
  for j = 1, #list, 1000 do
    local outs = call('HMGET', q.k .. 'out', unpack(list, j, math.min(#list, j + 999)))
    for k = 1, #outs do
      local is, flags = string.match(outs[k] or '0', '^(%d+)([^|]*)')
      left = left or is == epoch and not string.find(flags, 'l', 1, true)
    end
  end
  if not left then
    call('ZREM', q.k .. 'leases', epoch)
    call('DEL', q.k .. 'g' .. epoch)
    if q.c.limited then call('HDEL', q.k .. 'outs', epoch) end
  elseif ends > now then
    call('ZADD', q.k .. 'leases', 'XX', now + ARGV[3], epoch)
  end
  answer[#answer + 1] = left and '1' or '0'
end
return table.concat(answer)
