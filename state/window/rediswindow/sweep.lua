-- sweep closes windows that are over, and lets the data of all live on.
-- ARGV 2 how long a window is open (ms), 3 how many are closed at most,
--      4 how long data is kept (ms; 0: for ever)
-- returns closed, records lost, when to come again (ms; 0: at once, -1: nothing is open)
local length, most, ttl = num(ARGV[2]), num(ARGV[3]), num(ARGV[4])
local done, closed, lost = 0, 0, 0
local function close(list, why)
  for _, no in ipairs(list) do
    local ok, records = freeze(no, why)
    done, lost = done + 1, lost + records
    if ok then closed = closed + 1 end
  end
end
close(call('ZRANGE', base .. 'full', 0, most - 1), 'count')
if done < most then close(call('ZRANGEBYSCORE', base .. 'starts', '-inf', str(now - length), 'LIMIT', 0, most - done), 'time') end

for _, no in ipairs(call('ZRANGEBYSCORE', base .. 'renew', '-inf', str(now), 'LIMIT', 0, 500)) do
  if call('EXISTS', of(no)) == 0 then
    lost = lost + forget(no)
  else
    for _, k in ipairs({'d', 'i', 'm'}) do
      if ttl > 0 then call('PEXPIRE', base .. k .. no, str(ttl)) else call('PERSIST', base .. k .. no) end
    end
    call('ZADD', base .. 'renew', str(now + (ttl > 0 and ttl / 2 or 86400000)), no)
  end
end

local next = -1
if done >= most then
  next = 0
else
  local first = call('ZRANGE', base .. 'starts', 0, 0, 'WITHSCORES')
  if first[2] then next = math.max(1, num(first[2]) + length - now) end
end
return {closed, lost, str(next)}
