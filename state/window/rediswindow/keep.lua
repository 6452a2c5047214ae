-- keep renews leases.
-- ARGV 2 lease (ms), then of each: number, epoch, replays
-- returns a digit for each: 1 renewed, 0 lost
local answer, due = {}, str(now + ARGV[2])
for i = 3, #ARGV, 3 do
  local no = ARGV[i]
  local held = holds(no, ARGV[i + 1], ARGV[i + 2], '')
  if held then
    call('HSET', of(no), 'due', due)
    call('ZREM', base .. 'go', no)
    call('ZADD', base .. 'later', due, no)
  end
  answer[#answer + 1] = held and '1' or '0'
end
return table.concat(answer)
