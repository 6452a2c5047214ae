-- What all scripts share. An entry is the form below and after it holder, tenant, type,
-- print, err and the result; mark is the end of its lease while it runs, and when it ended
-- after that.
local TIMES = '<BBBI3I7I6I6I6' -- version state cut tries token created started mark
local FORM = TIMES .. 'c8HHHBH' -- call, lengths
local VERSION, RUNNING, DONE, HELD, FAILED, DROPPED = 1, 2, 3, 4, 5, 7
local NOCALL = string.rep('\0', 8)

local function text(n)
	return string.format('%.0f', n)
end

local function clock(given)
	if given ~= '' then
		return tonumber(given)
	end
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- above compares bytes: Lua's own comparison goes by the server's language.
local function above(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then
			return x > y
		end
	end
	return #a > #b
end

-- after is the rank of the first entry behind one, which need not be there any more.
local function after(order, created, key)
	local low, high = redis.call('ZCOUNT', order, '-inf', '(' .. created), redis.call('ZCOUNT', order, '-inf', created)
	while low < high do
		local middle = math.floor((low + high) / 2)
		if above(redis.call('ZRANGE', order, middle, middle)[1], key) then
			high = middle
		else
			low = middle + 1
		end
	end
	return low
end
