-- lease hands jobs out, or says how long there will be none.
--
-- ARGV 2 queue, 3 how many, 4 lease (ms), 5 source, 6 number of its question, 7 "1": the
--      source asked this before and had no answer, 8 "1": order is needed
-- returns {number of the queue, epoch, ms to wait, last wake, positions, {record, …}, {place,
--         late, failures, …}, dictionary}, late only of jobs that changed since they came. Epoch 0:
--         no job. ms: after these none will come for this long, or until the next
--         wake; -1: nothing is to come, -2: there may be more. Or {why not}
local q = open(ARGV[2], true)
local most, length = tonumber(ARGV[3]), tonumber(ARGV[4])
if ARGV[8] == '1' and not q.c.ordered then return {'unordered'} end

local asked = q.k .. 'asked:' .. ARGV[5]
local function answer(epoch, ms, list, recs)
  local known, late, fails = {}, lates(q, list)
  for i = 1, next(late) and #list or 0 do
    if late[i] then
      known[#known + 1] = i
      known[#known + 1] = late[i]
      known[#known + 1] = fails[i] or ''
    end
  end
  return {q.no, epoch, ms, q.woke, table.concat(list, ' '), recs, known, q.dict or ''}
end
if ARGV[7] == '1' then
  local number, epoch = match(call('GET', asked) or '', '^(%d+) (%d+)$')
  if number == ARGV[6] then
    local list = {}
    for pos in string.gmatch(call('GET', q.k .. 'g' .. epoch) or '', '%d+') do
      local out = call('HGET', q.k .. 'out', pos) or ''
      if match(out, '^%d+') == epoch then
        if #list < most then list[#list + 1] = pos else putback(q, pos, saidof(q, out, pos)) end -- it asked for more then
      end
    end
    free(q)
    call('ZADD', q.k .. 'leases', 'XX', now + length, epoch)
    local at, recs = records(q, list), {}
    for i, pos in ipairs(list) do recs[i] = at[tonumber(pos)] end
    if #list > 0 then
      done()
      return answer(tonumber(epoch), -2, list, recs)
    end
  end
end

local more, nxt = look(q), FAR
local got = nothing()
local whole, at = q.c.limit, nil
if q.c.paused then
  most = 0
elseif q.gate >= 0 then
  if q.gate > now then
    most, nxt = 0, q.gate
  else
    most = min(most, q.probes - tonumber(call('HGET', q.k .. 'meta', 'probing') or 0))
  end
end
if most > 0 and whole then
  hold(q, {'q'}, {whole})
  if whole.at_once then holders.q.out = call('HLEN', q.k .. 'out') end
  most, at = allowed(holders.q, most)
  if most == 0 then again = at end
end
if most > 0 then serve(q, most, got) end

-- rest is how long nothing more will come. From now on the queue wakes sources when something
-- does.
local function rest()
  if more then return 0 end
  local function sooner(key)
    local first = call('ZRANGE', q.k .. key, 0, 0, 'WITHSCORES')[2]
    if first then nxt = min(nxt, tonumber(first)) end
  end
  sooner('leases')
  sooner('delayed')
  if q.asides ~= false then sooner('aside') end
  nxt = min(nxt, again)
  q.rests = true
  return nxt < FAR and max(0, nxt - now) or -1
end

if got.n == 0 then
  if idle(q) then more = true end
  q.wakes = false
  local ms = rest()
  done()
  return answer(0, ms, {}, {})
end

-- Epochs are the clock's milliseconds, cut to 32 bits: a Redis that lost its newest state does
-- not give them to other hand-outs. Each is given once while it is in use.
local epoch, probe = nil, ''
repeat
  q.n.epoch = max(q.n.epoch + 1, now)
  epoch = string.format('%.0f', q.n.epoch % 4294967295 + 1)
until call('EXISTS', q.k .. 'g' .. epoch) == 0
if q.gate >= 0 then
  call('HINCRBY', q.k .. 'meta', 'probing', got.n)
  probe = 'p' .. q.gated
end
if whole then charge(holders.q, got.n) end
spend(q)
-- Marks: see outof. Of those that count for tenants alone many are the same, and short.
local out, plain, at = {}, epoch .. probe, 1
local function mark(to, text)
  for i = at, to do out[2 * i - 1], out[2 * i] = got.pos[i], text end
  at = to + 1
end
if q.c.ordered or got.keys then
  local flags, c = {}, got.counted
  for n = 1, #c, 4 do
    for i = c[n], c[n + 1] do flags[i] = (flags[i] or '') .. sub(c[n + 2].id, 1, 1) end
  end
  for i = 1, got.n do
    local f, text = flags[i] or '', plain
    if q.c.ordered or f ~= '' then
      local _, _, tenant, key = head(got.rec[i])
      if not (q.c.ordered or find(f, 'k', 1, true)) then key = '' end
      if f ~= '' or key ~= '' then text = epoch .. f .. probe .. '|' .. #tenant .. ':' .. tenant .. key end
    end
    mark(i, text)
  end
else
  local c, tenants = got.counted, {}
  for n = 1, #c, 4 do
    local h = c[n + 2]
    if not h.number then
      tenants[#tenants + 1] = c[n + 3]
      h.number = #tenants
    end
    mark(c[n] - 1, plain)
    mark(c[n + 1], plain .. 'u' .. h.number)
  end
  mark(got.n, plain)
  if #tenants > 0 then call('HSET', q.k .. 'outs', epoch, cmsgpack.pack(tenants)) end
end
all('HSET', q.k .. 'out', out, 2000)
call('SET', q.k .. 'g' .. epoch, table.concat(got.pos, ' '))
call('ZADD', q.k .. 'leases', now + length, epoch)
call('SET', asked, ARGV[6] .. ' ' .. epoch, 'PX', length)
local ms = -2
if got.n < most and not more then
  q.wakes = false -- what this made ready was handed out
  ms = rest()
end
done()
return answer(tonumber(epoch), ms, got.pos, got.rec)
