-- put keeps records, of any number of batch ids.
-- ARGV 2 how long data is kept (ms; 0: for ever), 3 how many batch ids, then of each:
--      batch, expected, n records, b blobs, bytes of the bodies, names, b blobs
--      names: n times the digest of a name (16 bytes) and the checksum of the record (8).
--      One argument: each costs as much as a field of a hash
-- returns a digit for each record: 1 new, 2 overwrote
local PART = 1000 -- of what a command is given at once: Lua has room for some thousands
local ttl = num(ARGV[2])
local at, answer = 4, {}

local function open(batch)
  local newest = math.max(num(call('HGET', KEYS[1], 'newest')) + 1, now)
  local no = str(newest)
  call('HSET', KEYS[1], 'newest', no)
  call('HSET', base .. 'open', batch, no)
  call('HSET', of(no), 'batch', batch, 'state', 'active', 'opened', str(now))
  call('ZADD', base .. 'all', no, no)
  call('ZADD', base .. 'active', no, no)
  call('ZADD', base .. 'starts', str(now), no)
  return no
end

local sub = string.sub

-- names are those of n records: each digest with its checksum behind it.
local function names(text, n)
  local list, at = {}, 1
  for i = 1, 2 * n, 2 do
    list[i], list[i + 1] = sub(text, at, at + 15), sub(text, at + 16, at + 23)
    at = at + 24
  end
  return list
end

-- known finds records that are there already: their places, from 1; and whether any has other
-- bytes.
local function known(index, name, n)
  local list, other = {}, false
  for i = 1, n, PART do
    local ids, last = {}, math.min(n, i + PART - 1)
    for j = i, last do ids[j - i + 1] = name[2 * j - 1] end
    local got = call('HMGET', index, unpack(ids))
    for j = i, last do
      local sum = got[j - i + 1]
      if sum then
        list[#list + 1] = j
        other = other or sum ~= name[2 * j]
      end
    end
  end
  return list, other
end

for _ = 1, num(ARGV[3]) do
  local batch, expect, n, b, bytes = ARGV[at], num(ARGV[at + 1]), num(ARGV[at + 2]), num(ARGV[at + 3]), num(ARGV[at + 4])
  local name, blob = names(ARGV[at + 5], n), at + 6
  at = blob + b
  local no = call('HGET', base .. 'open', batch)
  local was = no and call('HMGET', of(no), 'records', 'bytes', 'blobs', 'expect', 'batch') or {}
  if no and not was[5] then forget(no) end
  local fresh = not was[5]
  if fresh then no = open(batch) end
  local index, data = base .. 'i' .. no, base .. 'd' .. no
  local records, blobs = num(was[1]), num(was[3])
  if expect == 0 then expect = num(was[4]) end
  local list, other = {}, false
  if not fresh then list, other = known(index, name, n) end
  if #list == n and not other and there(no) then
    answer[#answer + 1] = string.rep('2', n) -- all of them known
    if expect > 0 then call('HSET', of(no), 'expect', str(expect)) end
  else
    for i = 1, 2 * n, 2 * PART do call('HSET', index, unpack(name, i, math.min(2 * n, i + 2 * PART - 1))) end
    for i = 1, b do call('HSET', data, str(blobs + i), ARGV[blob + i - 1]) end
    local new = n - #list
    if #list > 0 then
      -- Of a record that was there the newest blob counts.
      local moved, digits, k, past = base .. 'm' .. no, {}, 0, 0
      for i = 1, n do digits[i] = '1' end
      for _, j in ipairs(list) do
        digits[j] = '2'
        while j > past do
          local x, y, z = string.byte(ARGV[blob + k], 1, 3)
          k, past = k + 1, past + x + y * 256 + z * 65536
        end
        call('HSET', moved, name[2 * j - 1], str(blobs + k))
      end
      if ttl > 0 then call('PEXPIRE', moved, str(ttl)) end
      call('HSET', of(no), 'moved', 1)
      answer[#answer + 1] = table.concat(digits)
    else
      answer[#answer + 1] = string.rep('1', n)
    end
    records = records + new
    call('HSET', of(no), 'records', str(records), 'bytes', str(num(was[2]) + bytes), 'blobs', str(blobs + b), 'expect', str(expect))
    book('accepted', new)
    book('records:active', new)
    if fresh and ttl > 0 then
      call('PEXPIRE', index, str(ttl))
      call('PEXPIRE', data, str(ttl))
      call('ZADD', base .. 'renew', str(now + ttl / 2), no)
    end
  end
  if expect > 0 then
    if records >= expect then
      call('ZADD', base .. 'full', no, no)
    else
      call('ZREM', base .. 'full', no)
    end
  end
end
return table.concat(answer)
