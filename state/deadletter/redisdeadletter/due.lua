-- due returns the oldest dead letters that may be handed out now, when the next may be, and the
-- newest wake: {seqs, metas, {seq, time} or {}, wake}.
-- KEYS ready, later, meta, wakes   ARGV now, how many
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, 1000)) do
  redis.call('ZREM', KEYS[2], seq)
  redis.call('ZADD', KEYS[1], seq, seq)
end
local seqs = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[2]) - 1)
local metas = {}
if #seqs > 0 then metas = redis.call('HMGET', KEYS[3], unpack(seqs)) end
local wake = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)
return {seqs, metas, redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'), wake[1] and wake[1][1] or '0-0'}
