-- KEYS: the spec. ARGV: what it was when it was read (empty: nothing), what it is to be. It returns
-- whether it is that now.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
