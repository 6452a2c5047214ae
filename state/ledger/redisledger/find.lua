-- Reads entries by key.
-- KEYS entries, payloads
-- ARGV keys
-- Answers for each the entry and its payload, twice nil for a missing one
local heads, payloads = redis.call('HMGET', KEYS[1], unpack(ARGV)), redis.call('HMGET', KEYS[2], unpack(ARGV))
local answer = {}
for i = 1, #ARGV do
	answer[2 * i - 1], answer[2 * i] = heads[i], payloads[i]
end
return answer
