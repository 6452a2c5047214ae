-- stats counts by state: of each windows, records, when the oldest was opened; then what
-- was lost, and the time.
local answer = {}
for _, state in ipairs({'active', 'ready', 'leased', 'parked'}) do
  local first = call('ZRANGE', base .. state, 0, 0)
  answer[#answer + 1] = str(call('ZCARD', base .. state))
  answer[#answer + 1] = str(num(call('HGET', KEYS[1], 'records:' .. state)))
  answer[#answer + 1] = str(first[1] and num(call('HGET', of(first[1]), 'opened')) or 0)
end
answer[#answer + 1] = str(num(call('HGET', KEYS[1], 'lost')))
answer[#answer + 1] = str(now)
return answer
