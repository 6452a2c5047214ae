-- page returns dead letters of a set ordered by seq, between two: {seqs, metas}.
-- KEYS set, meta   ARGV ZRANGEBYSCORE or ZREVRANGEBYSCORE, from, to, how many
local seqs = redis.call(ARGV[1], KEYS[1], '(' .. ARGV[2], '(' .. ARGV[3], 'LIMIT', 0, ARGV[4])
if #seqs == 0 then return {{}, {}} end
return {seqs, redis.call('HMGET', KEYS[2], unpack(seqs))}
