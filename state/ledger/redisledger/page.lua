-- Reads a page of entries in order of creation.
-- KEYS entries, payloads, order
-- ARGV created in ms, key: where the page before ended; last created in ms; entries to look
--      at, at most; entries to answer, at most; tenant, type, state (empty: any)
-- Answers the created and key where this page ended, empty where there is no more; then
--      for each entry key, entry, payload
local last, look, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local tenant, kind, wanted = ARGV[6], ARGV[7], tonumber(ARGV[8])
local from = after(KEYS[3], ARGV[1], ARGV[2])
local keys = redis.call('ZRANGE', KEYS[3], from, from + look - 1)
if #keys == 0 then
	return { '', '' }
end
local heads, answer = redis.call('HMGET', KEYS[1], unpack(keys)), { '', '' }
local ended = false -- before the page was full
for i, key in ipairs(keys) do
	local head = heads[i]
	local version, state, cut, tries, token, created, started, mark, called, nholder, ntenant, ntype, nprint, nerr, rest = struct.unpack(FORM, head)
	if version ~= VERSION then
		return redis.error_reply('ERR the ledger is of version ' .. version .. ': use the newer program')
	end
	if created > last then
		ended = true
		break
	end
	local at = rest + nholder
	if (wanted == 0 or state == wanted) and (tenant == '' or string.sub(head, at, at + ntenant - 1) == tenant)
		and (kind == '' or string.sub(head, at + ntenant, at + ntenant + ntype - 1) == kind) then
		answer[#answer + 1] = key
		answer[#answer + 1] = head
		answer[#answer + 1] = redis.call('HGET', KEYS[2], key) or ''
	end
	answer[1], answer[2] = text(created), key
	if #answer >= 2 + 3 * most then
		return answer
	end
end
if ended or #keys < look then
	answer[1], answer[2] = '', ''
end
return answer
