-- Reads a page of entries in order of creation.
-- KEYS entries, payloads, groups
-- ARGV created in ms, key: where the page before ended; last created in ms; entries to look
--      at, about; entries to answer, at most; tenant, type, state (empty: any)
-- Answers the created (empty where there is no more) and key where this page ended; then
--      for each entry key, entry, payload
local created, last, look, most = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local tenant, kind, wanted = ARGV[6], ARGV[7], tonumber(ARGV[8])
local found, more = since(KEYS[3], ARGV[1], look)
local answer = { '', '' }
for _, m in ipairs(found) do
	if m.created > last then
		return answer
	end
	local head, wrong = heads(KEYS[1], m)
	if wrong then
		return redis.error_reply(wrong)
	end
	sort(m.keys)
	for _, key in ipairs(m.keys) do
		local h = head[key]
		if h and (m.created > created or above(key, ARGV[2])) then
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
	answer[1] = text(found[#found].created + 1)
end
return answer
