-- keep makes locks last longer, and takes their jobs from those that the check looks at.
--
-- ARGV 1 token, 2 lock (ms), then for each: id, hand-out
-- returns a character for each: 1 kept, 0 it is not ours any more
local ids, kept, took = {}, {}, {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local held = locks(ids)
for i = 1, #ids do
  took[i] = '0'
  if held[i] == ARGV[1] .. ':' .. ARGV[2 * i + 2] then
    took[i] = '1'
    call('PEXPIRE', base .. ids[i] .. ':lock', ARGV[2])
    kept[#kept + 1] = ids[i]
  end
end
if #kept > 0 then all('SREM', base .. 'stalled', kept) end
return table.concat(took)
