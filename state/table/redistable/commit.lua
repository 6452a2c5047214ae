-- KEYS: rows, version, counts, then the orders. ARGV: the number of keys that were read, each key
-- with its version (empty: there was no record); the number of records that change, each by its
-- key, "put" or "delete", its fields, and its old and new member of each order (empty: none);
-- the counters that change, each by its name and by how much. It returns 0, and changes nothing,
-- where a record has another version.
local at = 1
local function arg()
  at = at + 1
  return ARGV[at - 1]
end
for _ = 1, tonumber(arg()) do
  local key, version = arg(), arg()
  local now = redis.call('HGET', KEYS[1], key)
  if (now and string.sub(now, 1, 16) or '') ~= version then return 0 end
end
local changes = tonumber(arg())
local version
if changes > 0 then version = string.format('%016x', redis.call('INCR', KEYS[2])) end
for _ = 1, changes do
  local key, verb, fields = arg(), arg(), arg()
  if verb == 'put' then
    redis.call('HSET', KEYS[1], key, version .. fields)
  else
    redis.call('HDEL', KEYS[1], key)
  end
  for i = 4, #KEYS do
    local old, new = arg(), arg()
    if old ~= new then
      if old ~= '' then redis.call('ZREM', KEYS[i], old) end
      if new ~= '' then redis.call('ZADD', KEYS[i], 0, new) end
    end
  end
end
while at <= #ARGV do
  local name = arg()
  if redis.call('HINCRBY', KEYS[3], name, arg()) == 0 then redis.call('HDEL', KEYS[3], name) end
end
return 1
