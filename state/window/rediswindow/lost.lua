-- lost counts records of a window as lost, once.
-- ARGV 2 number, 3 epoch, 4 replays, 5 how many
-- returns 1, or 0 where the lease is not the newest
local w = holds(ARGV[2], ARGV[3], ARGV[4], '')
if not w then return 0 end
local lost = num(ARGV[5])
if lost > w.lost then
  call('HSET', of(ARGV[2]), 'lost', str(lost))
  book('lost', lost - w.lost)
end
return 1
