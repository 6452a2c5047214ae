-- said repeats the answer to a source's last settle.
-- ARGV 2 queue, 3 source, 4 number of the call
-- returns the answer of settle, or "": no such call
local q = open(ARGV[2], false)
if not q then return '' end
local number, answer = match(call('GET', q.k .. 'said:' .. ARGV[3]) or '', '^(%d+) (%d+)$')
if number == ARGV[4] then return answer end
return ''
