-- added says when the jobs at some positions were added.
-- ARGV 2 queue, 3 positions from here on
-- returns {ms (-1: not known), …}
local answer = {}
local q = open(ARGV[2], false)
for i = 3, #ARGV do answer[#answer + 1] = q and addedat(q, ARGV[i]) or -1 end
return answer
