-- Reads a page of entries in order of creation, or back.
-- KEYS entries, payloads, groups
-- ARGV created in ms, key (back and empty: any): where the page before ended; last created in
--      ms; entries to look at, about; entries to answer, at most; tenant, type, state (empty:
--      any); 1: back
-- Answers the created (empty where there is no more) and key where this page ended; then
--      for each entry key, entry, payload
local created, last, look, most = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local tenant, kind, wanted = ARGV[6], ARGV[7], tonumber(ARGV[8])
local back = ARGV[9] == '1'
local found, more = since(KEYS[3], ARGV[1], look, back)
local answer = { '', '' }

-- behind says whether an entry comes after the page before.
local function behind(at, key)
	if back then
		return at < created or ARGV[2] == '' or above(ARGV[2], key)
	end
	return at > created or above(key, ARGV[2])
end

for _, m in ipairs(found) do
	if not back and m.created > last or back and m.created < last then
		return answer
	end
	local head, wrong = heads(KEYS[1], m)
	if wrong then
		return redis.error_reply(wrong)
	end
	sort(m.keys, back)
	for _, key in ipairs(m.keys) do
		local h = head[key]
		if h and behind(m.created, key) then
			local _, state, _, _, _, _, _, _, _, nholder, ntenant, ntype, _, _, rest = struct.unpack(FORM, h)
			local at = rest + nholder
			if (wanted == 0 or state == wanted) and (tenant == '' or string.sub(h, at, at + ntenant - 1) == tenant)
				and (kind == '' or string.sub(h, at + ntenant, at + ntenant + ntype - 1) == kind) then
				answer[#answer + 1] = key
				answer[#answer + 1] = h
				answer[#answer + 1] = redis.call('HGET', KEYS[2], key) or ''
				if #answer >= 2 + 3 * most then
					answer[1], answer[2] = text(m.created), key
					return answer
				end
			end
		end
	end
end
if more then
	answer[1] = text(found[#found].created + (back and -1 or 1))
end
return answer
