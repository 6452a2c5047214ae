package redissource

// lookFunc returns what a read must know: ms until the gate lets probes out (-1: it is
// open), probes, ms until the next entry comes due (-1: nothing is delayed).
const lookFunc = `
local function look(gate_key, due)
  local wait, probes, coming = -1, 0, -1
  local gate = call('HMGET', gate_key, 'until', 'probes')
  local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if gate[1] or first[2] then
    local at = now()
    if gate[1] then wait, probes = math.max(0, gate[1] - at), tonumber(gate[2]) end
    if first[2] then coming = math.max(0, first[2] - at) end
  end
  return wait, probes, coming
end
`

// lookLua answers what look sees.
//
//	KEYS gate due
const lookLua = `return {look(KEYS[1], KEYS[2])}`

// readLua reads new entries and packs them into few strings: answers of XREADGROUP as
// MessagePack. A few large entries must not fill the memory: the size
// of the first ones says how many more are read.
//
//	KEYS stream gate due
//	ARGV group consumer most bytes
//
// It answers what look sees, and the strings.
const readLua = `
local most, room = tonumber(ARGV[3]), tonumber(ARGV[4])
local pages, n, size, count = {}, 0, 0, 32
while n < most and size < room do
  count = math.min(count, most - n)
  local got = call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', count, 'STREAMS', KEYS[1], '>')
  if not got then break end
  local list = got[1][2]
  local page = cmsgpack.pack(list)
  pages[#pages + 1] = page
  n = n + #list
  size = size + #page
  if #list < count then break end
  count = math.max(1, math.floor((room - size) * n / size))
end
local wait, probes, coming = look(KEYS[2], KEYS[3])
return {wait, probes, coming, unpack(pages)}
`
