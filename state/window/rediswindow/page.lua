-- page reads blobs of a window.
-- ARGV 2 number, 3 epoch and 4 replays of the lease it is read under, or '' for inspection,
--      5 batch ('': any), 6 first blob, 7 how many records, 8 how many bytes are enough
-- returns nothing where the lease is not the newest, or the window not there; else its
-- batch id, state, records, records lost, whether some are twice, blobs, and those read
local no, at, want, size = ARGV[2], num(ARGV[6]), num(ARGV[7]), num(ARGV[8])
if ARGV[3] ~= '' and not holds(no, ARGV[3], ARGV[4], ARGV[5]) then return {} end
local w = call('HMGET', of(no), 'batch', 'state', 'records', 'lost', 'moved', 'blobs')
if not w[1] or ARGV[5] ~= '' and w[1] ~= ARGV[5] then return {} end
local blobs = num(w[6])
local answer = {w[1], w[2], w[3] or '0', w[4] or '0', w[5] or '0', w[6] or '0'}
while at <= blobs and want > 0 and size > 0 do
  local blob = call('HGET', base .. 'd' .. no, str(at)) or ''
  if #blob >= 8 then
    local x, y, z, _, a, b, c, d = string.byte(blob, 1, 8)
    want = want - (x + y * 256 + z * 65536)
    size = size - (a + b * 256 + c * 65536 + d * 16777216)
  else
    want = want - 1 -- one that is not there
  end
  at = at + 1
  answer[#answer + 1] = blob
end
return answer
