// Package redislock takes locks in Redis as other programs take them: the key is the lock's name,
// its value the owner's token alone, its expiry the server's, so that clocks need not agree. Use it
// for a lock that is shared with such a program. The fencing number is a counter beside it,
// {name}:fence, which never expires.
//
// A Redis that fails over or loses its memory forgets locks, and a lock may then have two
// owners. Work that must not happen twice has to be harmless, or check the fencing number
// where it is done.
package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/internal/rules"
)

// Options tune Locks; the zero value is ready to use.
type Options struct {
	Prefix string    // before every name to make its key; empty: the name is the key
	Rand   io.Reader // of owners; nil means crypto/rand
}

// Locks implements lock.Locks.
type Locks struct {
	client rueidis.Client
	o      Options
}

var _ lock.Locks = (*Locks)(nil)

// New makes locks; those held in Redis stay held.
func New(client rueidis.Client, o Options) (*Locks, error) {
	if client == nil {
		return nil, errors.New("locks in Redis need a connection")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Locks{client, o}, nil
}

// KEYS lock, fence
var (
	//
	// Where there is no fence, it begins with the clock: so it grows on even where Redis has
	// lost its memory, as long as there were fewer owners than milliseconds.
	acquire = rueidis.NewLuaScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
if redis.call('EXISTS', KEYS[2]) == 1 then return redis.call('INCR', KEYS[2]) end
local now = redis.call('TIME')
local fence = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('SET', KEYS[2], fence)
return tonumber(fence)`)

	// The fence is the newest owner's, the only one that can hold the lock.
	extend = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`)

	release = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// keys are the lock's and its fence's, on one slot.
func (l *Locks) keys(name string) []string {
	key := l.o.Prefix + name
	return []string{key, beside(key) + "fence"}
}

// beside is the prefix of keys on the same slot as key.
func beside(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if shut := strings.IndexByte(key[open+1:], '}'); shut > 0 {
			return key + ":" // it has its own hash tag
		}
	}
	return "{" + key + "}:"
}

// millis is a time in the form of Redis, rounded up.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d-1)/time.Millisecond)+1, 10) // d is above 0
}

// Acquire implements lock.Locks. After an error the lock may be taken without a holder: it
// runs out by itself.
func (l *Locks) Acquire(ctx context.Context, name string, d time.Duration) (lock.Held, bool, error) {
	if err := rules.Check(name, d); err != nil {
		return lock.Held{}, false, err
	}
	owner, err := rules.NewOwner(l.o.Rand)
	if err != nil {
		return lock.Held{}, false, err
	}
	fence, err := acquire.Exec(ctx, l.client, l.keys(name), []string{owner, millis(d)}).AsUint64()
	if err != nil {
		return lock.Held{}, false, redisconn.Error(err, "acquire lock %q", name)
	}
	if fence == 0 {
		return lock.Held{}, false, nil
	}
	return lock.Held{Name: name, Owner: owner, Fence: fence}, true, nil
}

// Extend implements lock.Locks.
func (l *Locks) Extend(ctx context.Context, h lock.Held, d time.Duration) error {
	if err := rules.Check(h.Name, d); err != nil {
		return err
	}
	return l.change(ctx, "extend", extend, h, millis(d))
}

// Release implements lock.Locks.
func (l *Locks) Release(ctx context.Context, h lock.Held) error {
	return l.change(ctx, "release", release, h)
}

// change runs a script on a lock that h still holds.
func (l *Locks) change(ctx context.Context, what string, script *rueidis.Lua, h lock.Held, args ...string) error {
	args = append([]string{h.Owner, strconv.FormatUint(h.Fence, 10)}, args...)
	n, err := script.Exec(ctx, l.client, l.keys(h.Name), args).AsInt64()
	if err != nil {
		return redisconn.Error(err, "%s lock %q", what, h.Name)
	}
	if n == 0 {
		return fmt.Errorf("%s lock %q: %w", what, h.Name, lock.ErrLost)
	}
	return nil
}
