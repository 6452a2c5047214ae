-- knows says which names a queue knows.
-- ARGV 2 queue, 3 remember (ms), then digests
-- returns a digit for each: 1 known, 0 not
local q, answer = open(ARGV[2], false), {}
for i = 4, #ARGV do answer[#answer + 1] = q and knows(q, ARGV[i], tonumber(ARGV[3])) and '1' or '0' end
return table.concat(answer)
