#!lua flags=allow-oom
-- common: what all scripts know of a BullMQ queue.
--
-- KEYS[1] <prefix>:<queue>:meta; every other key of the queue is named from it, in its slot
--
--   wait, paused     lists of ids: pushed on the left, taken on the right. 5.x renames wait to
--                    paused while the queue is paused; 6.x leaves wait where it is
--   prioritized      sorted set: priority × 2^32 + a count of pc. Taken after wait, the lowest first
--   delayed          sorted set: when it is due (ms) × 4096 + an order within that millisecond
--   active           list of ids that are out; stalled: a set of those seen there by the last check
--   completed,failed sorted sets by when it ended (ms)
--   <id>             hash: name, data, opts (JSON), timestamp, delay, priority, ats (times started),
--                    atm (attempts made), processedOn, pb (who), finishedOn, returnvalue, failedReason,
--                    stacktrace (a JSON array), stc (times stalled; stalledCounter before 5.53),
--                    defa (the failure that the next worker is to give it; from 5.53 on),
--                    parentKey, parent (JSON), rjk (its schedule), deid (its deduplication),
--                    nrjid (5.x: the next iteration of its schedule); ours: tidemill-failed (how often
--                    it was failed for good, which Job.retry leaves there)
--   <id>:lock        the token of who works on it, for as long as the lock lasts
--   <id>:dependencies, :processed, :failed, :unsuccessful   of a parent: its children by how they are
--   meta             hash: paused, concurrency (of all workers), max and duration (a limit for all),
--                    version, opts.maxLenEvents
--   limiter          count of jobs started in this period; it expires with the period
--   marker           sorted set on which workers block: "0" (score 0): there is something to take,
--                    "1" (score ms): something comes due then
--   de:<id>, dn:<id> whose turn a deduplication is, and the job to add after it
--   repeat           sorted set: schedules by when their newest job is due; the id of that job ends
--                    with the same number
--   repeat:<schedule> hash of a Job Scheduler: name, data, every, offset, ic (iterations). Repeatable
--                    jobs of 5.x have none, or one without ic
--   events           stream of what happened, read by QueueEvents
local call, sub, match, find = redis.call, string.sub, string.match, string.find
local floor, min, max = math.floor, math.min, math.max
local base = sub(KEYS[1], 1, -5)
local clock = call('TIME')
local now = clock[1] * 1000 + floor(clock[2] / 1000)

local opened, order = {}, {} -- queues that this script has to do with

-- open reads what a queue says of itself.
local function open(at)
  local q = opened[at]
  if q then return q end
  local m = call('HMGET', at .. 'meta', 'paused', 'concurrency', 'max', 'duration', 'version', 'opts.maxLenEvents')
  q = {at = at, paused = m[1], limit = tonumber(m[2]), max = tonumber(m[3]), duration = tonumber(m[4]), events = tonumber(m[6]) or 10000}
  local major, minor = match(m[5] or '', ':(%d+)%.(%d+)')
  major, minor = tonumber(major) or 5, tonumber(minor) or 0
  q.six = major >= 6
  q.defers = q.six or minor >= 53
  q.stalls = q.defers and 'stc' or 'stalledCounter'
  opened[at] = q
  order[#order + 1] = q
  return q
end

-- shut says whether nothing may be taken.
local function shut(q)
  return q.paused or q.limit and call('LLEN', q.at .. 'active') >= q.limit
end

-- event tells QueueEvents of a job.
local function event(q, name, id, ...)
  if not q.trimmed then -- before, so that nothing new is trimmed
    q.trimmed = true
    call('XTRIM', q.at .. 'events', 'MAXLEN', '~', q.events)
  end
  call('XADD', q.at .. 'events', '*', 'event', name, 'jobId', id, ...)
end

-- line puts a job where it waits for its turn. While a 5.x queue is paused that is another list,
-- which replaces wait in the end: an id in wait would be lost.
local function line(q, id, priority, push)
  if priority > 0 then
    local n = call('INCR', q.at .. 'pc')
    call('ZADD', q.at .. 'prioritized', priority * 4294967296 + n % 4294967296, id)
  else
    call(push, q.at .. (q.paused and not q.six and 'paused' or 'wait'), id)
  end
  q.wakes = true
end

-- put_off makes a job come back after ms.
local function put_off(q, id, ms)
  if ms > 0 then ms = ms + 1 end -- now is rounded down, and early is wrong
  local due = now + ms
  local low = due * 4096
  local last = call('ZREVRANGEBYSCORE', q.at .. 'delayed', low + 4095, low, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  call('ZADD', q.at .. 'delayed', last and min(last + 1, low + 4095) or low, id)
  event(q, 'delayed', id, 'delay', due)
  q.later = true
end

-- promote lets wait what has come due.
local function promote(q)
  local ids = call('ZRANGEBYSCORE', q.at .. 'delayed', 0, (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)
  if #ids == 0 then return end
  call('ZREM', q.at .. 'delayed', unpack(ids))
  for i = 1, #ids do
    local key = q.at .. ids[i]
    local f = call('HMGET', key, 'timestamp', 'priority')
    if f[1] then
      line(q, ids[i], tonumber(f[2]) or 0, 'LPUSH')
      call('HSET', key, 'delay', 0)
      event(q, 'waiting', ids[i], 'prev', 'delayed')
    end
  end
end

-- add stores a new job, and lets it wait for its turn or until it is due.
local function add(q, id, name, data, text, ms, ...)
  local ok, opts = pcall(cjson.decode, text or '{}')
  if not ok or type(opts) ~= 'table' then opts = {} end
  local priority = tonumber(opts['priority']) or 0
  call('HSET', q.at .. id, 'name', name, 'data', data, 'opts', text or '{}', 'timestamp', now, 'delay', ms, 'priority', priority, ...)
  event(q, 'added', id, 'name', name)
  if ms > 0 then
    put_off(q, id, ms)
  else
    line(q, id, priority, opts['lifo'] and 'RPUSH' or 'LPUSH')
    event(q, 'waiting', id)
  end
end

-- due is when the first delayed job is, in ms, or nil.
local function due(q)
  local first = call('ZRANGE', q.at .. 'delayed', 0, 0, 'WITHSCORES')[2]
  return first and first / 4096
end

-- done wakes workers where there is something for them.
local function done()
  for _, q in ipairs(order) do
    if q.later then
      local at = due(q)
      if at then call('ZADD', q.at .. 'marker', at, '1') end
    end
    if q.wakes and not shut(q) then call('ZADD', q.at .. 'marker', 0, '0') end
  end
end

-- all calls a command with many arguments in parts: Lua has room for some thousands.
local function all(command, key, args)
  for i = 1, #args, 1000 do call(command, key, unpack(args, i, min(#args, i + 999))) end
end

-- locks reads the locks of jobs.
local function locks(ids)
  local found = {}
  for i = 1, #ids, 1000 do
    local keys = {}
    for j = i, min(#ids, i + 999) do keys[#keys + 1] = base .. ids[j] .. ':lock' end
    local part = call('MGET', unpack(keys))
    for j = 1, #part do found[i + j - 1] = part[j] end
  end
  return found
end

-- told is a job as the source is told of it.
local FIELDS = {'timestamp', 'ats', 'atm', 'name', 'data', 'opts', 'priority', 'parentKey', 'deid', 'failedReason', 'defa', 'rjk', 'tidemill-failed'}
local function told(id, f, ats)
  return {id, ats, f[3] or '0', f[4] or '', f[5] or '', f[6] or '', f[1], f[7] or '0', f[8] or '', f[9] or '', f[10] or '', f[11] or '', f[13] or '0'}
end
