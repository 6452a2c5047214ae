-- move changes jobs by hand.
--
-- ARGV 2 queue, 3 capacity, 4 remember (ms), 5 what: retry, promote, remove, edit; then of each job:
--      position, digest of its name, a record for it to have instead (edit: then the one that was read);
--      then dictionaries (see packed)
-- returns a digit for each: 1 changed, 0 not (any more) in a state for it, 3 full, 4 closed, 5 it is out, 6 it changed;
--      or "": nothing happened, a dictionary is not there
local q = open(ARGV[2], false)
local what = ARGV[5]
local each = what == 'edit' and 4 or 3
local answer = {}
local last = #ARGV - 1 - 2 * ARGV[#ARGV]
if not q then return string.rep('0', (last - 5) / each) end
if not packed() then return '' end
look(q)
for i = 6, last, each do
  local pos, digest = ARGV[i], ARGV[i + 1]
  local rec = call('HGET', bucket(q, pos), pos)
  local is = '0'
  if rec then
    local _, p, tenant, key = head(rec)
    local out = call('HEXISTS', q.k .. 'out', pos) == 1
    local failed, completed = call('ZSCORE', q.k .. 'failed', pos), call('ZSCORE', q.k .. 'completed', pos)
    local delayed = call('ZSCORE', q.k .. 'delayed', pos)
    if what == 'retry' and failed then
      periods(q, tonumber(ARGV[4]), true)
      if q.c.closed then
        is = '4'
      elseif room(q, tonumber(ARGV[3])) <= 0 then
        is = '3'
      else
        for j = 1, #q.periods do call('HDEL', place(q, q.periods[j], digest), digest) end
        local fails = call('HGET', q.k .. 'failures', pos)
        leave(q, 'failed', pos)
        drop(q, {pos})
        accept(q, {digest}, {string.sub(rec, 7)}, {0}, FAR, tonumber(ARGV[4]))
        if fails then -- they are kept; tries count anew
          call('HSET', q.k .. 'failures', q.n['end'], fails)
          setlate(q, q.n['end'], 0, 0, '', 0, '')
        end
        is = '1'
      end
    elseif what == 'promote' and delayed then
      leave(q, 'delayed', pos)
      due(q, pos, p, tenant, key)
      is = '1'
    elseif what == 'remove' and not out then
      if failed then
        leave(q, 'failed', pos)
        drop(q, {pos})
      elseif completed then
        leave(q, 'completed', pos)
        drop(q, {pos})
      else
        drop(q, {pos})
        if not leave(q, 'delayed', pos) then
          wait(q, p, -1)
          local first = q.c.ordered and key ~= '' and call('HGET', q.k .. 'first', #tenant .. ':' .. tenant .. key)
          if not first or tonumber(first) == tonumber(pos) then uneven(q, p, tenant, -1) end -- it is in its flow
          settled(q, p, tenant, '') -- what is gone is passed over
          if key ~= '' and (q.c.keyed or q.c.waskeyed) then settled(q, p, tenant, key) end
        end
        pass(q, pos, p, tenant, key)
        q.n.skipped, q.n.held = q.n.skipped + 1, q.n.held - 1
      end
      is = '1'
    elseif what == 'edit' and not completed then
      if out then
        is = '5'
      elseif rec ~= ARGV[i + 3] then
        is = '6'
      else
        call('HSET', bucket(q, pos), pos, ARGV[i + 2])
        is = '1'
      end
    end
  end
  answer[#answer + 1] = is
end
done()
return table.concat(answer)
