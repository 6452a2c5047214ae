-- list shows windows. ARGV 2 a set: all, or a state; 3 ZRANGEBYSCORE or ZREVRANGEBYSCORE, 4 from,
-- 5 to, 6 how many
local answer = {}
for _, no in ipairs(call(ARGV[3], base .. ARGV[2], ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])) do
  answer[#answer + 1] = shown(no)
end
return answer
