-- adopt ends the taking over of a batch.
-- ARGV 2 batch, 3 when its window was opened (ms; 0: not known), 4 ids without data,
--      5 1 if it is to be closed
-- returns 1
local no = call('HGET', base .. 'open', ARGV[2])
book('accepted', num(ARGV[4]))
book('dead', num(ARGV[4]))
book('lost', num(ARGV[4]))
if no then
  local start = num(ARGV[3])
  if start > 0 and start < num(call('HGET', of(no), 'opened')) then
    call('HSET', of(no), 'opened', str(start))
    call('ZADD', base .. 'starts', str(start), no)
  end
  if ARGV[5] == '1' then freeze(no, 'time') end
end
return 1
