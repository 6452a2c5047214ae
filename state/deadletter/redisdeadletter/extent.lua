-- extent returns how often dead letters came, died again or went, the ID of the last entry that the
-- stream ever got, and how many it has.
-- KEYS deaths, stream
local deaths = redis.call('GET', KEYS[1]) or '0'
if redis.call('EXISTS', KEYS[2]) == 0 then return {deaths, '', 0} end
local info, of = redis.call('XINFO', 'STREAM', KEYS[2]), {}
for i = 1, #info, 2 do of[info[i]] = info[i + 1] end
return {deaths, of['last-generated-id'], of['length']}
