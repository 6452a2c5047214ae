-- whole returns dead letters with their messages, from one snapshot: for each {meta, history,
-- fields of the entry}, or {} where it is gone.
-- KEYS stream, meta, history   ARGV seqs
local found = {}
for i, seq in ipairs(ARGV) do
  local m = redis.call('HGET', KEYS[2], seq)
  if m then
    local entry = string.match(m, '^[^\n]*')
    local e = redis.call('XRANGE', KEYS[1], entry, entry)
    found[i] = {m, redis.call('HGET', KEYS[3], seq) or '', e[1] and e[1][2] or {}}
  else
    found[i] = {}
  end
end
return found
