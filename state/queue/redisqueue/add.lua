-- add takes jobs in.
--
-- ARGV 2 capacity, 3 remember (ms), 4 how many queues, 5 when the first and 6 when the last of
--      the jobs was added, then of each: name, how many jobs, and of each of its jobs: digest
--      (12 bytes, then when it comes due in ms, if not now), record; then dictionaries (see packed)
-- returns a digit for each job, as queue.Added, and how many jobs each queue holds then, each
--      behind a space; or "": nothing happened, a dictionary is not there
if not packed() then return '' end
local capacity, remember = tonumber(ARGV[2]), tonumber(ARGV[3])
local at, answer, held, dated = 7, {}, {}, justnow(ARGV[5], ARGV[6])
for _ = 1, ARGV[4] do
  local q, n = open(ARGV[at], true), tonumber(ARGV[at + 1])
  answer[#answer + 1] = table.concat(accept(q, ARGV, nil, nil, capacity, remember, at + 2, n, dated))
  at = at + 2 + 2 * n
  held[#held + 1] = string.format(' %d', q.n.held)
  sweep(q, 2 + math.ceil(n / 40))
end
done()
return table.concat(answer) .. table.concat(held)
