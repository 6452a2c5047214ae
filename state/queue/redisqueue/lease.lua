-- lease hands jobs out, or says how long there will be none.
--
-- ARGV 2 queue, 3 how many, 4 lease (ms), 5 source, 6 number of its question, 7 "1": the
--      source asked this before and had no answer, 8 "1": order is needed
-- returns {number of the queue, epoch, ms to wait, last wake, positions, {record, …}, {place,
--         late, failures, …}}, the last of those jobs alone that are not as they came. Epoch 0:
--         there is no job. ms: after these there will be none for so long, or until the next
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
  return {q.no, epoch, ms, q.woke, table.concat(list, ' '), recs, known}
end
if ARGV[7] == '1' then
  local number, epoch = match(call('GET', asked) or '', '^(%d+) (%d+)$')
  if number == ARGV[6] then
    local list = {}
    for pos in string.gmatch(call('GET', q.k .. 'g' .. epoch) or '', '%d+') do
      if match(call('HGET', q.k .. 'out', pos) or '', '^%d+') == epoch then list[#list + 1] = pos end
    end
    call('ZADD', q.k .. 'leases', 'XX', now + length, epoch)
    local at, recs = records(q, list), {}
    for i, pos in ipairs(list) do recs[i] = at[tonumber(pos)] end
    if #list > 0 then return answer(tonumber(epoch), -2, list, recs) end
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
  most, at = allowed(q, whole, 'q', most)
  if most == 0 then again = at end
end
if most > 0 then serve(q, most, got) end

-- rest is how long there will be nothing more. From now on it says so when something comes.
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
  q.wakes = false
  local ms = rest()
  done()
  return answer(0, ms, {}, {})
end

q.n.epoch = q.n.epoch % 4294967295 + 1
local epoch, probe = string.format('%.0f', q.n.epoch), ''
if q.gate >= 0 then
  call('HINCRBY', q.k .. 'meta', 'probing', got.n)
  probe = 'p' .. q.gated
end
charge(q, whole, 'q', got.n)
local out, said = {}, {}
for i = 1, got.n do
  local text, flags = epoch, got.flags[i]
  if q.c.ordered or flags and find(flags, 'k', 1, true) then
    local _, _, tenant, key = head(got.rec[i])
    if flags or probe ~= '' or key ~= '' then
      text = epoch .. (flags or '') .. probe .. '|' .. #tenant .. ':' .. tenant .. key
    end
  elseif flags then
    local tenant = got.of[i]
    text = said[tenant]
    if not text then
      text = epoch .. flags .. probe .. '|' .. #tenant .. ':' .. tenant
      said[tenant] = text
    end
  elseif probe ~= '' then
    text = epoch .. probe .. '|0:'
  end
  out[2 * i - 1], out[2 * i] = got.pos[i], text
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
return answer(q.n.epoch, ms, got.pos, got.rec)
