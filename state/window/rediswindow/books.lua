-- books returns accepted, delivered, skipped, dead, and the pending records, counted in each
-- window.
local b = call('HMGET', KEYS[1], 'accepted', 'delivered', 'skipped', 'dead')
local pending = 0
for _, state in ipairs({'active', 'ready', 'leased'}) do
  for _, no in ipairs(call('ZRANGE', base .. state, 0, -1)) do pending = pending + num(call('HGET', of(no), 'records')) end
end
return {str(num(b[1])), str(num(b[2])), str(num(b[3])), str(num(b[4])), str(pending)}
