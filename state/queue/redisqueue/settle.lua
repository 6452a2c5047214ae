-- settle ends hand-outs, with their rows in the books, and adds what they forward.
--
-- ARGV 2 queue, 3 its number as sources know it ("": they do not), 4 capacity, 5 remember (ms)
--      6 epochs of hand-outs that are empty after this, with spaces between
--      7 source, 8 number of its call, 9 how long its answer is remembered (ms): a source
--      whose answer was lost asks said for it
--      10 how many settlements there are
--      11 how many runs: settlements of one hand-out and one bucket that all are the same d or s,
--         with nothing else, and each of another job. Of each: epoch, bucket, character, how
--         many, positions
--      then how many others, and of each: character, epoch, position, text, cause. The characters:
--        d s x   done: delivered, skipped, dead (x: text is its failure)
--        r       done, with a row of its own: delivered skipped dead, its fate (d s x), its failure
--        a       again: ms, counted try (0 or 1), its failure
--        l       left
--        A failure is its kind and how many bytes of the cause are kept of it.
--        epoch "": the position is 8 bytes of the digest of an ID, of any holder
--      then how many are forwarded, and of each: by which of the others, queue, digest, record
--      then dictionaries (see packed)
-- returns a digit for each settlement: 1 applied, 2 stale, 3 no room, 4 closed; one digit: all;
--      or "": nothing happened, a dictionary is not there
local q = open(ARGV[2], false)
if not q or ARGV[3] ~= '' and tostring(q.no) ~= ARGV[3] then return string.rep('2', ARGV[10]) end
if not packed() then return '' end
local capacity, remember = tonumber(ARGV[4]), tonumber(ARGV[5])
local out, late_ = q.k .. 'out', q.k .. 'late'
local took, others, at = {}, {}, 12
local count, kept = {d = 0, s = 0, x = 0}, 0

-- moment is the score of a job that is kept: when it ended, each a little after the one before.
local function moment()
  kept = kept + 1
  return string.format('%d', us + kept)
end

-- keepall keeps jobs of a run that have ended. One that was delivered when it was first handed
-- out is not late: it has nothing to say but when, which is its score.
local function keepall(code, from, to)
  local set, list, args = {}, {unpack(ARGV, from, to)}, {}
  local known = lates(q, list)
  for i, pos in ipairs(list) do
    set[2 * i - 1], set[2 * i] = moment(), pos
    if code ~= 'd' or known[i] then
      local tries, handed, _, _, was = late(known[i])
      args[#args + 1] = pos
      args[#args + 1] = lateof(tries, handed + 1, code, now, was)
    end
  end
  all('HSET', late_, args, 1000)
  all('ZADD', q.k .. 'completed', set, 1000)
  tally(q, 'completed', list[1], #list)
end

-- run ends a run as a whole, or answers false where some of it is not what it was thought to be.
local function run(epoch, b, code, from, to)
  local outs, said, n = call('HMGET', out, unpack(ARGV, from, to)), {}, {}
  local mark, since = epoch, 1 -- many have the same as the one before
  for i = 1, #outs + 1 do
    if outs[i] ~= mark then
      if mark ~= epoch then
        local o = mark and saidof(q, mark, ARGV[from + since - 1])
        if not o or o.epoch ~= epoch or q.c.ordered and o.key ~= '' then return false end
        if not n[o] then
          said[#said + 1] = o
          n[o] = 0
        end
        n[o] = n[o] + i - since
      end
      mark, since = outs[i], i
    end
  end
  for _, o in ipairs(said) do release(q, o, n[o]) end
  if q.c.limit then q.wakes = true end
  call('HDEL', out, unpack(ARGV, from, to))
  count[code], q.n.held = count[code] + #outs, q.n.held - #outs
  if q.c.completed then
    keepall(code, from, to)
  else
    call('HDEL', q.k .. 'j' .. b, unpack(ARGV, from, to))
    emptied(q, b)
    notlate(q, {unpack(ARGV, from, to)})
  end
  return true
end

for _ = 1, ARGV[11] do
  local epoch, b, code, from = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], at + 4
  local n = tonumber(ARGV[at + 3])
  local done = run(epoch, b, code, from, from + n - 1)
  for i = from, from + n - 1 do
    took[#took + 1] = '1'
    if not done then others[#others + 1] = {is = #took, code = code, epoch = epoch, pos = ARGV[i], text = '', cause = ''} end
  end
  at = from + n
end
local first = #others
for i = 1, ARGV[at] do
  local from = at + 1 + 5 * (i - 1)
  others[first + i] = {is = #took + i, code = ARGV[from], epoch = ARGV[from + 1], pos = ARGV[from + 2], text = ARGV[from + 3], cause = ARGV[from + 4]}
end
at = at + 1 + 5 * ARGV[at]
for i = 1, ARGV[at] do
  local from = at + 1 + 4 * (i - 1)
  local e = others[first + ARGV[from]]
  e.next = e.next or {}
  table.insert(e.next, {queue = ARGV[from + 1], digest = ARGV[from + 2], rec = ARGV[from + 3]})
end

-- Which jobs they are. A job is settled once in a call.
local seen, ask = {}, {}
for _, e in ipairs(others) do
  if e.epoch ~= '' then ask[#ask + 1] = e.pos end
end
local held = {}
for i = 1, #ask, 1000 do
  local part = call('HMGET', out, unpack(ask, i, min(#ask, i + 999)))
  for j = 1, #part do held[ask[i + j - 1]] = part[j] end
end

-- byid finds the oldest job of an ID that has not ended.
local function byid(id)
  periods(q, remember)
  local best
  for _, period in ipairs(q.periods) do
    local names = call('HGETALL', place(q, period, id))
    for j = 1, #names, 2 do
      local p = names[j + 1]
      if sub(names[j], 1, 8) == id and not seen[p] and (not best or tonumber(p) < tonumber(best)) and
          call('HEXISTS', bucket(q, p), p) == 1 and
          not call('ZSCORE', q.k .. 'completed', p) and not call('ZSCORE', q.k .. 'failed', p) then
        best = p
      end
    end
  end
  return best
end
for _, e in ipairs(others) do
  if e.epoch == '' then
    e.pos = byid(e.pos)
    e.out = e.pos and call('HGET', out, e.pos) or nil
  else
    local is = held[e.pos]
    if is and not seen[e.pos] and saidof(q, is, e.pos).epoch == e.epoch then e.out = is else e.pos = nil end
  end
  if e.pos then seen[e.pos] = true end
end

-- Whether forwarded jobs find room. A refused settlement stays refused for the whole call.
local refused, coming = {}, {}
local capacity, remember = tonumber(ARGV[4]), tonumber(ARGV[5])
local function fits(e, done)
  local fresh, why = {}, nil
  local more = {}
  if done then more[ARGV[2]] = -1 end
  for _, c in ipairs(e.next) do
    local to = open(c.queue, true)
    periods(to, remember, true)
    local digest = sub(c.digest, 1, 12)
    local name = c.queue .. '\0' .. digest
    if not (fresh[name] or coming[name] or known(to, digest, 1)) then
      fresh[name] = true
      more[c.queue] = (more[c.queue] or 0) + 1
      if to.c.closed then
        why = 4
      elseif refused[name] or room(to, capacity) - (to.reserved or 0) < more[c.queue] then
        why = why or 3
      end
    end
  end
  if why then
    for name in pairs(fresh) do refused[name] = true end
    return why
  end
  if done then more[ARGV[2]] = more[ARGV[2]] + 1 end -- counted when it has ended
  for name in pairs(fresh) do coming[name] = true end
  for to, k in pairs(more) do
    local t = opened[to]
    t.reserved = (t.reserved or 0) + k
  end
end

-- pull takes a job from where it waits.
local function pull(e, prio, tenant, key)
  wait(q, prio, -1)
  local flow = flowof(prio, tenant, '')
  for _, f in ipairs({flow, flow .. key}) do
    call('LREM', q.k .. 'l' .. f, 1, e.pos)
    call('ZREM', q.k .. 'b' .. f, e.pos)
  end
  settled(q, prio, tenant, '')
  if key ~= '' and (q.c.keyed or q.c.waskeyed) then settled(q, prio, tenant, key) end
  if e.code == 'a' and q.c.ordered and key ~= '' then
    if call('LREM', q.k .. 'c' .. #tenant .. ':' .. tenant .. key, 0, e.pos) > 0 then uneven(q, prio, tenant, -1) end
  end
end

-- putoff lets a job come again.
local function putoff(e, prio, tenant, key)
  local tries, handed, fate, ended, was = late(call('HGET', late_, e.pos))
  local ms, counted, said = match(e.text, '^(%d+) (%d) (.*)$')
  if e.out then handed = handed + 1 end
  if counted == '1' then
    tries, was = tries + 1, e.cause
    failure(q, e.pos, said, e.cause)
  end
  setlate(q, e.pos, tries, handed, fate, ended, was)
  ms = tonumber(ms)
  if ms > 0 then
    call('ZADD', q.k .. 'delayed', now + ms + 1, e.pos) -- now is rounded down, and early is wrong
    tally(q, 'delayed', e.pos, 1)
    q.wakes = true
  else
    due(q, e.pos, prio, tenant, key)
  end
end

-- finish ends a job for good, and lists it among those that are kept, or are not.
local ended, deleted = {}, {}
local function finish(e)
  local said = e.text
  e.fate = e.code
  if e.code == 'r' then
    local d, s, x
    d, s, x, e.fate, said = match(e.text, '^(%d+) (%d+) (%d+) (%a) (.*)$')
    count.d, count.s, count.x = count.d + d, count.s + s, count.x + x
  else
    count[e.code] = count[e.code] + 1
  end
  q.n.held = q.n.held - 1
  local keep = q.c.completed
  if e.fate == 'x' then keep = q.c.failed end
  if keep then
    if e.fate == 'x' then failure(q, e.pos, said, e.cause) end
    ended[#ended + 1] = e
  else
    deleted[#deleted + 1] = e.pos
  end
end

local gone, queues, coming_to = {}, {}, {}
for _, e in ipairs(others) do
  local done = e.code ~= 'a' and e.code ~= 'l'
  local why = not e.pos and 2 or e.next and fits(e, done)
  took[e.is] = tostring(why or 1)
  if not why then
    for _, c in ipairs(e.next or {}) do
      local to = coming_to[c.queue]
      if not to then
        to = {digests = {}, recs = {}, ats = {}}
        coming_to[c.queue] = to
        queues[#queues + 1] = c.queue
      end
      local n = #to.recs + 1
      to.digests[n], to.recs[n], to.ats[n] = sub(c.digest, 1, 12), c.rec, #c.digest > 12 and tonumber(sub(c.digest, 13)) or 0
    end
    local o = e.out and saidof(q, e.out, e.pos)
    if e.code == 'l' then
      if o and not find(o.flags, 'l', 1, true) then
        call('HSET', out, e.pos, o.epoch .. o.flags .. 'l' .. (o.tenant and '|' .. #o.tenant .. ':' .. o.tenant .. o.key or ''))
        call('ZADD', q.k .. 'leases', call('ZSCORE', q.k .. 'leases', o.epoch) or now, o.epoch .. ':' .. e.pos)
      end
    else
      -- The record is read only where it matters.
      local prio, tenant, key, _
      if o then tenant, key = o.tenant, o.key end
      if not o or e.code == 'a' then _, prio, tenant, key = head(call('HGET', bucket(q, e.pos), e.pos)) end
      if o then
        gone[#gone + 1] = e.pos
        release(q, o, 1)
      elseif not leave(q, 'delayed', e.pos) then -- it waits
        pull(e, prio, tenant, key)
      end
      if e.code == 'a' then
        putoff(e, prio, tenant, key)
      else
        finish(e)
        if q.c.ordered and key ~= '' then pass(q, e.pos, prio, tenant, key) end
      end
    end
  end
end
free(q)
all('HDEL', out, gone, 1000)
drop(q, deleted)
if #ended > 0 then
  local list, args, sets = {}, {}, {completed = {}, failed = {}}
  for i, e in ipairs(ended) do list[i] = e.pos end
  local known = lates(q, list)
  for i, e in ipairs(ended) do
    local tries, handed, _, _, was = late(known[i])
    if e.out then handed = handed + 1 end
    args[#args + 1] = e.pos
    args[#args + 1] = lateof(tries, handed, e.fate, now, e.cause == '' and was or e.cause)
    local name = e.fate == 'x' and 'failed' or 'completed'
    local set = sets[name]
    tally(q, name, e.pos, 1)
    set[#set + 1] = moment()
    set[#set + 1] = e.pos
  end
  all('HSET', late_, args, 1000)
  for name, set in pairs(sets) do all('ZADD', q.k .. name, set, 1000) end
end
if kept > 0 then forget(q) end
for _, name in ipairs(queues) do
  local to = coming_to[name]
  accept(open(name, true), to.digests, to.recs, to.ats, FAR, remember)
end
local answer = table.concat(took)
if not find(answer, '[34]') then
  local epochs = {}
  for epoch in string.gmatch(ARGV[6], '%d+') do epochs[#epochs + 1] = epoch end
  over(q, epochs)
end
q.n.delivered, q.n.skipped, q.n.dead = q.n.delivered + count.d, q.n.skipped + count.s, q.n.dead + count.x
done()
if not find(answer, '[^1]') then answer = '1' end
call('SET', q.k .. 'said:' .. ARGV[7], ARGV[8] .. ' ' .. answer, 'PX', ARGV[9])
return answer
