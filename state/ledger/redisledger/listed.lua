-- What reads and changes what is listed: see list.lua.
local FAR = 9000000000000000 -- a time that does not come

-- unlist takes keys, a table key → true, out of a group.
local function unlist(groups, created, group, gone)
	local keys, left = cmsgpack.unpack(group), {}
	for _, key in ipairs(keys) do
		if not gone[key] then
			left[#left + 1] = key
		end
	end
	if #left < #keys then
		redis.call('ZREM', groups, group)
		if #left > 0 then
			list(groups, created, left)
		end
	end
end

-- delist takes keys out of the groups of the times that they were created: a table key → time.
local function delist(groups, since)
	local times = {}
	for key, created in pairs(since) do
		times[created] = times[created] or {}
		times[created][key] = true
	end
	for created, gone in pairs(times) do
		for _, group in ipairs(redis.call('ZRANGEBYSCORE', groups, created, created)) do
			unlist(groups, created, group, gone)
		end
	end
end

-- above compares bytes: Lua's own comparison goes by the server's language.
local function above(a, b)
	for i = 1, math.min(#a, #b), 8 do
		local x, y = { string.byte(a, i, i + 7) }, { string.byte(b, i, i + 7) }
		for j = 1, math.min(#x, #y) do
			if x[j] ~= y[j] then
				return x[j] > y[j]
			end
		end
	end
	return #a > #b
end

local function sort(keys)
	table.sort(keys, function(a, b) return above(b, a) end)
end

-- moments reads one of the sorted sets from a time on: of each millisecond, created, keys
-- and the members that have them; whole ones, until there are enough keys. It answers
-- whether there are more.
local function moments(set, created, enough, grouped)
	local found, n, rank, last = {}, 0, redis.call('ZCOUNT', set, '-inf', '(' .. created), nil
	repeat
		local part = redis.call('ZRANGE', set, rank, rank + 31, 'WITHSCORES')
		for i = 1, #part, 2 do
			local at, keys = tonumber(part[i + 1]), grouped and cmsgpack.unpack(part[i]) or { part[i] }
			if not last or last.created ~= at then
				if n >= enough then
					return found, true
				end
				last = { created = at, keys = {}, members = {} }
				found[#found + 1] = last
			end
			for _, key in ipairs(keys) do
				last.keys[#last.keys + 1] = key
			end
			last.members[#last.members + 1] = part[i]
			n = n + #keys
		end
		rank = rank + 32
	until #part < 64
	return found, false
end

-- since reads both, as one list of moments: each has the groups and the members of order
-- that its keys are from, and each key once.
local function since(order, groups, created, enough)
	local single, more = moments(order, created, enough, false)
	local grouped, evenmore = moments(groups, created, enough, true)
	local to, found, i, j = FAR, {}, 1, 1
	if more then
		to = single[#single].created
	end
	if evenmore then
		to = math.min(to, grouped[#grouped].created)
	end
	while true do
		local s, g = single[i], grouped[j]
		local at = math.min(s and s.created or FAR, g and g.created or FAR)
		if at == FAR or at > to then
			return found, more or evenmore
		end
		local m = { created = at, keys = {}, singles = {}, groups = {} }
		local seen = {}
		local function take(keys)
			for _, key in ipairs(keys) do
				if not seen[key] then
					seen[key] = true
					m.keys[#m.keys + 1] = key
				end
			end
		end
		if s and s.created == at then
			take(s.keys)
			m.singles, i = s.members, i + 1
		end
		if g and g.created == at then
			take(g.keys)
			m.groups, j = g.members, j + 1
		end
		found[#found + 1] = m
	end
end

-- heads reads a moment's entries: key → entry; nil where it is not there, or not since then.
local function heads(entries, m)
	local found = {}
	for i = 1, #m.keys, 1000 do
		local to = math.min(#m.keys, i + 999)
		local part = redis.call('HMGET', entries, unpack(m.keys, i, to))
		for j = i, to do
			local head = part[j - i + 1]
			if head then
				local version, _, _, _, _, created = struct.unpack(TIMES, head)
				if version ~= VERSION then
					return nil, 'ERR the ledger is of version ' .. version .. ': use the newer program'
				end
				if created == m.created then
					found[m.keys[j]] = head
				end
			end
		end
	end
	return found
end
