-- KEYS: rows, then orders. ARGV: for each record its key, its version, and its member of each order.
-- It returns the keys of those that have another version now.
local at, changed = 1, {}
while at <= #ARGV do
  local now = redis.call('HGET', KEYS[1], ARGV[at])
  if now and string.sub(now, 1, 16) == ARGV[at + 1] then
    for i = 2, #KEYS do redis.call('ZADD', KEYS[i], 0, ARGV[at + i]) end
  elseif now then
    changed[#changed + 1] = ARGV[at]
  end
  at = at + #KEYS + 1
end
return changed
