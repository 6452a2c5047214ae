-- progress says how far a job is, where it is out as that hand-out.
--
-- ARGV 1 id, 2 token and hand-out, 3 JSON
-- returns 1, or 0 where it is not ours any more
if call('GET', base .. ARGV[1] .. ':lock') ~= ARGV[2] or call('EXISTS', base .. ARGV[1]) == 0 then return 0 end
call('HSET', base .. ARGV[1], 'progress', ARGV[3])
event(open(base), 'progress', ARGV[1], 'data', ARGV[3])
return 1
