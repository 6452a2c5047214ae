package redissource

// tendLua tends a group: it renews the consumer's name, makes the group if it is gone,
// trims entries that every group has finished, finds entries that were removed without us,
// and reads the books.
//
// Where the group is the stream's only one, settled entries are deleted, so that the
// stream's length is the number of live ones:
//
//	missing = accepted - settled - lost - (length - spare)
//
// spare counts entries that were acked before this product came and cannot be trimmed yet;
// entries that others ack are missing as soon as they are trimmed. Missing entries that are
// still pending belong to a consumer, which may settle them: they are lost when they are
// taken or found idle; the others are lost now. With several groups, the entries after the
// group's position are counted instead, up to a limit.
//
//	KEYS stream books due again name
//	ARGV group consumer (empty: books only) token process (empty: take over nothing) lease drains (1 or empty) most entries to trim
//
// It answers {"taken"}, or {"ok", group is new, entries-added went back by, lost now,
// entries-added, accepted, delivered, skipped, dead, lost, pending, when the group was
// made, whether there were no books, trimmed now, whether there is more to trim}.
const tendLua = `
local stream, books, due, again = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, consumer, token, process, lease, drains = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local most = tonumber(ARGV[7])
local huge = 100000 -- entries that are counted one by one
local idle = 3600000 -- after which a consumer that has nothing is removed

local kind = call('TYPE', stream)['ok']
if kind ~= 'none' and kind ~= 'stream' then
  return redis.error_reply('WRONGTYPE the key of the stream holds a ' .. kind)
end
if consumer ~= '' then
  local holder = call('GET', KEYS[5])
  if holder and holder ~= token and (process == '' or string.sub(holder, 1, #process + 1) ~= process .. ' ') then
    return {'taken'}
  end
  call('SET', KEYS[5], token, 'PX', lease)
end

local function count(from, to, most)
  local n = 0
  while n < most do
    local page = call('XRANGE', stream, from, to, 'COUNT', 500)
    n = n + #page
    if #page < 500 then break end
    from = '(' .. page[#page][1]
  end
  return n
end
local function pending_alive()
  local n, from = 0, '-'
  while true do
    local page = call('XPENDING', stream, group, from, '+', 1000)
    for i = 1, #page do n = n + #call('XRANGE', stream, page[i][1], page[i][1]) end
    if #page < 1000 then return n end
    from = '(' .. page[#page][1]
  end
end
local function step(n, by) -- a number as a text, and one more or less
  local high, low = string.sub(n, 1, -16), tonumber(string.sub(n, -15)) + by
  if low < 0 then
    high, low = step(high, by), 999999999999999
  elseif low > 999999999999999 then
    high, low = high == '' and '1' or step(high, by), 0
  end
  if high == '' or high == '0' then return string.format('%.0f', low) end
  return high .. string.format('%015.0f', low)
end
local max = '18446744073709551615' -- of both parts of an id
local function before(id)
  local ms, seq = parts(id)
  if seq ~= '0' then return ms .. '-' .. step(seq, -1) end
  return step(ms, -1) .. '-' .. max
end
local function after(id)
  local ms, seq = parts(id)
  if seq ~= max then return ms .. '-' .. step(seq, 1) end
  return step(ms, 1) .. '-0'
end

local b = flat(call('HGETALL', books))
local base, spare = tonumber(b['base']), tonumber(b['spare'])
local new = base and 0 or 1
local settled = (b['delivered'] or 0) + (b['skipped'] or 0) + (b['dead'] or 0)
local lost = tonumber(b['lost'] or 0)
local top = tonumber(b['added'] or 0)
local added, length, g, groups = 0, 0, nil, 0
if kind == 'stream' then
  local info = flat(call('XINFO', 'STREAM', stream))
  added, length = info['entries-added'], info['length']
  g, groups = group_of(stream, group)
end

-- A stream that counts less than it did was made anew; so was one whose group is gone,
-- and that has more alive than it can have. What it had counts on.
local back, fresh = 0, 0
if base and (added < top or not g and groups == 0 and spare and added - base - settled - lost < length - spare) then
  back = math.max(1, top - added)
  base, spare, b['at'] = base - top, 0, '0'
end
if not g then
  fresh = 1
  local start = '0'
  if base and (groups > 0 or spare ~= 0) then start = b['at'] or '0' end
  call('XGROUP', 'CREATE', stream, group, start, 'MKSTREAM')
  call('DEL', due, again)
  b['made'] = now()
  call('HSET', books, 'made', b['made'])
  g, groups = group_of(stream, group)
end
local last, pending = g['last-delivered-id'], g['pending']

-- Trim what all groups are done with. What was delivered while there were several may be
-- done without being deleted; else, where there is Drain, what is not deleted is not done.
if groups > 1 and last ~= '0-0' then call('HSET', books, 'shared', last) end
local low
local all = call('XINFO', 'GROUPS', stream)
for i = 1, #all do
  local other = flat(all[i])
  local p = call('XPENDING', stream, other['name'])
  local done = p[1] > 0 and p[2] or after(other['last-delivered-id'])
  if not low or upto(done, low) then low = done end
end
if drains ~= '' and groups == 1 then
  local shared = call('HGET', books, 'shared')
  if not shared then
    low = nil
  elseif upto(after(shared), low) then
    low = after(shared)
  end
end
-- Redis removes whole nodes first, and no more of them than it may; then, where few were left, the rest of one.
local trimmed, untrimmed = 0, 0
if low then
  trimmed = call('XTRIM', stream, 'MINID', '~', low, 'LIMIT', most)
  if trimmed * 2 < most then
    trimmed = trimmed + call('XTRIM', stream, 'MINID', low)
  else
    untrimmed = 1
  end
end
length = length - trimmed
if spare then spare = math.max(0, spare - trimmed) end

-- unread is how many entries the group has not read, and whether that is exact: the shorter side of its
-- position is counted, but not for long. What Redis itself says is not exact with every version.
local function unread()
  local read = count('-', last, 1000)
  if read < 1000 then return length - read, true end
  local n = count('(' .. last, '+', huge)
  if n < huge then return n, true end
  read = count('-', last, huge)
  if read < huge then return length - read, true end
  return math.min(g['lag'] or length - read, length), false
end

-- Find what is gone.
local gone, now_lost, alive = 0, 0, 0
if groups == 1 then
  if not spare then
    local seen = length - unread()
    spare = 0
    if seen > 0 then spare = seen - pending_alive() end
    if not base then base = added - pending - (length - seen) end
  end
  local missing = added - base - settled - lost - (length - spare)
  if missing > 0 then
    gone = math.max(0, pending - (length - unread() - spare))
    now_lost = math.max(0, missing - gone)
  elseif fresh == 1 then
    base = base + missing
  end
  alive = length - spare + gone
  call('HSET', books, 'spare', spare)
else
  local n, exact = unread()
  alive = pending + n
  if not base then base = added - alive end
  local missing = added - base - settled - lost - alive
  if missing > 0 and exact then
    now_lost = missing
  elseif missing < 0 and fresh == 1 then -- what was settled already comes once more
    base = base + missing
  end
  call('HDEL', books, 'spare')
end
local at = last
local p = call('XPENDING', stream, group)
if p[1] > 0 then at = before(p[2]) end
call('HSET', books, 'base', base, 'added', added, 'at', at)
if now_lost > 0 then lost = call('HINCRBY', books, 'lost', now_lost) end

if consumer ~= '' then
  local consumers = call('XINFO', 'CONSUMERS', stream, group)
  for i = 1, #consumers do
    local c = flat(consumers[i])
    if c['pending'] == 0 and c['idle'] > idle and c['name'] ~= consumer then
      call('XGROUP', 'DELCONSUMER', stream, group, c['name'])
    end
  end
end
return {'ok', fresh, back, now_lost, added, added - base, tonumber(b['delivered'] or 0), tonumber(b['skipped'] or 0),
  tonumber(b['dead'] or 0), lost, alive, tonumber(b['made'] or 0), new, trimmed, untrimmed}
`
