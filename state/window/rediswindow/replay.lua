-- replay makes parked windows ready again. ARGV 2… numbers; returns how many there were
local n = 0
for i = 2, #ARGV do
  local no = ARGV[i]
  local state, batch, records, lost = unpack(call('HMGET', of(no), 'state', 'batch', 'records', 'lost'))
  records, lost = num(records), num(lost)
  if state == 'parked' then
    n = n + 1
    if records - lost <= 0 then
      drop(no, records, 'parked') -- nothing is left of it
    else
      move(no, records, 'parked', '')
      records = records - lost
      call('HSET', of(no), 'state', 'ready', 'records', str(records), 'lost', '0', 'handed', '0', 'tries', '0', 'due', '0')
      call('HINCRBY', of(no), 'replays', 1)
      move(no, records, '', 'ready')
      book('accepted', records)
      join(no, batch)
    end
  end
end
return n
