-- settle ends hand-outs.
-- ARGV 2… of each: number, epoch and replays ('': any holder), batch ('': any), what,
--      three numbers, kind, cause
--      D, S, R: all delivered, all skipped, or as the numbers say; X: dead; A: again after that
--      many ms, 1 if it counts a try; L: left
-- returns a digit for each: 1 applied, 2 stale
local answer = {}
for i = 2, #ARGV, 10 do
  local no, what = ARGV[i], ARGV[i + 4]
  local x, y, z = num(ARGV[i + 5]), num(ARGV[i + 6]), num(ARGV[i + 7])
  local w = no ~= '' and holds(no, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  answer[#answer + 1] = w and '1' or '2'
  local function fail()
    call('HINCRBY', of(no), 'tries', 1)
    call('HSET', of(no), 'failed', str(now), 'kind', ARGV[i + 8], 'cause', ARGV[i + 9])
  end
  if not w or what == 'L' then -- its lease runs out by itself
  elseif what == 'A' then
    if y == 1 then fail() end
    call('HSET', of(no), 'state', 'ready', 'owner', '', 'due', x > 0 and str(now + x) or '0')
    call('ZREM', base .. 'go', no)
    call('ZREM', base .. 'later', no)
    move(no, w.records, 'leased', 'ready')
    place(no)
  elseif what == 'X' then
    fail()
    call('HSET', of(no), 'state', 'parked', 'owner', '', 'due', '0')
    move(no, w.records, 'leased', 'parked')
    leave(no, w.batch)
    book('dead', w.records)
  else
    if what == 'D' then x, y, z = w.records - w.lost, 0, 0 end
    if what == 'S' then x, y, z = 0, w.records - w.lost, 0 end
    leave(no, w.batch)
    drop(no, w.records, 'leased')
    book('delivered', x)
    book('skipped', y)
    book('dead', z + w.lost)
  end
end
return table.concat(answer)
