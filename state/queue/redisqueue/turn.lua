-- turn lets other work than the queue's jobs through, under pause, gate and rates.
-- ARGV 2 queue, 3 tenant, 4 how many
-- returns {how many, ms until it is to be asked again (-1: until the queue is resumed)}
local q, n = open(ARGV[2], false), tonumber(ARGV[4])
if not q then return {n, 0} end
if q.c.paused then return {0, -1} end
if q.gate > now then return {0, q.gate - now} end
if n == 0 then return {0, -1} end
if q.c.limit then hold(q, {'q'}, {q.c.limit}) end
prepare(q, {ARGV[3]})
local rated = {}
for _, id in ipairs({'q', 't' .. ARGV[3]}) do
  local h = holders[id]
  if h and h.limit.each then
    h.limit = {each = h.limit.each, ahead = h.limit.ahead} -- bounds count leased jobs
    rated[#rated + 1] = h
  end
end
local at, ask = 0, n
for _, h in ipairs(rated) do
  local m, when = allowed(h, ask)
  n = min(n, m)
  if m == 0 then at = max(at, when) end
end
if n > 0 then
  for _, h in ipairs(rated) do charge(h, n) end
  spend(q)
end
done()
return {n, max(0, at - now)}
