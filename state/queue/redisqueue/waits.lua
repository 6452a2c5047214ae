-- waits: how much waits.

-- waitsof is how many jobs of a tenant wait in a priority: with more than a thousand keys, at least.
-- It says too in how many lists it looked.
local function waitsof(q, p, tenant)
  local flow = flowof(p, tenant, '')
  local n, looked = call('LLEN', q.k .. 'l' .. flow) + call('ZCARD', q.k .. 'b' .. flow), 1
  if not even(q) then n = n + (call('HGET', q.k .. 'uneven', p .. ':' .. tenant) or 0) end
  if not (q.c.keyed or q.c.waskeyed) then return n, looked end
  for _, key in ipairs(call('ZRANGE', q.k .. 'H' .. p .. ':' .. tenant, 0, 999)) do
    if key ~= '' then
      n, looked = n + call('LLEN', q.k .. 'l' .. flow .. key) + call('ZCARD', q.k .. 'b' .. flow .. key), looked + 1
    end
  end
  return n, looked
end

-- addedat is when the job at a position was added, in ms; -1: there is none.
local function addedat(q, pos)
  local rec = pos and call('HGET', bucket(q, pos), pos)
  return rec and head(rec) or -1
end
