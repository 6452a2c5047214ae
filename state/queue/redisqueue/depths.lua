-- depths says what waits of each priority, and of the tenants of each.
-- ARGV 2 queue, 3 how many tenants of each priority (0: none), 4 of how many of those, the deepest (0: all), where
--        jobs of one priority alone wait
-- returns {priority, waiting, oldest (ms; -1: not known), {tenant, waiting, oldest, …}, …}
local q = open(ARGV[2], false)
if not q then return {} end
look(q)
done()
local answer = {}
local behind = tonumber(ARGV[3]) > 0 and q.c.ordered and call('HSCAN', q.k .. 'uneven', 0, 'COUNT', ARGV[3])[2] or {}
local meta = call('HGETALL', q.k .. 'meta')
local levels = 0
for i = 1, #meta, 2 do
  if match(meta[i], '^w%d+$') and tonumber(meta[i + 1]) > 0 then levels = levels + 1 end
end
for i = 1, #meta, 2 do
  local p, waiting = string.match(meta[i], '^w(%d+)$'), tonumber(meta[i + 1])
  if p and waiting > 0 then
    local tenants = {}
    if tonumber(ARGV[3]) > 0 then
      local found = call('ZRANGE', q.k .. 'h' .. p, 0, ARGV[3] - 1, 'WITHSCORES')
      local seen = {}
      local deep, most = {}, levels == 1 and tonumber(ARGV[4]) or 0
      for j = 1, #found, 2 do
        seen[found[j]] = true
        deep[#deep + 1] = {found[j], waitsof(q, p, found[j]), found[j + 1]}
      end
      if most > 0 and #deep > most then
        table.sort(deep, function(a, b)
          if a[2] ~= b[2] then return a[2] > b[2] end
          return a[1] < b[1]
        end)
      end
      for j = 1, most > 0 and min(#deep, most) or #deep do
        tenants[#tenants + 1] = deep[j][1]
        tenants[#tenants + 1] = deep[j][2]
        tenants[#tenants + 1] = addedat(q, deep[j][3])
      end
      for j = 1, #behind, 2 do -- those who have nothing else that waits
        local of, tenant = string.match(behind[j], '^(%d+):(.*)$')
        if of == p and not seen[tenant] and tonumber(behind[j + 1]) > 0 then
          tenants[#tenants + 1] = tenant
          tenants[#tenants + 1] = tonumber(behind[j + 1])
          tenants[#tenants + 1] = -1
        end
      end
    end
    answer[#answer + 1] = tonumber(p)
    answer[#answer + 1] = waiting
    answer[#answer + 1] = addedat(q, call('ZRANGE', q.k .. 'h' .. p, 0, 0, 'WITHSCORES')[2])
    answer[#answer + 1] = tenants
  end
end
return answer
