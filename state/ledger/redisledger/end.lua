-- Ends entries; a key may be given more than once.
-- KEYS entries, payloads, groups
-- ARGV now (empty: the server's), n, n keys, then for each token, state, result, err
-- Answers for each: when it ended in ms (0 where it was gone), or -1 where that is stale
local now, n = clock(ARGV[1]), tonumber(ARGV[2])
local heads = redis.call('HMGET', KEYS[1], unpack(ARGV, 3, 2 + n))
local current, changed, answer, since = {}, {}, {}, {}
for i = 1, n do
	current[ARGV[2 + i]] = heads[i]
end
for i = 1, n do
	local key, at = ARGV[2 + i], 2 + n + (i - 1) * 4
	local given, ending, head = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), current[key]
	if not head then
		answer[i] = (ending == DROPPED and given > 0) and 0 or -1
	else
		local version, state, cut, tries, token, created, started, mark, called, nholder, ntenant, ntype, nprint, nerr, rest = struct.unpack(FORM, head)
		if version ~= VERSION then
			return redis.error_reply('ERR the ledger is of version ' .. version .. ': use the newer program')
		end
		if given ~= token or state == DONE and ending ~= DONE then
			answer[i] = -1
		elseif state == DONE then
			answer[i] = mark
		else
			answer[i] = now
			if ending == DROPPED then
				current[key], since[key] = false, created
			else
				local result, err = ARGV[at + 3], ARGV[at + 4]
				current[key] = struct.pack(FORM, version, ending, cut, tries, token, created, started, now, called, nholder, ntenant, ntype, nprint, #err)
					.. string.sub(head, rest, rest + nholder + ntenant + ntype + nprint - 1) .. err .. result
			end
			changed[#changed + 1] = key
		end
	end
end
local set, gone, seen = {}, {}, {}
for _, key in ipairs(changed) do
	if not seen[key] then
		seen[key] = true
		if current[key] then
			set[#set + 1] = key
			set[#set + 1] = current[key]
		else
			gone[#gone + 1] = key
		end
	end
end
if #set > 0 then
	redis.call('HSET', KEYS[1], unpack(set))
end
if #gone > 0 then
	redis.call('HDEL', KEYS[1], unpack(gone))
	redis.call('HDEL', KEYS[2], unpack(gone))
	delist(KEYS[3], since)
end
return answer
