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

