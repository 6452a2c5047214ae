-- take makes waiting jobs active under locks: those of wait, then those of prioritized.
--
-- ARGV 1 how many, 2 token, 3 lock (ms), 4 name of the worker, 5 jobs in a period at most (empty:
--      no limit of our own), 6 the period (ms), then for each newest job of a schedule that is known:
--      its id, what to do (next: take it, and add the next iteration; end: take it, there is no next
--      one; leave: leave it to BullMQ), when the next one is (ms), when it is due (ms), its options
-- returns {how long a limit holds (ms; 0: none does), ms until the next delayed job is due (-1: there
--         is none), jobs left to BullMQ, {job, …}, {{id, schedule, when, options, now, ic, every, offset}
--         of each newest job of a schedule that is not known: it was left where it is}}
--
-- The script that takes the newest job of a schedule adds the next one: the schedule neither ends
-- nor runs twice, no matter which process dies when.
local q = open(base)
promote(q)
local most = tonumber(ARGV[1])
local function answer(limited, aside, jobs, asked)
  done()
  local at = due(q)
  return {limited, at and max(0, math.ceil(at - now)) or -1, aside, jobs, asked}
end
local plans = {}
for i = 7, #ARGV, 5 do plans[ARGV[i]] = i end

-- A limit set by hand (Queue.rateLimit) is the largest integer of JavaScript.
local limit, period = q.max or tonumber(ARGV[5]), tonumber(ARGV[6]) or q.duration
local used = tonumber(call('GET', base .. 'limiter')) or 0
if used >= 9007199254740991 or limit and used >= limit then
  local ttl = call('PTTL', base .. 'limiter')
  if ttl == 0 then call('DEL', base .. 'limiter') end
  if ttl > 0 then return answer(ttl, 0, {}, {}) end
  used = 0
end
if limit then most = min(most, max(1, limit - used)) end
if q.paused then return answer(0, 0, {}, {}) end
if q.limit then most = min(most, q.limit - call('LLEN', base .. 'active')) end

local ids, jobs, bytes, counted = {}, {}, 0, 0
local asked = {}
local aside, behind = {}, {} -- jobs of schedules: from wait, and from prioritized with their scores

-- iterate adds the job of a schedule that comes after its newest.
local function iterate(id, key, f, newest, plan)
  local new, when = sub(id, 1, -#newest - 1) .. ARGV[plan + 2], ARGV[plan + 2]
  if call('EXISTS', base .. new) == 1 then
    event(q, 'duplicated', new)
    return
  end
  local schedule = base .. 'repeat:' .. f[12]
  local h = call('HMGET', schedule, 'ic', 'name', 'data')
  call('ZADD', base .. 'repeat', when, f[12])
  call('INCR', base .. 'id')
  if h[1] then
    call('HINCRBY', schedule, 'ic', 1)
    if not q.six then call('HSET', key, 'nrjid', new) end
  end
  add(q, new, h[1] and h[2] or f[4] or '', h[1] and h[3] or f[5] or '', ARGV[plan + 4], max(0, ARGV[plan + 3] - now), 'rjk', f[12])
end

local function start(id, score)
  local key = base .. id
  local f = call('HMGET', key, unpack(FIELDS))
  if not f[1] then return end -- it was removed
  if f[12] then
    local newest = call('ZSCORE', base .. 'repeat', f[12])
    if newest and sub(id, -#newest - 1) == ':' .. newest then
      local plan = plans[id]
      if not plan or ARGV[plan + 1] == 'leave' then
        if score then
          behind[#behind + 1] = score
          behind[#behind + 1] = id
        else
          aside[#aside + 1] = id
        end
        if not plan then
          local h = call('HMGET', base .. 'repeat:' .. f[12], 'ic', 'every', 'offset')
          asked[#asked + 1] = {id, f[12], newest, f[6] or '', now, h[1] or '', h[2] or '', h[3] or ''}
        end
        return
      end
      if ARGV[plan + 1] == 'next' then iterate(id, key, f, newest, plan) end
    end
  end
  local ats = (tonumber(f[2]) or 0) + 1
  call('SET', key .. ':lock', ARGV[2] .. ':' .. ats, 'PX', ARGV[3])
  call('HSET', key, 'processedOn', now, 'ats', ats, 'pb', ARGV[4])
  event(q, 'active', id, 'prev', 'waiting')
  ids[#ids + 1] = id
  jobs[#jobs + 1] = told(id, f, ats)
  bytes = bytes + #(f[5] or '')
  if not f[11] then counted = counted + 1 end
end
-- more is how many to take now: a few at a time, so that large ones are not too much.
local function more()
  if bytes > 4194304 or #aside + #behind > 1000 then return 0 end
  return min(64, most - #ids)
end
while more() > 0 do
  local part = call('RPOP', base .. 'wait', more())
  if not part then break end
  for i = 1, #part do
    if sub(part[i], 1, 2) ~= '0:' then start(part[i]) end -- else it is a marker of BullMQ 4
  end
end
while more() > 0 do
  local part = call('ZPOPMIN', base .. 'prioritized', more())
  if #part == 0 then
    if #behind == 0 then call('DEL', base .. 'pc') end
    break
  end
  for i = 1, #part, 2 do start(part[i], part[i + 1]) end
end
for i = #aside, 1, -1 do call('RPUSH', base .. 'wait', aside[i]) end
if #behind > 0 then all('ZADD', base .. 'prioritized', behind) end
if #ids > 0 then
  all('LPUSH', base .. 'active', ids)
  if limit and counted > 0 and call('INCRBY', base .. 'limiter', counted) == counted then
    call('PEXPIRE', base .. 'limiter', floor(math.abs(period or 1000)))
  end
end
-- A worker with its fill wakes the next one.
local left = #aside + #behind / 2
if #ids > 0 and call('LLEN', base .. 'wait') + call('ZCARD', base .. 'prioritized') > left then q.wakes = true end
return answer(0, left, jobs, asked)
