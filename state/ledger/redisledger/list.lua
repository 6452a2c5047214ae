-- How entries are found by the time they were created, for scripts that need it. The entries that
-- one script creates are one group: groups is a sorted set, by that time, of lists of keys
-- (cmsgpack).
local GROUP = 250 -- keys of a group, at most

-- list notes keys of entries that were created together.
local function list(groups, created, keys)
	for i = 1, #keys, GROUP do
		local part = keys
		if #keys > GROUP then
			part = { unpack(keys, i, math.min(#keys, i + GROUP - 1)) }
		end
		redis.call('ZADD', groups, text(created), cmsgpack.pack(part))
	end
end
