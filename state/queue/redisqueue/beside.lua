-- beside adds jobs of requests in one stroke with what a part of another role does. The part
-- comes before this, and sets
--   known(at, n)  reads what it is told from ARGV[at] on, of all and then of each of n requests,
--                 and answers which of these are not to be taken: a table, request → true
--   keep(taken)   does its work for those that are: a table, request → '1' or '0'
--
-- KEYS[1] as of all scripts, from KEYS[2] on the part's
-- ARGV 2 capacity, 3 remember (ms), 4 how many requests, 5 where in ARGV their jobs begin, 6… the
--      part's; then of each request: how many jobs, and of each its queue, digest, record (see add)
-- returns a digit for each request: 1 it was taken, 0 nothing happened
local capacity, remember, n, at = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local no, taken, need, to = known(6, n), {}, {}, {}
for r = 1, n do
  local from = at + 1
  at = from + 3 * ARGV[at]
  local ok, more = not no[r], {}
  for i = from, at - 1, 3 do
    if not ok then break end
    local q = open(ARGV[i], true)
    more[q] = (more[q] or need[q] or 0) + 1
    ok = not q.c.closed and more[q] <= room(q, capacity)
  end
  taken[r] = ok and '1' or '0'
  if ok then
    for q, jobs in pairs(more) do need[q] = jobs end
    for i = from, at - 1, 3 do
      local q, name = open(ARGV[i]), ARGV[i + 1]
      local t = to[q]
      if not t then
        t = {digests = {}, recs = {}, ats = {}}
        to[q] = t
      end
      local j = #t.recs + 1
      t.digests[j], t.recs[j], t.ats[j] = sub(name, 1, 12), ARGV[i + 2], #name > 12 and tonumber(sub(name, 13)) or 0
    end
  end
end
for _, q in ipairs(order) do
  local t = to[q]
  if t then
    accept(q, t.digests, t.recs, t.ats, capacity, remember)
    sweep(q, 2 + math.ceil(#t.recs / 40))
  end
end
keep(taken)
done()
return table.concat(taken)
