-- KEYS: rows, version. ARGV: keys. It returns the version of the table, and the rows.
return {redis.call('GET', KEYS[2]) or '0', redis.call('HMGET', KEYS[1], unpack(ARGV))}
