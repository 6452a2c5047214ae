-- books returns put, replayed, skipped, lost, and how many dead letters are stored.
-- KEYS held, ready, later, books
local b = {}
for i, name in ipairs({'put', 'replayed', 'skipped', 'lost'}) do b[i] = tonumber(redis.call('HGET', KEYS[4], name) or '0') end
b[5] = redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3])
return b
