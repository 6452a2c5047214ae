-- Opens entries, each key given once.
-- KEYS entries, payloads, groups, token
-- ARGV now (empty: the server's), lease in ms, anew, n, n keys, then for each
--      call, holder, tenant, type, print, payload
-- Answers now, then for each: its token where it is new; 0 for a conflict; otherwise
--      how (0 shut, 1 opened, 2 reopened), the entry, its payload
local now = clock(ARGV[1])
local ends, anew, n = now + tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4])
local heads = redis.call('HMGET', KEYS[1], unpack(ARGV, 5, 4 + n))
local newest, taken = tonumber(redis.call('GET', KEYS[4]) or now * 256), false
local answer, set, add, bodies = { now }, {}, {}, {}

local function open(key, head)
	set[#set + 1] = key
	set[#set + 1] = head
end

for i = 1, n do
	local key, at, head = ARGV[4 + i], 4 + n + (i - 1) * 6, heads[i]
	local call, holder, print = ARGV[at + 1], ARGV[at + 2], ARGV[at + 5]
	if not head then
		newest, taken = newest + 1, true
		open(key, struct.pack(FORM, VERSION, RUNNING, 0, 1, newest, now, now, ends, call, #holder, #ARGV[at + 3], #ARGV[at + 4], #print, 0)
			.. holder .. ARGV[at + 3] .. ARGV[at + 4] .. print)
		add[#add + 1] = key
		if #ARGV[at + 6] > 0 then
			bodies[#bodies + 1] = key
			bodies[#bodies + 1] = ARGV[at + 6]
		end
		answer[i + 1] = newest
	else
		local version, state, cut, tries, token, created, started, mark, called, nholder, ntenant, ntype, nprint, nerr, rest = struct.unpack(FORM, head)
		if version ~= VERSION then
			return redis.error_reply('ERR the ledger is of version ' .. version .. ': use the newer program')
		end
		local middle = rest + nholder -- where tenant, type and print begin
		local kept = string.sub(head, middle + ntenant + ntype, middle + ntenant + ntype + nprint - 1)
		local how = 0
		if nprint > 0 and #print > 0 and kept ~= print then
			how = nil
		elseif state == RUNNING then
			if call ~= NOCALL and called == call then
				how = 2
				open(key, struct.pack(FORM, version, state, cut, tries, token, created, started, ends, called, nholder, ntenant, ntype, nprint, nerr) .. string.sub(head, rest))
			elseif now >= mark or nholder > 0 and string.sub(head, rest, middle - 1) == holder then
				how, cut = 1, 1
			end
		elseif state == FAILED or anew then
			how, cut = 1, 0
		end
		if how == 1 then
			newest, taken = newest + 1, true
			open(key, struct.pack(FORM, version, RUNNING, cut, tries + 1, newest, created, now, ends, call, #holder, ntenant, ntype, nprint, nerr)
				.. holder .. string.sub(head, middle))
		end
		if not how then
			answer[i + 1] = 0
		else
			if how > 0 then
				head = set[#set]
			end
			answer[i + 1] = { how, head, redis.call('HGET', KEYS[2], key) or '' }
		end
	end
end
if #set > 0 then
	redis.call('HSET', KEYS[1], unpack(set))
end
list(KEYS[3], now, add)
if #bodies > 0 then
	redis.call('HSET', KEYS[2], unpack(bodies))
end
if taken then
	redis.call('SET', KEYS[4], text(newest))
end
return answer
