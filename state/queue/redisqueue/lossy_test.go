package redisqueue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// lossy loses the answers to some commands: they are made, and the caller is not told.
type lossy struct {
	rueidis.Client
	lose atomic.Int32 // how many answers from now on
}

func (l *lossy) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if l.lose.Load() <= 0 || cmd.IsBlock() {
		return l.Client.Do(ctx, cmd)
	}
	l.lose.Add(-1)
	if e, ok := rueidis.IsRedisErr(l.Client.Do(ctx, cmd.Pin()).Error()); ok && e.IsNoScript() {
		return l.Client.Do(ctx, cmd)
	}
	ended, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Hour))
	defer cancel()
	return l.Client.Do(ended, l.B().Ping().Build())
}
