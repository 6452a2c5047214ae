-- died returns dead letters of some groups, ordered by seq, between two: {seqs, metas}.
-- KEYS died, meta   ARGV from, to (16 digits each), how many, "back" or "", then the ids of the groups
local from, to, most, back = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == 'back'
local seqs = {}
for i = 5, #ARGV do
  local first, last = '(' .. ARGV[i] .. from, '(' .. ARGV[i] .. to
  local some
  if back then
    some = redis.call('ZREVRANGEBYLEX', KEYS[1], last, first, 'LIMIT', 0, most)
  else
    some = redis.call('ZRANGEBYLEX', KEYS[1], first, last, 'LIMIT', 0, most)
  end
  for _, m in ipairs(some) do seqs[#seqs + 1] = string.sub(m, -16) end
end
if #seqs == 0 then return {{}, {}} end
table.sort(seqs, function(a, b) if back then return a > b end return a < b end)
local page = {}
for i = 1, math.min(most, #seqs) do page[i] = string.format('%.0f', seqs[i]) end
return {page, redis.call('HMGET', KEYS[2], unpack(page))}
