-- settings reads them (ARGV 2 queue), or changes them if they are still the ones that were read:
-- ARGV 3 those that were read (JSON; "": none), or >version: those of the first shard, unless
--      something newer is here, 4 the new ones, 5 the same in the form of scripts, 6 "1":
--      limits changed, then the limits of tenants: name, limit, …
-- returns {settings, their form for scripts}; or their version: changed, 0: not what was read, -1: not empty
local q = open(ARGV[2], #ARGV > 2)
if not q then return {'', ''} end
local meta = q.k .. 'meta'
local m = call('HMGET', meta, 's', 'c', 'v')
if #ARGV == 2 then return {m[1] or '', m[2] or ''} end
local had, version = tonumber(m[3] or 0), tonumber(match(ARGV[3], '^>(%d+)$'))
if version and version <= had then return had end
if not version and (m[1] or '') ~= ARGV[3] then return 0 end
local was, to = q.c.ordered or false, cjson.decode(ARGV[5]).ordered or false
look(q)
if was ~= to and q.n.held > 0 then
  done()
  return -1
end
version = version or max(had + 1, now) -- by the clock: this shard alone may have lost the last ones
call('HSET', meta, 's', ARGV[4], 'c', ARGV[5], 'v', string.format('%d', version))
call('DEL', q.k .. 'named')
if ARGV[6] == '1' then call('DEL', q.k .. 'spent') end
for i = 7, #ARGV, 2 do call('HSET', q.k .. 'named', ARGV[i], ARGV[i + 1]) end
if call('EXISTS', q.k .. 'aside') == 1 then -- they are asked anew
  call('ZUNIONSTORE', q.k .. 'aside', 1, q.k .. 'aside', 'WEIGHTS', 0)
end
q.c = cjson.decode(ARGV[5])
forget(q)
q.wakes = true
done()
return version
