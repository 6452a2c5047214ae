-- depths says what waits of each priority, and names tenants that it is of.
-- ARGV 2 queue, 3 how many tenants of each priority (0: none)
-- returns {priority, waiting, oldest (ms; -1: not known), {tenant, position of its oldest, …}, {tenant,
--         waiting, …: of those who have none}, …}
local q = open(ARGV[2], false)
if not q then return {} end
look(q)
done()
local answer, most = {}, tonumber(ARGV[3])
local uneven = most > 0 and q.c.ordered and call('HSCAN', q.k .. 'uneven', 0, 'COUNT', most)[2] or {}
local meta = call('HGETALL', q.k .. 'meta')
for i = 1, #meta, 2 do
  local p, waiting = match(meta[i], '^w(%d+)$'), tonumber(meta[i + 1])
  if p and waiting > 0 then
    local tenants, behind, seen = {}, {}, {}
    if most > 0 then
      tenants = call('ZRANGE', q.k .. 'h' .. p, 0, most - 1, 'WITHSCORES')
      for j = 1, #tenants, 2 do seen[tenants[j]] = true end
      for j = 1, #uneven, 2 do
        local of, tenant = match(uneven[j], '^(%d+):(.*)$')
        if of == p and not seen[tenant] and tonumber(uneven[j + 1]) > 0 then
          behind[#behind + 1] = tenant
          behind[#behind + 1] = tonumber(uneven[j + 1])
        end
      end
    end
    answer[#answer + 1] = tonumber(p)
    answer[#answer + 1] = waiting
    answer[#answer + 1] = addedat(q, call('ZRANGE', q.k .. 'h' .. p, 0, 0, 'WITHSCORES')[2])
    answer[#answer + 1] = tenants
    answer[#answer + 1] = behind
  end
end
return answer
