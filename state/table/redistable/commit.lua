-- KEYS: for each table its spec, rows, version, counts, then its orders. ARGV: the number of tables;
-- for each table the number of its spec, the number of its orders, the number of keys that were
-- read, and each key with its version (empty: there was no record); then for each table the number
-- of records that change, each by its key, "put" or "delete", its fields, and its old and new member
-- of each order (empty: none), the number of counters that change, and each by its name and by how
-- much. It returns 0, and changes nothing, where a record has another version, and 2 where a table
-- has another spec.
local at = 1
local function arg()
  at = at + 1
  return ARGV[at - 1]
end
local tables = tonumber(arg())
local first, last = {}, {} -- of the keys of each table
for i = 1, tables do
  first[i] = (last[i - 1] or 0) + 1
  if redis.call('GETRANGE', KEYS[first[i]], 0, 15) ~= arg() then return 2 end
  last[i] = first[i] + 3 + tonumber(arg())
  local rows = KEYS[first[i] + 1]
  for _ = 1, tonumber(arg()) do
    local key, version = arg(), arg()
    local now = redis.call('HGET', rows, key)
    if (now and string.sub(now, 1, 16) or '') ~= version then return 0 end
  end
end
for i = 1, tables do
  local rows, counts = KEYS[first[i] + 1], KEYS[first[i] + 3]
  local changes = tonumber(arg())
  local version
  if changes > 0 then version = string.format('%016x', redis.call('INCR', KEYS[first[i] + 2])) end
  for _ = 1, changes do
    local key, verb, fields = arg(), arg(), arg()
    if verb == 'put' then
      redis.call('HSET', rows, key, version .. fields)
    else
      redis.call('HDEL', rows, key)
    end
    for order = first[i] + 4, last[i] do
      local old, new = arg(), arg()
      if old ~= new then
        if old ~= '' then redis.call('ZREM', KEYS[order], old) end
        if new ~= '' then redis.call('ZADD', KEYS[order], 0, new) end
      end
    end
  end
  for _ = 1, tonumber(arg()) do
    local name = arg()
    if redis.call('HINCRBY', counts, name, arg()) == 0 then redis.call('HDEL', counts, name) end
  end
end
return 1
