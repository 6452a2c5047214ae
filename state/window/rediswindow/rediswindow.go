// Package rediswindow keeps windows in Redis, Valkey or a Redis Cluster: as durable as that is,
// and shared by any number of processes. Use it where several instances collect the records of
// one batch, or work on batches.
//
// Every change of windows is a script, by Redis' clock: a change and its row in the books are
// atomic. A batch id belongs to a shard, and all keys of a shard to one slot. The layout in
// Redis, with {tag}: before each name (<no> is the revision of a window):
//
//	w<no>    hash: the window itself, see common.lua
//	d<no>    hash: number → blob. A blob is some records of one Put, framed, each with a checksum
//	i<no>    hash: digest of a record's name → checksum; until the window is closed
//	m<no>    hash: digest → number of the newest blob, of records that are in several
//	books    hash: accepted and ended records, counts by state, the newest revision
//	open     hash: batch id → its active window
//	lines    hash: batch id → its closed windows that have not ended, the first may be handed out
//	all, active, ready, leased, parked   sorted sets: windows, by number
//	starts, full   sorted sets: active windows by when they were opened; those with as many records as announced
//	go, later      sorted sets: windows that may be handed out, by number; that come back, by when
//	renew    sorted set: windows by when their data is to live on
//	wake     stream of one entry: sources block on it
//
// Records are framed by the client and numbered by blobs, not kept one by one: storing costs
// two hash fields of some bytes each, a page is a few blobs in their order, and nothing has to
// be scanned. Names from outside are never part of a key.
//
// The data of a window, d, i and m, has a time to live, a safety net for windows that no
// instance works on any more; Sweep renews it. The window's own hash has none: missing data is
// noticed, counted as lost and booked as dead. Adopt takes over the keys batch:… and data:… of
// the system that you migrate from.
package rediswindow

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/window"
)

// Options tune a store; the zero value is ready to use. All instances must have the same
// Prefix and Shards.
type Options struct {
	window.Options        // Now is not used: Redis' clock counts
	Prefix         string // of all keys; empty means tidemill:window
	// Shards spread batch ids over the slots of a cluster; 0 means 1. Each shard keeps its own
	// order of windows, oldest first, and its own limits of a sweep.
	Shards int
	// TTL is how long the data of a window lives without renewal; 0 means 7 days, below 0 for
	// ever. It has to be at least twice the time that a window is open.
	TTL time.Duration

	ahead func() time.Duration // the clock, in tests
}

// MaxShards bounds Options.Shards: a source asks them one by one.
const MaxShards = 64

// Store keeps windows in Redis. It is safe for concurrent use.
type Store struct {
	client rueidis.Client
	o      Options
	ttl    string
	tags   []string // of shards: {prefix:shard}:
}

var _ window.Store = (*Store)(nil)

// New makes a store; it sends nothing to Redis yet.
func New(client rueidis.Client, o Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("windows in Redis need a connection")
	}
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return nil, err
	}
	o.Prefix, o.Shards, o.TTL = cmp.Or(o.Prefix, "tidemill:window"), cmp.Or(o.Shards, 1), cmp.Or(o.TTL, 7*24*time.Hour)
	if strings.ContainsAny(o.Prefix, "{}") || o.Shards < 1 || o.Shards > MaxShards {
		return nil, fmt.Errorf("windows in Redis: prefix %q (without braces), %d shards (1 to %d)", o.Prefix, o.Shards, MaxShards)
	}
	if o.TTL > 0 && o.TTL < 2*o.Window {
		return nil, fmt.Errorf("windows in Redis: data that lives for %v is gone before a window of %v is sent; want twice as long at the least", o.TTL, o.Window)
	}
	if o.ahead == nil {
		o.ahead = func() time.Duration { return 0 }
	}
	s := &Store{client: client, o: o, ttl: strconv.FormatInt(max(0, o.TTL.Milliseconds()), 10)}
	for i := range o.Shards {
		s.tags = append(s.tags, "{"+o.Prefix+":"+strconv.Itoa(i)+"}:")
	}
	return s, nil
}

// shard is the shard of a batch id.
func (s *Store) shard(batch string) int {
	if len(s.tags) == 1 {
		return 0
	}
	return int(xxhash.Sum64String(batch) % uint64(len(s.tags)))
}

// each calls do for every shard, at once: one that does not answer holds up no other.
func (s *Store) each(do func(shard int) error) error {
	if len(s.tags) == 1 {
		return do(0)
	}
	errs := make([]error, len(s.tags))
	var all sync.WaitGroup
	for shard := range s.tags {
		all.Go(func() { errs[shard] = do(shard) })
	}
	all.Wait()
	return errors.Join(errs...)
}

//go:embed *.lua
var lua embed.FS

// Scripts. A full Redis runs those that make room, or only read.
var (
	putScript    = script("put", "")
	adoptScript  = script("adopt", "")
	sweepScript  = script("sweep", room)
	takeScript   = script("take", room)
	settleScript = script("settle", room)
	keepScript   = script("keep", room)
	pageScript   = script("page", room)
	movedScript  = script("moved", room)
	lostScript   = script("lost", room)
	listScript   = script("list", room)
	lookScript   = script("look", room)
	closeScript  = script("close", room)
	replayScript = script("replay", room)
	statsScript  = script("stats", room)
	booksScript  = script("books", room)
)

const room = "#!lua flags=allow-oom\n"

func script(name, flags string) *rueidis.Lua {
	text := flags
	for _, part := range []string{"common", name} {
		b, err := lua.ReadFile(part + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		text += string(b)
	}
	return rueidis.NewLuaScript(text)
}

// answer bounds the wait for a script's answer.
const answer = 20 * time.Second

// run runs a script on a shard. It does not stop when ctx ends, but waits for an answer or an
// error: the effect must be known.
func (s *Store) run(ctx context.Context, l *rueidis.Lua, shard int, args ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	all := make([]string, 0, len(args)+1)
	all = append(append(all, strconv.FormatInt(s.o.ahead().Milliseconds(), 10)), args...)
	return l.Exec(ctx, s.client, []string{s.tags[shard] + "books"}, all)
}

// failed gives an error of the client its kind.
func failed(err error, format string, args ...any) error {
	return redisconn.Error(err, format, args...)
}

// reply is the error for an answer in another form than the script's.
func reply(what string) error {
	return tidemill.Fail(tidemill.Internal, "%s: Redis answered something else than asked for: does another program use these keys?", what)
}

func millis(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
