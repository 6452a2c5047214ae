-- take hands out windows that are first in their lines and due.
-- ARGV 2 how many at most, 3 lease (ms), 4 owner
-- returns when to come again (ms; -1: not known), the newest wake, and the windows
for _, no in ipairs(call('ZRANGEBYSCORE', base .. 'later', '-inf', str(now), 'LIMIT', 0, 1000)) do
  call('ZREM', base .. 'later', no)
  call('ZADD', base .. 'go', no, no)
end
local answer, most, due = {'', ''}, num(ARGV[2]), now + ARGV[3]
local lost
repeat
  lost = false
  for _, no in ipairs(call('ZRANGE', base .. 'go', 0, most - #answer + 1)) do
    local state, batch, records, gaps = unpack(call('HMGET', of(no), 'state', 'batch', 'records', 'lost'))
    if not state then
      forget(no)
      lost = true
    elseif not there(no) then
      leave(no, batch)
      gone(no, num(records), num(gaps), state)
      lost = true -- another may come in its place
    else
      call('ZREM', base .. 'go', no)
      call('ZADD', base .. 'later', str(due), no)
      call('HINCRBY', of(no), 'epoch', 1)
      call('HINCRBY', of(no), 'handed', 1)
      call('HSET', of(no), 'state', 'leased', 'due', str(due), 'owner', ARGV[4])
      move(no, num(records), state, 'leased')
      answer[#answer + 1] = shown(no)
    end
  end
until not lost or #answer - 2 >= most
local first = call('ZRANGE', base .. 'later', 0, 0, 'WITHSCORES')
answer[1] = first[2] and str(math.max(0, num(first[2]) - now)) or '-1'
local last = call('XREVRANGE', base .. 'wake', '+', '-', 'COUNT', 1)
answer[2] = last[1] and last[1][1] or '0-0'
return answer
