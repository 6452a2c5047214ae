-- common: what all scripts of windows share.
--
-- KEYS[1] {tag}:books; all else is named from it, on its slot (see the package comment)
-- ARGV[1] by how much the clock is ahead, in ms: 0 but in tests
local call = redis.call
local base = string.sub(KEYS[1], 1, -6)
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]

local function str(n) return string.format('%.0f', n) end
local function of(no) return base .. 'w' .. no end
local function num(s) return tonumber(s or 0) or 0 end

local function book(field, n)
  if n ~= 0 then call('HINCRBY', KEYS[1], field, str(n)) end
end

-- move takes a window from one state to another; '' is none.
local function move(no, records, from, to)
  if from == to then return end
  if from ~= '' then
    call('ZREM', base .. from, no)
    book('records:' .. from, -records)
  end
  if to ~= '' then
    call('ZADD', base .. to, no, no)
    book('records:' .. to, records)
  end
end

local woken = false
local function wake()
  if not woken then call('XADD', base .. 'wake', 'MAXLEN', 1, '*', 'w', '') end
  woken = true
end

-- place lets a window that is first in its line be handed out, now or later.
local function place(no)
  local due = num(call('HGET', of(no), 'due'))
  if due > now then
    call('ZADD', base .. 'later', str(due), no)
  else
    call('ZADD', base .. 'go', no, no)
  end
  wake()
end

-- join makes a window the last in the line of its batch id.
local function join(no, batch)
  local line = call('HGET', base .. 'lines', batch)
  if line then
    call('HSET', base .. 'lines', batch, line .. ',' .. no)
  else
    call('HSET', base .. 'lines', batch, no)
    place(no)
  end
end

-- leave takes a window out of its line; if it was the first, the next may go.
local function leave(no, batch)
  call('ZREM', base .. 'go', no)
  call('ZREM', base .. 'later', no)
  local list, first = {}, nil
  for s in string.gmatch(call('HGET', base .. 'lines', batch) or '', '%d+') do
    first = first or s
    if s ~= no then list[#list + 1] = s end
  end
  if #list == 0 then
    call('HDEL', base .. 'lines', batch)
  else
    call('HSET', base .. 'lines', batch, table.concat(list, ','))
    if first == no then place(list[1]) end
  end
end

-- drop deletes a window with its records.
local function drop(no, records, state)
  move(no, records, state, '')
  call('ZREM', base .. 'all', no)
  call('ZREM', base .. 'renew', no)
  call('UNLINK', of(no), base .. 'd' .. no, base .. 'i' .. no, base .. 'm' .. no)
end

-- there says whether a window has records.
local function there(no) return call('EXISTS', base .. 'd' .. no) == 1 end

-- gone books a window without records as dead; the caller has removed it from its line.
local function gone(no, records, lost, state)
  drop(no, records, state)
  book('dead', records)
  book('lost', records - lost)
end

-- held counts the stored records of a window whose own hash is missing.
local function held(no)
  local n = call('HLEN', base .. 'i' .. no) -- of an active one: each once
  if n > 0 then return n end
  for _, blob in ipairs(call('HKEYS', base .. 'd' .. no)) do
    local x, y, z = string.byte(call('HGET', base .. 'd' .. no, blob), 1, 3)
    if z then n = n + x + y * 256 + z * 65536 end
  end
  return n
end

-- forget deletes a window whose own hash somebody deleted: its records are booked as dead, and
-- nothing waits for it. It returns how many records these are.
local function forget(no)
  local state = 'active'
  for _, s in ipairs({'ready', 'leased', 'parked'}) do
    if call('ZSCORE', base .. s, no) then state = s end
  end
  local records = held(no)
  for _, key in ipairs({'starts', 'full', 'go', 'later'}) do call('ZREM', base .. key, no) end
  local open = call('HGETALL', base .. 'open')
  for i = 1, #open, 2 do
    if open[i + 1] == no then call('HDEL', base .. 'open', open[i]) end
  end
  local lines = call('HGETALL', base .. 'lines')
  for i = 1, #lines, 2 do
    if string.find(',' .. lines[i + 1] .. ',', ',' .. no .. ',', 1, true) then leave(no, lines[i]) end
  end
  drop(no, records, state)
  if state ~= 'parked' then book('dead', records) end
  book('lost', records)
  return records
end

-- freeze closes an active window, and says whether anything was there.
local function freeze(no, why)
  local batch, records, lost = unpack(call('HMGET', of(no), 'batch', 'records', 'lost'))
  if not batch then return false, forget(no) end
  records, lost = num(records), num(lost)
  call('HDEL', base .. 'open', batch)
  call('ZREM', base .. 'starts', no)
  call('ZREM', base .. 'full', no)
  if not there(no) then
    gone(no, records, lost, 'active')
    return false, records
  end
  call('UNLINK', base .. 'i' .. no) -- nothing is put into it any more
  call('HSET', of(no), 'state', 'ready', 'closed', str(now), 'why', why)
  move(no, records, 'active', 'ready')
  join(no, batch)
  return true, 0
end

-- holds reads a window if this is its newest hand-out, or any (epoch ''); then the batch id has
-- to be right, unless it is ''.
local function holds(no, epoch, replays, batch)
  local w = call('HMGET', of(no), 'state', 'epoch', 'replays', 'batch', 'records', 'lost')
  if w[1] ~= 'leased' then return nil end
  if epoch ~= '' and (w[2] ~= epoch or (w[3] or '0') ~= replays) then return nil end
  if batch ~= '' and w[4] ~= batch then return nil end
  return {batch = w[4], records = num(w[5]), lost = num(w[6])}
end

local FIELDS = {'batch', 'state', 'records', 'bytes', 'expect', 'lost', 'opened', 'closed', 'why', 'epoch', 'due', 'owner', 'handed', 'tries', 'replays', 'failed', 'kind', 'cause'}

-- shown is a window as it is read by programs: its number, then FIELDS.
local function shown(no)
  local w = call('HMGET', of(no), unpack(FIELDS))
  table.insert(w, 1, no)
  for i = 1, #FIELDS + 1 do w[i] = w[i] or '' end
  return w
end
