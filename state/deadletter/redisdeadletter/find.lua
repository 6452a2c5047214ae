-- find returns for each id field the list of its dead letters as it is stored, and the seq, meta
-- and history of each: {list, seq, meta, history, …}.
-- KEYS ids, meta, history   ARGV the id fields
local found = {}
for i, id in ipairs(ARGV) do
  local list = redis.call('HGET', KEYS[1], id)
  local f = {list or ''}
  if list then
    for s in string.gmatch(list, '[^,]+') do
      f[#f + 1] = s
      f[#f + 1] = redis.call('HGET', KEYS[2], s) or ''
      f[#f + 1] = redis.call('HGET', KEYS[3], s) or ''
    end
  end
  found[i] = f
end
return found
