-- counts says how many jobs of some tenants wait in a priority.
-- ARGV 2 queue, 3 priority, 4 in how many lists to look at most, before the last, 5 tenants from here on
-- returns {waiting, …} of the first of them, of one at least: the others are to be asked for again
local answer, looked = {}, 0
local q = open(ARGV[2], false)
for i = 5, #ARGV do
  local n, more = 0, 1
  if q then n, more = waitsof(q, ARGV[3], ARGV[i]) end
  answer[#answer + 1] = n
  looked = looked + more
  if looked >= tonumber(ARGV[4]) then break end
end
return answer
