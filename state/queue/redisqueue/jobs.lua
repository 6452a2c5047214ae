-- jobs: their records, and what has changed in jobs since they came.

-- many calls a command with positions for each bucket that they lie in.
local function many(q, command, list, each)
  local at, rest = {}, {}
  for i = 1, #list do
    local b = floor(list[i] / BUCKET)
    if not at[b] then
      at[b] = {}
      rest[#rest + 1] = b
    end
    at[b][#at[b] + 1] = list[i]
  end
  for _, b in ipairs(rest) do
    for i = 1, #at[b], 1000 do
      local part = {unpack(at[b], i, min(#at[b], i + 999))}
      each(part, call(command, q.k .. 'j' .. b, unpack(part)), b)
    end
  end
end

-- recordsof reads jobs whose positions ascend: their records, in the same order. Most lie in
-- one bucket, and cost a command and nothing else.
local function recordsof(q, list)
  local n, i, recs = #list, 1, nil
  while i <= n do
    local b = floor(list[i] / BUCKET)
    local to, after = n, n + 1 -- the last of the bucket: it is looked for by halves
    if floor(list[n] / BUCKET) ~= b then
      to = i
      while after - to > 1 do
        local mid = floor((to + after) / 2)
        if floor(list[mid] / BUCKET) == b then to = mid else after = mid end
      end
    end
    to = min(to, i + 999)
    local part = call('HMGET', q.k .. 'j' .. b, unpack(list, i, to))
    if i == 1 and to == n then return part end
    recs = recs or {}
    for j = 1, #part do recs[i + j - 1] = part[j] end
    i = to + 1
  end
  return recs or {}
end

-- records reads jobs: position → record.
local function records(q, list)
  local found = {}
  many(q, 'HMGET', list, function(part, got)
    for i = 1, #part do found[tonumber(part[i])] = got[i] end
  end)
  return found
end

-- leave takes a job out of those that are delayed, completed or failed; false: it is not.
local function leave(q, state, pos)
  if call('ZREM', q.k .. state, pos) == 0 then return false end
  tally(q, state, pos, -1)
  return true
end

-- emptied forgets a bucket that has no jobs any more, unless it is being filled.
local function emptied(q, b)
  if b < floor(q.n['end'] / BUCKET) and call('EXISTS', q.k .. 'j' .. b) == 0 then call('ZREM', q.k .. 'buckets', b) end
end

-- notlate deletes the changes and failed tries of jobs that are gone.
local function notlate(q, list)
  if call('EXISTS', q.k .. 'late') == 0 then return end
  all('HDEL', q.k .. 'late', list, 1000)
  if call('EXISTS', q.k .. 'failures') == 1 then all('HDEL', q.k .. 'failures', list, 1000) end
end

-- drop deletes jobs.
local function drop(q, list)
  if #list == 0 then return end
  many(q, 'HDEL', list, function(_, _, b) emptied(q, b) end)
  notlate(q, list)
end

-- head is what a record says of its job: added, priority, tenant, key (a digest).
--   6 bytes added (ms)  1 form  1 length of key  1 priority  2 length of tenant  tenant  key  body
local function head(rec)
  local a, b, c, d, e, f, _, kl, p, t1, t2 = byte(rec, 1, 11)
  local tl = t1 * 256 + t2
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f, p, sub(rec, 12, 11 + tl), sub(rec, 12 + tl, 11 + tl + kl)
end

-- late is what has changed in a job since it came: failed tries, hand-outs that came back, and,
-- where it has ended, its fate and when; then the cause.
local function late(text)
  if not text then return 0, 0, '', '0', '' end
  local tries, handed, fate, ended, cause = match(text, '^(%d+) (%d+) (%a?) (%d+) (.*)$')
  return tonumber(tries), tonumber(handed), fate, ended, cause
end
local function lateof(tries, handed, fate, ended, cause)
  return tries .. ' ' .. handed .. ' ' .. fate .. ' ' .. string.format('%d', ended) .. ' ' .. cause
end
local function setlate(q, pos, ...) call('HSET', q.k .. 'late', pos, lateof(...)) end

-- lates reads what has changed in jobs since they came, and the failed tries of those that have
-- some: texts by their place in the list. Jobs with failures are late.
local function lates(q, list)
  local found, fails = {}, {}
  if call('EXISTS', q.k .. 'late') == 0 then return found, fails end
  for i = 1, #list, 1000 do
    local part = call('HMGET', q.k .. 'late', unpack(list, i, min(#list, i + 999)))
    for j = 1, #part do found[i + j - 1] = part[j] or nil end
  end
  if call('EXISTS', q.k .. 'failures') == 1 then
    for i in pairs(found) do fails[i] = call('HGET', q.k .. 'failures', list[i]) or nil end
  end
  return found, fails
end

-- failure keeps a failed try, of the newest FAILURES: "count;" and of each "ms kind length
-- cause". said is its kind and how much of the cause is kept.
local FAILURES = 20
local function failure(q, pos, said, cause)
  local n, rest = match(call('HGET', q.k .. 'failures', pos) or '0;', '^(%d+);(.*)$')
  n = tonumber(n)
  while n >= FAILURES do
    local _, to, length = find(rest, '^%d+ [%a_]+ (%d+) ')
    n, rest = n - 1, sub(rest, to + length + 1)
  end
  cause = sub(cause, 1, match(said, '%d+$'))
  call('HSET', q.k .. 'failures', pos, n + 1 .. ';' .. rest .. string.format('%d', now) .. ' ' .. said .. ' ' .. cause)
end
