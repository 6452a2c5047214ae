-- Functions that read and change the lists: see list.lua.

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

local function sort(keys, back)
	table.sort(keys, function(a, b)
		if back then
			a, b = b, a
		end
		return above(b, a)
	end)
end

-- since reads moments from a time on, or back from it: of each millisecond, created, its keys
-- and the groups that have them; whole ones, until there are enough keys. It answers whether
-- there are more.
local function since(groups, created, enough, back)
	local found, n, range, rank, last = {}, 0, 'ZRANGE', nil, nil
	if back then
		range, rank = 'ZREVRANGE', redis.call('ZCOUNT', groups, '(' .. created, '+inf')
	else
		rank = redis.call('ZCOUNT', groups, '-inf', '(' .. created)
	end
	repeat
		local part = redis.call(range, groups, rank, rank + 31, 'WITHSCORES')
		for i = 1, #part, 2 do
			local at, keys = tonumber(part[i + 1]), cmsgpack.unpack(part[i])
			if not last or last.created ~= at then
				if n >= enough then
					return found, true
				end
				last = { created = at, keys = {}, groups = {} }
				found[#found + 1] = last
			end
			for _, key in ipairs(keys) do
				last.keys[#last.keys + 1] = key
			end
			last.groups[#last.groups + 1] = part[i]
			n = n + #keys
		end
		rank = rank + 32
	until #part < 64
	return found, false
end

-- heads reads a moment's entries: key → entry; nil where somebody removed it by hand.
local function heads(entries, m)
	local found = {}
	for i = 1, #m.keys, 1000 do
		local to = math.min(#m.keys, i + 999)
		local part = redis.call('HMGET', entries, unpack(m.keys, i, to))
		for j = i, to do
			local head = part[j - i + 1]
			if head then
				local version = struct.unpack('<B', head)
				if version ~= VERSION then
					return nil, 'ERR the ledger is of version ' .. version .. ': use the newer program'
				end
				found[m.keys[j]] = head
			end
		end
	end
	return found
end
