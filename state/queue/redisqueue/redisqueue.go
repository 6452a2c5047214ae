// Package redisqueue keeps queues in Redis, Valkey or a Redis Cluster: as durable as that
// is, and shared by any number of processes. Use it where several instances work on one
// queue, or where accepting jobs and working on them are separate processes.
//
// Every change of jobs is a script, for many jobs at a time, by Redis' clock: a change and
// its row in the books are atomic. A script changes a job only if the job is still in the
// state that the caller expects (and, if it is handed out, under the same lease).
//
// The layout in Redis: each queue has a number, and its keys begin with {tag}:<no>:. In
// front of them all are {tag}:queues, a hash from names to numbers, and {tag}:dicts, the
// dictionaries that payloads are compressed with.
//
//	meta             hash: positions given so far, books, counts, settings, the gate
//	j<position/1024> hash: position → record, each job's one value; buckets: a sorted set of those
//	late             hash: tries, hand-outs and cause of jobs that changed since they came;
//	                 failures: a hash of the failed tries of those that have some
//	l…, b…           list and sorted set: positions that wait, of one priority, tenant (and key)
//	h…, r…, H…, R…   sorted sets: whose turn it is; see waiting.lua
//	delayed          sorted set: positions by when they come due
//	out              hash: position → epoch of its hand-out; g<epoch>: the positions of one
//	leases           sorted set: epochs by when their lease ends
//	completed,failed sorted sets: positions that are kept after their end
//	names, n…        hashes: names that are known; see accept.lua
//	first, c…        hash and lists: the order of keys, where it is strict
//	uneven           hash: corrections of how many wait; see waiting.lua
//	outs, spent, aside, named: limits; see leaving.lua and turns.lua
//	wake             stream of one entry: sources block on it
package redisqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/queue"
)

// Options tune a store; the zero value is ready to use. All instances must have the same
// Prefix and Shards.
type Options struct {
	Prefix   string // of all keys; empty means tidemill:queue
	Capacity int    // jobs that one queue may hold, in each shard; 0 means 10,000,000
	// Shards spread each queue over the slots of a cluster; 0 means 1. A job's ID up to its first
	// slash chooses the shard, so that a job forwarded as parent/child lies with its parent. Each
	// shard keeps its own turns, rate limits, bounds and probes of a gate: it has its part of
	// them, at least one at a time. Strict order needs a single shard.
	Shards int

	ahead func() time.Duration // the clock, in tests
	plain int64                // plainJobs, in tests below 0 for none
}

// Store keeps queues in Redis. It is a queue.Store, and safe for concurrent use.
type Store struct {
	client rueidis.Client
	o      Options
	tags   []string                            // of shards: {prefix:shard}:
	token  string                              // of this store's sources
	lines  [][giveway.Lines]gather.Line[*call] // of shards: concurrent additions are sent together
	turns  atomic.Uint32                       // taken in any shard
	gates  []giveway.Gate                      // of shards, before scripts

	mu     sync.Mutex // guards what follows
	dicts  map[dictKey]*dict
	opened int // sources so far
}

var _ queue.Store = (*Store)(nil)

// MaxShards bounds Options.Shards: a source asks them one by one.
const MaxShards = 64

// New makes a store; it sends nothing to Redis yet.
func New(client rueidis.Client, o Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("queues in Redis need a connection")
	}
	o.Prefix, o.Capacity, o.Shards = cmp.Or(o.Prefix, "tidemill:queue"), cmp.Or(o.Capacity, 10_000_000), cmp.Or(o.Shards, 1)
	if strings.ContainsAny(o.Prefix, "{}") || o.Capacity < 1 || o.Shards < 1 || o.Shards > MaxShards {
		return nil, fmt.Errorf("queues in Redis: prefix %q (without braces), capacity %d (at least 1), %d shards (1 to %d)", o.Prefix, o.Capacity, o.Shards, MaxShards)
	}
	o.plain = cmp.Or(o.plain, plainJobs)
	if o.ahead == nil {
		o.ahead = func() time.Duration { return 0 }
	}
	s := &Store{client: client, o: o, token: rand.Text(), dicts: map[dictKey]*dict{}, lines: make([][giveway.Lines]gather.Line[*call], o.Shards), gates: make([]giveway.Gate, o.Shards)}
	for i := range o.Shards {
		s.tags = append(s.tags, "{"+o.Prefix+":"+strconv.Itoa(i)+"}:")
		for l := range s.lines[i] {
			s.lines[i][l] = gather.Line[*call]{Calls: flights, Most: addBytes, Size: (*call).size,
				Call: func(ctx context.Context, calls []*call) error { return s.add(ctx, i, calls) }}
		}
	}
	return s, nil
}

// shard is the shard of a job.
func (s *Store) shard(id string) int {
	if len(s.tags) == 1 {
		return 0
	}
	root, _, _ := strings.Cut(id, "/")
	return int(xxhash.Sum64String(root) % uint64(len(s.tags)))
}

var (
	//go:embed common.lua
	commonLua string
	//go:embed jobs.lua
	jobsLua string
	//go:embed waiting.lua
	waitingLua string
	//go:embed leaving.lua
	leavingLua string
	//go:embed accept.lua
	acceptLua string
	//go:embed turns.lua
	turnsLua string
	//go:embed sweep.lua
	sweepLua string
	//go:embed add.lua
	addLua string
	//go:embed knows.lua
	knowsLua string
	//go:embed lease.lua
	leaseLua string
	//go:embed settle.lua
	settleLua string
	//go:embed said.lua
	saidLua string
	//go:embed keep.lua
	keepLua string
	//go:embed learn.lua
	learnLua string
	//go:embed gate.lua
	gateLua string
	//go:embed books.lua
	booksLua string
	//go:embed settings.lua
	settingsLua string
	//go:embed standing.lua
	standingLua string
	//go:embed waits.lua
	waitsLua string
	//go:embed tenant.lua
	tenantLua string
	//go:embed depths.lua
	depthsLua string
	//go:embed counts.lua
	countsLua string
	//go:embed added.lua
	addedLua string
	//go:embed page.lua
	pageLua string
	//go:embed move.lua
	moveLua string
	//go:embed turn.lua
	turnLua string
)

// Scripts. A full Redis runs those that make room.
var (
	addScript      = script("", waitingLua, acceptLua, addLua)
	knowsScript    = script(room, waitingLua, acceptLua, knowsLua)
	leaseScript    = script(room, jobsLua, waitingLua, leavingLua, sweepLua, turnsLua, leaseLua)
	settleScript   = script(room, jobsLua, waitingLua, leavingLua, acceptLua, sweepLua, settleLua)
	saidScript     = script(room, saidLua)
	keepScript     = script(room, keepLua)
	learnScript    = script(room, learnLua)
	gateScript     = script(room, gateLua)
	booksScript    = script(room, booksLua)
	settingsScript = script(room, jobsLua, waitingLua, leavingLua, acceptLua, sweepLua, settingsLua)
	standingScript = script(room, jobsLua, waitingLua, leavingLua, sweepLua, standingLua)
	depthsScript   = script(room, jobsLua, waitingLua, leavingLua, sweepLua, waitsLua, depthsLua)
	countsScript   = script(room, jobsLua, waitingLua, waitsLua, countsLua)
	addedScript    = script(room, jobsLua, waitsLua, addedLua)
	tenantScript   = script(room, jobsLua, waitingLua, leavingLua, sweepLua, waitsLua, tenantLua)
	pageScript     = script(room, jobsLua, waitingLua, leavingLua, acceptLua, sweepLua, pageLua)
	moveScript     = script(room, jobsLua, waitingLua, leavingLua, acceptLua, sweepLua, moveLua)
	turnScript     = script(room, waitingLua, leavingLua, turnsLua, turnLua)
)

const room = "#!lua flags=allow-oom\n"

func script(flags string, parts ...string) *rueidis.Lua {
	return rueidis.NewLuaScript(flags + commonLua + strings.Join(parts, ""))
}

// run runs a script on a shard. It does not stop when ctx ends, but waits for an answer or
// an error: the effect must be known.
func (s *Store) run(ctx context.Context, l *rueidis.Lua, shard int, args ...string) rueidis.RedisResult {
	defer s.gates[shard].Enter(ctx)()
	return s.atOnce(ctx, l, shard, args...)
}

// atOnce is run without the gate: for what is short, and has to be in time.
func (s *Store) atOnce(ctx context.Context, l *rueidis.Lua, shard int, args ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	all := make([]string, 0, len(args)+1)
	all = append(append(all, strconv.FormatInt(s.o.ahead().Milliseconds(), 10)), args...)
	return l.Exec(ctx, s.client, []string{s.tags[shard] + "queues"}, all)
}

// now is our clock, which tests can move.
func (s *Store) now() time.Time { return time.Now().Add(s.o.ahead()) }

// answer bounds the wait for a script's answer.
const answer = 10 * time.Second

// failed gives an error of the client its kind.
func failed(err error, format string, args ...any) error {
	return redisconn.Error(err, format, args...)
}

// reply is the error for an answer in another form than the script's.
func reply(what string) error {
	return tidemill.Fail(tidemill.Internal, "%s: Redis answered something else than asked for: does another program use these keys?", what)
}
