-- Removes entries that are over, in order of creation.
-- KEYS entries, payloads, order
-- ARGV created in ms, key: where the call before ended; before in ms; entries to look at, at
--      most; entries to remove, at most
-- Answers how many were removed, and the created and key where it ended, empty where there
--      is no more
local before, look, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local from = after(KEYS[3], ARGV[1], ARGV[2])
local keys = redis.call('ZRANGE', KEYS[3], from, from + look - 1)
if #keys == 0 then
	return { 0, '', '' }
end
local heads, gone = redis.call('HMGET', KEYS[1], unpack(keys)), {}
local at, key, full = '', '', #keys == look
for i = 1, #keys do
	local version, state, cut, tries, token, created, started, mark = struct.unpack(FORM, heads[i])
	if version ~= VERSION then
		return redis.error_reply('ERR the ledger is of version ' .. version .. ': use the newer program')
	end
	if created >= before then -- what was created later cannot have ended before
		full = false
		break
	end
	at, key = text(created), keys[i]
	if state ~= HELD and mark < before then
		gone[#gone + 1] = key
		if #gone == most then
			break
		end
	end
end
if #gone > 0 then
	redis.call('HDEL', KEYS[1], unpack(gone))
	redis.call('HDEL', KEYS[2], unpack(gone))
	redis.call('ZREM', KEYS[3], unpack(gone))
end
if not full then
	at, key = '', ''
end
return { #gone, at, key }
