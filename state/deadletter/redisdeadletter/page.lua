-- page returns the next dead letters of a set ordered by seq: {seqs, metas}.
-- KEYS set, meta   ARGV after, up to, how many
local seqs = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
if #seqs == 0 then return {{}, {}} end
return {seqs, redis.call('HMGET', KEYS[2], unpack(seqs))}
