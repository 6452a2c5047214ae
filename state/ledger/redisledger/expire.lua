-- Removes entries that are over, in order of creation.
-- KEYS entries, payloads, groups
-- ARGV created in ms: where the call before ended; before in ms; entries to look at, about;
--      entries to remove, at most
-- Answers how many were removed, and the created where it ended, empty where there is no more
local before, look, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local found, more = since(KEYS[3], ARGV[1], look)
local removed = 0

local function remove(m, over)
	for i = 1, #over, 1000 do
		local to = math.min(#over, i + 999)
		redis.call('HDEL', KEYS[1], unpack(over, i, to))
		redis.call('HDEL', KEYS[2], unpack(over, i, to))
	end
	removed = removed + #over
end

for _, m in ipairs(found) do
	if m.created >= before then -- a later entry cannot have ended before
		return { removed, '' }
	end
	local head, wrong = heads(KEYS[1], m)
	if wrong then
		return redis.error_reply(wrong)
	end
	local over, gone = {}, {}
	for _, key in ipairs(m.keys) do
		if not head[key] then
			gone[key] = true
		else
			local _, state, _, _, _, _, _, mark = struct.unpack(TIMES, head[key])
			if state ~= HELD and mark < before then
				over[#over + 1] = key
			end
		end
	end
	local full = removed + #over > most
	if full then
		sort(over)
		over = { unpack(over, 1, most - removed) }
	end
	for _, key in ipairs(over) do
		gone[key] = true
	end
	remove(m, over)
	for _, group in ipairs(m.groups) do
		unlist(KEYS[3], m.created, group, gone)
	end
	if removed == most then
		return { removed, text(m.created) }
	end
end
return { removed, more and text(found[#found].created + 1) or '' }
