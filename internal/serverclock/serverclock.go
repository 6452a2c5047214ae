// Package serverclock reads the clock of a server without a round trip each time. Use it for
// leases that several machines share: their own clocks need not agree.
//
// The server is asked once, then again about each minute; between, the time that has passed here
// is added, which no step of this machine's clock changes. The clock is off by half a round trip
// at most, and by what the two clocks drift apart in a minute.
package serverclock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
)

const (
	// fresh is how long an answer is used. A computer's clock drifts by at most 500 ppm, the
	// bound that ntpd corrects: 30 ms a minute.
	fresh = time.Minute
	// stepped is how far this machine's clock and the time that has passed may be apart until
	// the server is asked again: the machine slept, or its clock was set.
	stepped = time.Second
	// patience is how long the server may take to answer.
	patience = 10 * time.Second
)

// Clock is a server's clock. It is safe for concurrent use.
type Clock struct {
	ctx context.Context // of its owner; asking ends with it
	ask func(context.Context) (time.Time, error)

	mu     sync.Mutex // guards what follows
	here   time.Time  // when the server was asked last, by this machine
	there  time.Time  // what it answered
	asking bool
}

// New asks for the time once, and returns a clock that asks again by itself until ctx ends.
// Where a later ask fails, the last answer goes on to be used.
func New(ctx context.Context, ask func(context.Context) (time.Time, error)) (*Clock, error) {
	c := &Clock{ctx: ctx, ask: ask}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("ask for the server's time: %w", err)
	}
	return c, nil
}

// Postgres is the clock of a PostgreSQL server.
func Postgres(ctx context.Context, db *postgresdb.DB) (*Clock, error) {
	return New(ctx, func(ctx context.Context) (now time.Time, err error) {
		err = db.Do(giveway.Waited(ctx), func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
		})
		return now, err
	})
}

var redisTime = rueidis.NewLuaScriptReadOnly(`return redis.call('TIME')`)

// Redis is the clock of the Redis server that has key. Use the key that leases are kept under:
// the servers of a cluster have a clock each.
func Redis(ctx context.Context, client rueidis.Client, key string) (*Clock, error) {
	return New(ctx, func(ctx context.Context) (time.Time, error) {
		answer, err := redisTime.Exec(ctx, client, []string{key}, nil).AsStrSlice()
		if err != nil {
			return time.Time{}, redisconn.Error(err, "ask Redis for its time")
		}
		if len(answer) != 2 {
			return time.Time{}, fmt.Errorf("ask Redis for its time: %q, want seconds and microseconds", answer)
		}
		seconds, err := strconv.ParseInt(answer[0], 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("ask Redis for its time: %w", err)
		}
		micros, err := strconv.ParseInt(answer[1], 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("ask Redis for its time: %w", err)
		}
		return time.Unix(seconds, micros*1000), nil
	})
}

// Now is the server's time, in UTC. It does not block.
func (c *Clock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.here)
	if !c.asking && c.ctx.Err() == nil && (passed >= fresh || drift(now, c.here) > stepped) {
		c.asking = true
		go func() {
			_ = c.read() // the last answer goes on to be used
		}()
	}
	return c.there.Add(passed)
}

// drift is how far this machine's clock has moved apart from the time that has passed.
func drift(now, then time.Time) time.Duration {
	return (now.Round(0).Sub(then.Round(0)) - now.Sub(then)).Abs()
}

// read asks the server, and takes the middle of the round trip as the moment of its answer.
func (c *Clock) read() error {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	sent := time.Now()
	there, err := c.ask(ctx)
	took := time.Since(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
	if err != nil {
		// The next try is due in a minute, not at each reading.
		if !c.here.IsZero() {
			c.there, c.here = c.there.Add(sent.Sub(c.here)), sent
		}
		return err
	}
	c.here, c.there = sent.Add(took/2), there.UTC()
	return nil
}
