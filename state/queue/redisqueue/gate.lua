-- gate holds deliveries back, or lets them go.
-- ARGV 2 queue, 3 ms until probes go out (-1: open it), 4 how many
local q = open(ARGV[2], true)
local meta = q.k .. 'meta'
call('HINCRBY', meta, 'gated', 1)
call('HDEL', meta, 'probing')
if tonumber(ARGV[3]) < 0 then
  call('HDEL', meta, 'gate', 'probes')
else
  call('HSET', meta, 'gate', string.format('%.0f', now + ARGV[3]), 'probes', ARGV[4])
end
q.wakes = true
done()
return 1
