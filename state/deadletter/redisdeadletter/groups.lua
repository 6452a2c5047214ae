-- groups returns how many dead letters a pipeline has, the ids and sizes of its largest groups in
-- turn, and of each group its kind and cause, or nothing.
-- KEYS causes, then those of the pipeline: held, ready, later, books, wakes, groups, owners   ARGV how many
local there = redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local sizes = redis.call('ZREVRANGE', KEYS[7], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
if #sizes == 0 then return {there, {}, {}} end
local ids = {}
for i = 1, #sizes, 2 do ids[#ids + 1] = sizes[i] end
return {there, sizes, redis.call('HMGET', KEYS[1], unpack(ids))}
