-- check brings back active jobs whose lock has ended: their worker is dead. One of all workers
-- does it in each period. It brings back only jobs that the last check has seen active, to the
-- end of wait from which jobs are taken.
--
-- ARGV 1 how often a job may stall, 2 period (ms)
-- returns {ms until the next check, how many came back, {job, …} that stalled too often: they stay
--         active, without a lock, until they are failed}
local left = call('PTTL', base .. 'stalled-check')
if left > 0 then return {left, 0, {}} end
call('SET', base .. 'stalled-check', now, 'PX', ARGV[2])
local q = open(base)
local most, back, dead, still = tonumber(ARGV[1]), 0, {}, {}
local active = call('LRANGE', base .. 'active', 0, -1) -- the newest first
local seen = {}
for _, id in ipairs(call('SMEMBERS', base .. 'stalled')) do seen[id] = true end
call('DEL', base .. 'stalled')
local look = {}
for _, id in ipairs(active) do
  if seen[id] then look[#look + 1] = id else still[#still + 1] = id end
end
local held = locks(look)
for i, id in ipairs(look) do
  local key = base .. id
  local f = not held[i] and call('HMGET', key, unpack(FIELDS))
  if held[i] then
    still[#still + 1] = id
  elseif not f[1] then
    call('LREM', base .. 'active', 1, id) -- it was removed
  else
    local schedule = f[12] and (call('EXISTS', base .. 'repeat:' .. f[12]) == 1 or call('ZSCORE', base .. 'repeat', f[12]))
    if call('HINCRBY', key, q.stalls, 1) > most and not schedule then
      still[#still + 1] = id
      dead[#dead + 1] = told(id, f, f[2] or '0')
    else
      call('LREM', base .. 'active', 1, id)
      line(q, id, 0, 'RPUSH')
      event(q, 'waiting', id, 'prev', 'active')
      event(q, 'stalled', id)
      back = back + 1
    end
  end
end
if #still > 0 then all('SADD', base .. 'stalled', still) end
done()
return {tonumber(ARGV[2]), back, dead}
