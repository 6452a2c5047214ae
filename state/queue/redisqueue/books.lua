-- books reads the books, and counts pending jobs: a command for each 1,024 positions.
-- ARGV 2 queue, 3 "1": counters alone, and pending is 0
-- returns {accepted, delivered, skipped, dead, pending}
local q = open(ARGV[2], false)
if not q then return {0, 0, 0, 0, 0} end
if ARGV[3] == '1' then return {q.n['end'], q.n.delivered, q.n.skipped, q.n.dead, 0} end
local pending = -call('ZCARD', q.k .. 'completed') - call('ZCARD', q.k .. 'failed')
for _, b in ipairs(call('ZRANGE', q.k .. 'buckets', 0, -1)) do pending = pending + call('HLEN', q.k .. 'j' .. b) end
return {q.n['end'], q.n.delivered, q.n.skipped, q.n.dead, pending}
