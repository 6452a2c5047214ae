-- gate holds deliveries back, or lets them go.
-- ARGV 2 queue, 3 ms until probes go out (-1: open it), 4 how many
local q = open(ARGV[2], true)
call('HDEL', q.k .. 'meta', 'probing')
local until_ = -1
if tonumber(ARGV[3]) >= 0 then until_ = now + ARGV[3] end
keep(q, 'gate', string.format('%d %d %d', until_, ARGV[4], q.gated + 1))
q.wakes = true
done()
return 1
