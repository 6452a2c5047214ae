package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// Wake is how a source learns that something may have come.
type Wake struct {
	Stream string    // is written to while a source waits
	Seen   string    // its newest known entry
	Rest   time.Time // when something may become due without a write
}

// Longest is how long a source waits at most; then it looks again, woken or not.
const Longest = 5 * time.Second

// Await waits at the server until one of several streams, each on a different node, is written
// to, until the first Rest, or until ctx ends. It returns which stream it was, -1 for none. The
// answer has to come within a bound after the wait, even if the server freezes. The error is
// that of ctx or the client's.
func Await(ctx context.Context, client rueidis.Client, now time.Time, bound time.Duration, wakes ...Wake) (woken int, err error) {
	wait := Longest
	for i := range wakes {
		wait = min(wait, wakes[i].Rest.Sub(now))
	}
	if until, ok := ctx.Deadline(); ok {
		// The server ends the wait, and the connection lives on.
		left := time.Until(until) - 2*time.Millisecond
		if left < time.Millisecond {
			<-ctx.Done()
			return -1, ctx.Err()
		}
		wait = min(wait, left)
	}
	if wait <= 0 {
		return -1, ctx.Err()
	}
	wait = max(wait, time.Millisecond) // 0 is for ever
	if len(wakes) == 1 {
		return await(ctx, client, bound, wait, 0, wakes[0])
	}
	type end struct {
		woken int
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan end, len(wakes))
	for i, w := range wakes {
		go func() {
			woken, err := await(ctx, client, bound, wait, i, w)
			first <- end{woken, err}
		}()
	}
	e := <-first
	cancel()
	for range len(wakes) - 1 {
		<-first
	}
	return e.woken, e.err
}

// await waits for one stream.
func await(ctx context.Context, client rueidis.Client, bound, wait time.Duration, i int, w Wake) (int, error) {
	limit, cancel := context.WithTimeout(ctx, wait+bound)
	defer cancel()
	cmd := client.B().Xread().Count(1).Block(wait.Milliseconds()).Streams().Key(w.Stream).Id(w.Seen).Build().UnblockOnCancel()
	err := client.Do(limit, cmd).Error()
	switch {
	case ctx.Err() != nil:
		return -1, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && limit.Err() == nil: // the client was a little early
		return -1, nil
	case rueidis.IsRedisNil(err):
		return -1, nil
	case err != nil:
		return -1, err
	}
	return i, nil
}
