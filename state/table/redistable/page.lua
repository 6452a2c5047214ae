-- KEYS: an order, rows, version. ARGV: where it begins, where it ends, how many, back or empty.
-- It returns the version of the table, the members of the order, and their rows.
local command = 'ZRANGEBYLEX'
if ARGV[4] == 'back' then command = 'ZREVRANGEBYLEX' end
local members = redis.call(command, KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local rows = {}
for i, m in ipairs(members) do
  local high, low = string.byte(m, -2, -1)
  local n = high * 256 + low
  local key = string.gsub(string.sub(m, -n, -5), '%z\255', '\0')
  rows[i] = redis.call('HGET', KEYS[2], key)
end
return {redis.call('GET', KEYS[3]) or '0', members, rows}
