-- tenant says in which queues jobs of a tenant wait.
-- ARGV 2 tenant, 3 queues from here on
-- returns {which queue, waiting, oldest (ms; -1: not known), …}
local answer, tenant = {}, ARGV[2]
for i = 3, #ARGV do
  local q = open(ARGV[i], false)
  if q then
    look(q)
    local n, oldest, meta = 0, -1, call('HGETALL', q.k .. 'meta')
    for j = 1, #meta, 2 do
      local p = match(meta[j], '^w(%d+)$')
      if p and tonumber(meta[j + 1]) > 0 then
        n = n + waitsof(q, p, tenant)
        local at = addedat(q, call('ZSCORE', q.k .. 'h' .. p, tenant))
        if at >= 0 and (oldest < 0 or at < oldest) then oldest = at end
      end
    end
    if n > 0 then
      answer[#answer + 1] = i - 3
      answer[#answer + 1] = n
      answer[#answer + 1] = oldest
    end
  end
end
done()
return answer
