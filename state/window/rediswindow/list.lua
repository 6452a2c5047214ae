-- list shows windows. ARGV 2 a set: all, or a state; 3 after which number, 4 how many
local answer = {}
for _, no in ipairs(call('ZRANGEBYSCORE', base .. ARGV[2], '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])) do
  answer[#answer + 1] = shown(no)
end
return answer
