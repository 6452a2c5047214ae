// Package rediscircuit is the breaker of replays that instances share in Redis, under the keys that
// the product analytics system has that one migrates from: dlq:replay:failures counts failures, and
// while dlq:replay:circuit exists it is open.
package rediscircuit

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// Options tune a Circuit; the zero value is ready to use.
type Options struct {
	Name   string        // of both keys; empty means dlq:replay
	Fails  int           // failures that open it; 0 means 5
	Within time.Duration // how long failures are remembered after the newest; 0 means 10m
	Open   time.Duration // how long it is open; 0 means 5m
}

// Circuit implements analytics.Circuit. Its two keys have no slot in common, so they change one
// after the other. If that is cut short, failures expire and the circuit closes by themselves.
type Circuit struct {
	client            rueidis.Client
	o                 Options
	failures, circuit string
}

// New makes a circuit that shares its state with the others of its name.
func New(client rueidis.Client, o Options) (*Circuit, error) {
	if client == nil {
		return nil, errors.New("a circuit in Redis needs a connection")
	}
	if o.Fails < 0 || o.Within < 0 || o.Open < 0 {
		return nil, errors.New("a circuit's numbers are zero (the default) or more")
	}
	o.Name, o.Fails = cmp.Or(o.Name, "dlq:replay"), cmp.Or(o.Fails, 5)
	o.Within, o.Open = cmp.Or(o.Within, 10*time.Minute), cmp.Or(o.Open, 5*time.Minute)
	return &Circuit{client, o, o.Name + ":failures", o.Name + ":circuit"}, nil
}

// IsOpen reports whether some instance opened it and its time is not over.
func (c *Circuit) IsOpen(ctx context.Context) (bool, error) {
	n, err := c.client.Do(ctx, c.client.B().Exists().Key(c.circuit).Build()).AsInt64()
	return n > 0, redisconn.Error(err, "look whether circuit %q is open", c.o.Name)
}

// count adds failures and says how many there are; at the limit it forgets them.
var count = rueidis.NewLuaScript(`
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if n >= tonumber(ARGV[3]) then redis.call('DEL', KEYS[1]) end
return n`)

// Failed counts failures of this instance, and opens the circuit at the limit.
func (c *Circuit) Failed(ctx context.Context, n int) error {
	if n <= 0 {
		return nil
	}
	all, err := count.Exec(ctx, c.client, []string{c.failures}, []string{strconv.Itoa(n), strconv.FormatInt(c.o.Within.Milliseconds(), 10), strconv.Itoa(c.o.Fails)}).AsInt64()
	if err != nil {
		return redisconn.Error(err, "count failures of circuit %q", c.o.Name)
	}
	if all < int64(c.o.Fails) {
		return nil
	}
	return c.Trip(ctx, c.o.Open)
}

// Trip opens it for d, unless it is open: then it stays unchanged.
func (c *Circuit) Trip(ctx context.Context, d time.Duration) error {
	b := c.client.B()
	err := c.client.Do(ctx, b.Set().Key(c.circuit).Value("1").Nx().PxMilliseconds(max(1, d.Milliseconds())).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return redisconn.Error(err, "open circuit %q", c.o.Name)
}

// Succeeded closes it and forgets failures.
func (c *Circuit) Succeeded(ctx context.Context) error {
	for key, err := range rueidis.MDel(c.client, ctx, []string{c.failures, c.circuit}) {
		if err != nil {
			return redisconn.Error(err, "close circuit %q, delete %s", c.o.Name, key)
		}
	}
	return nil
}
