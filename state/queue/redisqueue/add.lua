-- add takes jobs in.
--
-- ARGV 2 capacity, 3 remember (ms), 4 how many queues, then of each: name, how many jobs,
--      and of each of its jobs: digest (12 bytes, then when it comes due in ms, if not now), record
-- returns a digit for each job, as queue.Added
local capacity, remember = tonumber(ARGV[2]), tonumber(ARGV[3])
local at, answer = 5, {}
for _ = 1, ARGV[4] do
  local q, n = open(ARGV[at], true), tonumber(ARGV[at + 1])
  answer[#answer + 1] = table.concat(accept(q, ARGV, nil, nil, capacity, remember, at + 2, n))
  at = at + 2 + 2 * n
  sweep(q, 2 + math.ceil(n / 40))
end
done()
return table.concat(answer)
