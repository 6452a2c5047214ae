-- beside adds jobs of requests atomically with what a part of another role does. The part comes
-- before this, and sets
--   known(own, names, n, now) answers of each of n names, ARGV[names] on, what is known by it: a
--                             list, false for nothing. What the part is told is ARGV[own] on;
--                             now is the server's, in ms
--   keep(names, texts, n, no) keeps the texts, ARGV[texts] on, by those names, except those
--                             whose no is true; no is nil for none
--
-- KEYS[1] as of all scripts, from KEYS[2] on the part's
-- ARGV 2 capacity, 3 remember (ms), 4 how many requests, 5 how many names, 6 of each name, in
--      two bytes, which request's it is, 7 where names begin, 8 when the first and 9 when the
--      last of the jobs was added, 10 1 where a request has several jobs, 11… the part's; the
--      names; the texts; then of each queue:
--      its name, how many jobs, of each job whose it is, and of each job digest and record
--      (see add); then dictionaries (see packed)
-- returns a digit for each request, 1 it was added, 0 nothing happened, and how many jobs each
--      queue holds then, each behind a space; or "": nothing happened, a dictionary is missing
if not packed() then return '' end
local capacity, remember, requests, n, names = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local denied, short, to = nil, false, {} -- denied: requests; nil: none
local function whose(owners, i)
  local a, b = byte(owners, 2 * i - 1, 2 * i)
  return a * 256 + b
end
local function deny(r)
  denied = denied or {}
  denied[r] = true
end

local found = known(11, names, n, now)
for i = 1, n do
  if found[i] then deny(whose(ARGV[6], i)) end
end
local at, last, dated = names + 2 * n, #ARGV - 1 - 2 * ARGV[#ARGV], justnow(ARGV[8], ARGV[9])
while at < last do
  local q, jobs = open(ARGV[at], true), tonumber(ARGV[at + 1])
  local t = {q = q, n = jobs, owners = ARGV[at + 2], at = at + 3}
  to[#to + 1], at = t, at + 3 + 2 * jobs
  if q.c.closed then
    for i = 1, jobs do deny(whose(t.owners, i)) end
  end
  if ARGV[10] == '1' then -- all of a request's or none: their names are looked for before
    for i = 1, jobs do
      if knows(q, sub(ARGV[t.at + 2 * i - 2], 1, 12), remember) then deny(whose(t.owners, i)) end
    end
  end
  short = short or jobs > room(q, capacity)
end
if short then -- for some: in their order
  local more = {}
  for k, t in ipairs(to) do
    t.left = room(t.q, capacity)
    for i = 1, t.n do
      local r = whose(t.owners, i)
      more[r] = more[r] or {}
      more[r][k] = (more[r][k] or 0) + 1
    end
  end
  for r = 1, requests do
    local ok = not (denied and denied[r])
    for k, jobs in pairs(more[r] or {}) do ok = ok and jobs <= to[k].left end
    if not ok then
      deny(r)
    else
      for k, jobs in pairs(more[r] or {}) do to[k].left = to[k].left - jobs end
    end
  end
end

for _, t in ipairs(to) do
  local jobs, from, count, of = ARGV, t.at, t.n, nil
  if denied then
    jobs, from, count, of = {}, 1, 0, {}
    for i = 1, t.n do
      if not denied[whose(t.owners, i)] then
        jobs[2 * count + 1], jobs[2 * count + 2] = ARGV[t.at + 2 * i - 2], ARGV[t.at + 2 * i - 1]
        count = count + 1
        of[count] = i
      end
    end
  end
  if count > 0 then
    local took = accept(t.q, jobs, nil, nil, capacity, remember, from, count, dated)
    for i = 1, count do
      if took[i] ~= 1 then deny(whose(t.owners, of and of[i] or i)) end -- its only one: nothing happened
    end
    sweep(t.q, 2 + math.ceil(count / 40))
  end
end
local no
if denied then
  no = {}
  for i = 1, n do no[i] = denied[whose(ARGV[6], i)] end
end
keep(names, names + n, n, no)
done()
local answer = {string.rep('1', requests)}
if denied then
  for r = 1, requests do answer[r] = denied[r] and '0' or '1' end
end
for _, t in ipairs(to) do answer[#answer + 1] = string.format(' %d', t.q.n.held) end
return table.concat(answer)
