-- settle ends hand-outs, with their rows in the books, and adds what they forward.
--
-- ARGV 2 queue, 3 its number as sources know it ("": they do not), 4 capacity, 5 remember (ms)
--      6 epochs of hand-outs of which nothing is left after this, with spaces between
--      7 codes: a letter for each settlement:
--        d s x   done: delivered, skipped, dead
--        r       done, with a row of its own: delivered skipped dead, and its fate (d s x)
--        a       again: ms, burnt (0 or 1)
--        l       left
--      8 how many arguments come for each settlement: 2 (epoch, position) or 4 (then text, cause)
--      9 source, 10 number of its stroke, 11 how long its answer is remembered (ms): a source
--      whose answer was lost asks said for it
--        epoch "": the position is 8 bytes of the digest of an ID, whoever holds it
--      then how many are forwarded, and of each: number of its settlement, queue, digest, record
-- returns a digit for each settlement: 1 applied, 2 stale, 3 no room, 4 closed; one digit: all
local q = open(ARGV[2], false)
local codes, each, FIRST = ARGV[7], tonumber(ARGV[8]), 12
local n = #codes
if not q or ARGV[3] ~= '' and tostring(q.no) ~= ARGV[3] then return string.rep('2', n) end

local rest = FIRST + n * each
local next_of = {}
for i = 1, ARGV[rest] do
  local at = rest + 4 * (i - 1)
  local of = tonumber(ARGV[at + 1])
  next_of[of] = next_of[of] or {}
  table.insert(next_of[of], {queue = ARGV[at + 2], digest = ARGV[at + 3], rec = ARGV[at + 4]})
end

-- Which jobs they are. A job is settled once in a call.
local pos, outs, seen = {}, {}, {}
local ask = {}
for i = 1, n do
  if ARGV[FIRST + (i - 1) * each] ~= '' then
    pos[i] = ARGV[FIRST + 1 + (i - 1) * each]
    ask[#ask + 1] = pos[i]
  end
end
local held = {}
for i = 1, #ask, 1000 do
  local part = call('HMGET', q.k .. 'out', unpack(ask, i, min(#ask, i + 999)))
  for j = 1, #part do held[ask[i + j - 1]] = part[j] end
end
for i = 1, n do
  local epoch = ARGV[FIRST + (i - 1) * each]
  if epoch ~= '' then
    local out = held[pos[i]]
    if not out or seen[pos[i]] or out ~= epoch and outof(out) ~= epoch then
      pos[i] = nil
    else
      outs[i], seen[pos[i]] = out, true
    end
  else
    periods(q, tonumber(ARGV[5]))
    local id, best = ARGV[FIRST + 1 + (i - 1) * each], nil
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
    if best then
      pos[i], seen[best] = best, true
      outs[i] = call('HGET', q.k .. 'out', best) or nil
    end
  end
end

-- Whether what is forwarded finds room. What was refused once is refused for the whole call.
local took, refused, coming = {}, {}, {}
local capacity, remember = tonumber(ARGV[4]), tonumber(ARGV[5])
local function fits(i, done)
  local fresh, why = {}, nil
  local more = {}
  if done then more[ARGV[2]] = -1 end
  for _, c in ipairs(next_of[i]) do
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

local gone, ended, deleted, count = {}, {}, {}, {d = 0, s = 0, x = 0}
local nexts = {}
for i = 1, n do
  local code = sub(codes, i, i)
  local done = code ~= 'a' and code ~= 'l'
  local p = pos[i]
  if not p then
    took[i] = '2'
  else
    local why = next_of[i] and fits(i, done)
    if why then
      took[i] = tostring(why)
    else
      took[i] = '1'
      local out = outs[i]
      local text, cause = '', ''
      if each == 4 then text, cause = ARGV[FIRST + 2 + (i - 1) * each], ARGV[FIRST + 3 + (i - 1) * each] end
      if next_of[i] then nexts[#nexts + 1] = i end
      if done then q.n.held = q.n.held - 1 end
      if code == 'l' then
        local epoch, flags, of, k = outof(out or '0')
        if out and not find(flags, 'l', 1, true) then
          call('HSET', q.k .. 'out', p, epoch .. flags .. 'l' .. (of and '|' .. #of .. ':' .. of .. k or ''))
          call('ZADD', q.k .. 'leases', call('ZSCORE', q.k .. 'leases', epoch) or now, epoch .. ':' .. p)
        end
      else
        if out then gone[#gone + 1] = p end
        -- The record is read only where it matters.
        local prio, tenant, key, _, flags
        if out then _, flags, tenant, key = outof(out) end
        if not out or code == 'a' then _, prio, tenant, key = head(call('HGET', bucket(q, p), p)) end
        if out then
          release(q, flags, tenant, key)
        elseif call('ZREM', q.k .. 'delayed', p) == 0 then -- it waits
          wait(q, prio, -1)
          local flow = flowof(prio, tenant, '')
          for _, f in ipairs({flow, flow .. key}) do
            call('LREM', q.k .. 'l' .. f, 1, p)
            call('ZREM', q.k .. 'b' .. f, p)
          end
          settled(q, prio, tenant, '')
          if key ~= '' then settled(q, prio, tenant, key) end
          if code == 'a' and q.c.ordered and key ~= '' then
            call('LREM', q.k .. 'c' .. #tenant .. ':' .. tenant .. key, 0, p)
          end
        end
        if code == 'a' then
          local tries, handed, fate, at, was = late(call('HGET', q.k .. 'late', p))
          local ms, burnt = match(text, '^(%d+) (%d)$')
          if out then handed = handed + 1 end
          if burnt == '1' then tries, was = tries + 1, cause end
          setlate(q, p, tries, handed, fate, at, was)
          ms = tonumber(ms)
          if ms > 0 then
            call('ZADD', q.k .. 'delayed', now + ms + 1, p) -- now is rounded down, and early is wrong
            q.wakes = true
          else
            due(q, p, prio, tenant, key)
          end
        else
          local fate = code
          if code == 'r' then
            local d, s, x, f = match(text, '^(%d+) (%d+) (%d+) (%a)$')
            count.d, count.s, count.x, fate = count.d + d, count.s + s, count.x + x, f
          else
            count[code] = count[code] + 1
          end
          local keep = q.c.completed
          if fate == 'x' then keep = q.c.failed end
          if keep then
            ended[#ended + 1] = {p, fate, cause, out}
          else
            deleted[#deleted + 1] = p
          end
          if q.c.ordered and key and key ~= '' then pass(q, p, tenant, key) end
        end
      end
    end
  end
end
free(q)
all('HDEL', q.k .. 'out', gone, 1000)
drop(q, deleted)
if #ended > 0 then
  local list, lates, args, kept = {}, {}, {}, {completed = {}, failed = {}}
  for i, e in ipairs(ended) do list[i] = e[1] end
  if call('EXISTS', q.k .. 'late') == 1 then lates = call('HMGET', q.k .. 'late', unpack(list)) end
  for i, e in ipairs(ended) do
    local tries, handed, _, _, was = late(lates[i])
    if e[4] then handed = handed + 1 end
    if e[3] == '' then e[3] = was end
    args[#args + 1] = e[1]
    args[#args + 1] = lateof(tries, handed, e[2], now, e[3])
    local set = kept[e[2] == 'x' and 'failed' or 'completed']
    set[#set + 1] = now * 1000 + min(i, 999)
    set[#set + 1] = e[1]
  end
  all('HSET', q.k .. 'late', args, 1000)
  for name, set in pairs(kept) do all('ZADD', q.k .. name, set, 1000) end
  forget(q)
end
for _, i in ipairs(nexts) do
  for _, c in ipairs(next_of[i]) do
    local at = 0
    if #c.digest > 12 then at = tonumber(sub(c.digest, 13)) end
    accept(open(c.queue, true), {sub(c.digest, 1, 12)}, {c.rec}, {at}, FAR, remember)
  end
end
if not find(table.concat(took), '[34]') then
  for epoch in string.gmatch(ARGV[6], '%d+') do
    call('ZREM', q.k .. 'leases', epoch)
    call('DEL', q.k .. 'g' .. epoch)
  end
end
q.n.delivered, q.n.skipped, q.n.dead = q.n.delivered + count.d, q.n.skipped + count.s, q.n.dead + count.x
done()
local answer = table.concat(took)
if not find(answer, '[^1]') then answer = '1' end
call('SET', q.k .. 'said:' .. ARGV[9], ARGV[10] .. ' ' .. answer, 'PX', ARGV[11])
return answer
