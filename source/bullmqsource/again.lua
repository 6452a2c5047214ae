-- again finds active jobs whose locks are ours although we do not know of them: the answer to a take
-- was lost. Their locks begin again.
--
-- ARGV 1 token, 2 lock (ms), 3 how many, then ids that we know of
-- returns {job, …}
local know, jobs = {}, {}
for i = 4, #ARGV do know[ARGV[i]] = true end
local ids = {}
for _, id in ipairs(call('LRANGE', base .. 'active', 0, -1)) do
  if not know[id] then ids[#ids + 1] = id end
end
local held = locks(ids)
for i = #ids, 1, -1 do -- the oldest first
  local ats = held[i] and sub(held[i], 1, #ARGV[1] + 1) == ARGV[1] .. ':' and sub(held[i], #ARGV[1] + 2)
  if ats and #jobs < tonumber(ARGV[3]) then
    local f = call('HMGET', base .. ids[i], unpack(FIELDS))
    if f[1] then
      call('PEXPIRE', base .. ids[i] .. ':lock', ARGV[2])
      jobs[#jobs + 1] = told(ids[i], f, ats)
    end
  end
end
return jobs
