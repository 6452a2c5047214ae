-- A part of a script of another role (see beside.lua of redisqueue): keeps entries that are
-- done as soon as they begin. Their names are keys.
-- KEYS 2 entries, 3 groups, 4 token
-- ARGV now (empty: as that script has it); of each entry all of it behind its times
local now
known = function(own, names, n, time)
	now = tonumber(ARGV[own]) or time
	if n <= 1000 then
		return redis.call('HMGET', KEYS[2], unpack(ARGV, names, names + n - 1))
	end
	local heads = {}
	for i = 0, n - 1, 1000 do
		for _, head in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, names + i, names + math.min(i + 1000, n) - 1))) do
			heads[#heads + 1] = head
		end
	end
	return heads
end

keep = function(names, texts, n, no)
	local newest = now * 256 + 1
	local token = tonumber(redis.call('SET', KEYS[4], text(newest), 'GET') or 0)
	if token >= newest then
		newest = token + 1
		redis.call('SET', KEYS[4], text(newest))
	end
	local head = struct.pack(TIMES, VERSION, DONE, 0, 1, newest, now, now, now)
	local keys, set, k = {}, {}, 0
	for i = 0, n - 1 do
		if not no or not no[i + 1] then
			local key = ARGV[names + i]
			k = k + 1
			keys[k], set[2 * k - 1], set[2 * k] = key, key, head .. ARGV[texts + i]
		end
	end
	for i = 1, #set, 1000 do
		redis.call('HSET', KEYS[2], unpack(set, i, math.min(#set, i + 999)))
	end
	list(KEYS[3], now, keys)
end
