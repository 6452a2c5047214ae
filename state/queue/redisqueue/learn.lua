-- learn reads the dictionary of a queue, after keeping the offered one if the queue has none.
-- ARGV 2 queue, 3 offer ("": none)
-- returns {dictionary, its sum}, empty: none
local q, offer, key = open(ARGV[2], ARGV[3] ~= ''), ARGV[3], base .. 'dicts'
if not q then return {'', ''} end
if offer ~= '' then call('HSETNX', key, ARGV[2], offer) end
local dict = call('HGET', key, ARGV[2])
if not dict then return {'', ''} end
local sum = sub(redis.sha1hex(dict), 1, 16)
if sum ~= q.dict then keep(q, 'dict', sum) end
done()
return {dict, sum}
