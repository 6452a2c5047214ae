-- lease hands jobs out, or says how long there will be none.
--
-- ARGV 2 queue, 3 how many, 4 lease (ms), 5 source, 6 number of its question, 7 "1": the
--      source asked this before and had no answer, 8 "1": order is needed
-- returns {number of the queue, epoch, {position, late, record, …}} or
--         {number, 0, ms to wait (-1: nothing is to come), last wake}, or {} and why not
local q = open(ARGV[2], true)
local most, length = tonumber(ARGV[3]), tonumber(ARGV[4])
if ARGV[8] == '1' and not q.c.ordered then return {'unordered'} end

local asked = q.k .. 'asked:' .. ARGV[5]
local function answer(epoch, list, recs)
  local jobs, lates = {}, {}
  if call('EXISTS', q.k .. 'late') == 1 then
    for i = 1, #list, 1000 do
      local part = call('HMGET', q.k .. 'late', unpack(list, i, min(#list, i + 999)))
      for j = 1, #part do lates[i + j - 1] = part[j] end
    end
  end
  for i, pos in ipairs(list) do
    jobs[#jobs + 1] = pos
    jobs[#jobs + 1] = lates[i] or ''
    jobs[#jobs + 1] = recs[tonumber(pos)]
  end
  return {q.no, epoch, jobs}
end
if ARGV[7] == '1' then
  local number, epoch = match(call('GET', asked) or '', '^(%d+) (%d+)$')
  if number == ARGV[6] then
    local list = {}
    for pos in string.gmatch(call('GET', q.k .. 'g' .. epoch) or '', '%d+') do
      if match(call('HGET', q.k .. 'out', pos) or '', '^%d+') == epoch then list[#list + 1] = pos end
    end
    call('ZADD', q.k .. 'leases', 'XX', now + length, epoch)
    if #list > 0 then return answer(tonumber(epoch), list, records(q, list)) end
  end
end

local more, nxt = look(q), FAR
local got = {}
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

if #got == 0 then
  local function sooner(key)
    local first = call('ZRANGE', q.k .. key, 0, 0, 'WITHSCORES')[2]
    if first then nxt = min(nxt, tonumber(first)) end
  end
  sooner('leases')
  sooner('delayed')
  sooner('aside')
  nxt = min(nxt, again)
  q.wakes = false
  if not q.idle then keep(q, 'idle', '1') end
  done()
  local wake = call('XREVRANGE', q.k .. 'wake', '+', '-', 'COUNT', 1)[1]
  local ms = -1
  if nxt < FAR then ms = max(0, nxt - now) end
  if more then ms = 0 end
  return {q.no, 0, ms, wake and wake[1] or '0-0'}
end

q.n.epoch = q.n.epoch % 4294967295 + 1
local epoch = q.n.epoch
local out, list, recs, probe = {}, {}, {}, ''
if q.gate >= 0 then
  call('HINCRBY', q.k .. 'meta', 'probing', #got)
  probe = 'p' .. q.gated
end
charge(q, whole, 'q', #got)
for i, j in ipairs(got) do
  list[i] = j.pos
  recs[tonumber(j.pos)] = j.rec
  local text = epoch
  if j.flags ~= '' or probe ~= '' or q.c.ordered then
    local _, _, tenant, key = head(j.rec)
    text = epoch .. j.flags .. probe .. '|' .. #tenant .. ':' .. tenant .. key
  end
  out[#out + 1] = j.pos
  out[#out + 1] = text
end
all('HSET', q.k .. 'out', out, 2000)
call('SET', q.k .. 'g' .. epoch, table.concat(list, ' '))
call('ZADD', q.k .. 'leases', now + length, epoch)
call('SET', asked, ARGV[6] .. ' ' .. epoch, 'PX', length)
done()
return answer(epoch, list, recs)
