-- A part of a script of another role (see beside.lua of redisqueue): keeps entries that are
-- done as soon as they begin, for requests of which no entry is there.
-- KEYS 2 entries, 3 order, 4 token
-- ARGV now (empty: the server's), then of each request: how many entries, and of each its key
--      and all of it behind its times
local keys, of, behind, now = {}, {}, {}, 0
known = function(at, n)
	local first, no = {}, {}
	now, at = clock(ARGV[at]), at + 1
	for r = 1, n do
		local to = at + 2 * ARGV[at]
		for i = at + 1, to, 2 do
			local key = ARGV[i]
			keys[#keys + 1], of[#of + 1], behind[#behind + 1] = key, r, ARGV[i + 1]
			if first[key] then
				no[r] = true
			end
			first[key] = true
		end
		at = to + 1
	end
	for i = 1, #keys, 1000 do
		local heads = redis.call('HMGET', KEYS[2], unpack(keys, i, math.min(#keys, i + 999)))
		for j = 1, #heads do
			if heads[j] then
				no[of[i + j - 1]] = true
			end
		end
	end
	return no
end

keep = function(taken)
	local newest = tonumber(redis.call('GET', KEYS[4]) or now * 256) + 1
	local head, stamp = struct.pack(TIMES, VERSION, DONE, 0, 1, newest, now, now, now), text(now)
	local set, add = {}, {}
	for i = 1, #keys do
		if taken[of[i]] == '1' then
			set[#set + 1], set[#set + 2] = keys[i], head .. behind[i]
			add[#add + 1], add[#add + 2] = stamp, keys[i]
		end
	end
	for i = 1, #set, 1000 do
		local to = math.min(#set, i + 999)
		redis.call('HSET', KEYS[2], unpack(set, i, to))
		redis.call('ZADD', KEYS[3], unpack(add, i, to))
	end
	redis.call('SET', KEYS[4], text(newest))
end
