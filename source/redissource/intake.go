package redissource

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/queue"
)

// IntakeOptions tune an Intake; the zero value is ready to use.
type IntakeOptions struct {
	// Stream names the stream of a queue; empty for a queue that does not exist; nil: the
	// stream of the same name.
	Stream func(queue string) string
	// Capacity is how many unprocessed entries a stream may hold; 0 means 10,000,000.
	// Processed entries are deleted, so the stream's length counts.
	Capacity int
}

// Intake brings messages into streams. A name (Tenant and ID) is remembered for 24 to 36
// hours, by a digest of 96 bits that clients cannot choose. It is safe for concurrent use.
type Intake struct {
	client rueidis.Client
	o      IntakeOptions
}

var _ queue.Intake = (*Intake)(nil)

// NewIntake makes an intake; it sends nothing to Redis yet.
func NewIntake(client rueidis.Client, o IntakeOptions) *Intake {
	if o.Stream == nil {
		o.Stream = func(queue string) string { return queue }
	}
	if o.Capacity <= 0 {
		o.Capacity = 10_000_000
	}
	return &Intake{client: client, o: o}
}

// Limits of one script: others have to wait until it is done.
const (
	addJobs  = 256
	addBytes = 1 << 20
)

// Add implements queue.Intake. A stream cannot hold a job back: Add refuses a job with a
// future time (At).
func (in *Intake) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if added != nil && len(added) < len(jobs) {
		return tidemill.Fail(tidemill.Internal, "add %d jobs: there is room for %d answers", len(jobs), len(added))
	}
	for _, m := range jobs {
		if err := queue.Check(m); err != nil {
			return err
		}
		if in.o.Stream(m.To) == "" {
			return tidemill.Fail(tidemill.Validation, "add job %q: there is no stream for queue %q", m.ID, m.To)
		}
		if !m.At.IsZero() && time.Until(m.At) > 0 {
			return tidemill.Fail(tidemill.Validation, "add job %q to queue %q: a stream cannot hold it back until %v", m.ID, m.To, m.At)
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	var full string
	for _, p := range in.parts(jobs) {
		took, err := in.add(ctx, jobs, p)
		if err != nil {
			return err
		}
		for i, at := range p.jobs {
			a := queue.Added(took[i] - '0')
			if added != nil {
				added[at] = a
			}
			if a == queue.Full {
				full = jobs[at].To
			}
		}
	}
	if full != "" && added == nil {
		return queue.FullError(full)
	}
	return nil
}

// part is what one script adds to one stream.
type part struct {
	stream string
	jobs   []int // indexes
	bytes  int
}

// parts divides jobs by streams and limits, in their order.
func (in *Intake) parts(jobs []*tidemill.Message) []part {
	var parts []part
	open := map[string]int{} // by queue: the part that still has room
	for i, m := range jobs {
		size := len(m.Payload) + len(m.Key) + len(m.ID) + len(m.Tenant) + len(m.Type) + 64
		for _, f := range m.Header {
			size += len(f.Name) + len(f.Value) + 8
		}
		at, ok := open[m.To]
		if !ok || len(parts[at].jobs) >= addJobs || parts[at].bytes+size > addBytes {
			at = len(parts)
			open[m.To] = at
			parts = append(parts, part{stream: in.o.Stream(m.To)})
		}
		parts[at].jobs = append(parts[at].jobs, i)
		parts[at].bytes += size
	}
	return parts
}

// add runs the script for one part, and returns a digit for each job: its queue.Added.
func (in *Intake) add(ctx context.Context, jobs []*tidemill.Message, p part) (string, error) {
	tag, err := tagged(p.stream)
	if err != nil {
		return "", tidemill.Fail(tidemill.Validation, "add %d jobs: %w", len(p.jobs), err)
	}
	// The client may still write a command after its context has ended: give it memory that
	// the caller does not use any more.
	buf := make([]byte, 0, p.bytes+32*len(p.jobs))
	args := append(make([]string, 0, 2+3*len(p.jobs)), strconv.Itoa(in.o.Capacity), rememberMillis)
	for _, at := range p.jobs {
		m := jobs[at]
		from := len(buf)
		buf = appendName(buf, m)
		name := len(buf)
		buf = appendMeta(buf, m)
		meta := len(buf)
		buf = append(buf, m.Payload...)
		args = append(args, rueidis.BinaryString(buf[from:name:name]), rueidis.BinaryString(buf[name:meta:meta]), rueidis.BinaryString(buf[meta:len(buf):len(buf)]))
	}
	took, err := addScript.Exec(ctx, in.client, []string{p.stream, tag + ":known"}, args).ToString()
	if err != nil {
		return "", redisconn.Error(err, "add %d jobs to stream %q", len(p.jobs), p.stream)
	}
	if len(took) != len(p.jobs) {
		return "", fmt.Errorf("add %d jobs to stream %q: %w", len(p.jobs), p.stream, errReply)
	}
	return took, nil
}

// nameBytes is how much of a digest identifies a name: among a million million names two
// are confused with a chance of one in 150,000.
const nameBytes = 12

// appendName appends the digest of tenant and ID.
func appendName(b []byte, m *tidemill.Message) []byte {
	var room [256]byte
	text := binary.AppendUvarint(room[:0], uint64(len(m.Tenant)))
	text = append(append(text, m.Tenant...), m.ID...)
	sum := sha256.Sum256(text)
	return append(b, sum[:nameBytes]...)
}

var rememberMillis = strconv.FormatInt(queue.Remember.Milliseconds(), 10)

var addScript = rueidis.NewLuaScript(addLua)

// addLua adds jobs that are not known, as long as there is room.
//
// Names lie in hashes without values, several shards for a period, which Redis packs as lists
// while they have up to 512 names (hash-max-listpack-entries): 18 bytes a name with a million
// names. A period is half the time that names are remembered; a name is looked up in three of
// them. The number of names in one period decides how many shards the next one has.
//
//	KEYS stream known
//	ARGV capacity remember (ms), then for each job: name, meta, payload
//
// It answers a digit for each: 1 new, 2 known, 3 full.
const addLua = `
local call = redis.call
local stream, known = KEYS[1], KEYS[2]
local remember = tonumber(ARGV[2])
local room = ARGV[1] - call('XLEN', stream)
local t = call('TIME')
local at = t[1] * 1000 + math.floor(t[2] / 1000)
local length = remember / 2
local period = math.floor(at / length)

-- How many shards these periods have; 0: nothing was added.
local sizes = call('HMGET', known, 's' .. period, 's' .. period - 1, 's' .. period - 2)
if not sizes[1] then
  local names = tonumber(call('HGET', known, 'n' .. period - 1) or 0)
  local shards = 4096
  while shards < 262144 and shards * 80 < names do shards = shards * 2 end
  call('HSET', known, 's' .. period, shards)
  call('HDEL', known, 's' .. period - 3, 'n' .. period - 3)
  call('PEXPIRE', known, math.floor(4 * length))
  sizes[1] = shards
end
local function shard(age, hash)
  local size = tonumber(sizes[age + 1] or 0)
  if size > 0 then return known .. ':' .. period - age .. ':' .. hash % size end
end

local answer, fresh = {}, 0
for i = 3, #ARGV, 3 do
  local name = ARGV[i]
  local a, b, c = string.byte(name, 1, 3)
  local hash = a + b * 256 + c * 65536
  local key = shard(0, hash)
  local old1, old2 = shard(1, hash), shard(2, hash)
  local n
  if call('HEXISTS', key, name) == 1 or old1 and call('HEXISTS', old1, name) == 1 or old2 and call('HEXISTS', old2, name) == 1 then
    n = '2'
  elseif room <= 0 then
    n = '3'
  else
    n = '1'
    room = room - 1
    fresh = fresh + 1
    if call('HLEN', key) == 0 then
      call('HSET', key, name, '')
      call('PEXPIREAT', key, math.floor((period + 3) * length))
    else
      call('HSET', key, name, '')
    end
    call('XADD', stream, '*', '` + metaField + `', ARGV[i + 1], '` + payloadField + `', ARGV[i + 2])
  end
  answer[#answer + 1] = n
end
if fresh > 0 then call('HINCRBY', known, 'n' .. period, fresh) end
return table.concat(answer)
`
