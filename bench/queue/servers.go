package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
)

// startServers starts Redis (AOF, synced every second) and, for River, PostgreSQL.
func (b *bench) startServers(ctx context.Context, dir string, peers bool) (err error) {
	names := []string{"redis"}
	if peers {
		names = append(names, "postgres")
	}
	if b.services, err = process.StartServices(ctx, dir, []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, names...); err != nil {
		return err
	}
	b.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.services.Addr("redis")}, DisableCache: true, ForceSingleClient: true})
	return err
}

func (b *bench) stop() {
	if b.redis != nil {
		b.redis.Close()
	}
	if b.services != nil {
		b.services.Stop()
	}
}

// empty empties Redis, and returns the memory that it uses then.
func (b *bench) empty(ctx context.Context) (int64, error) {
	if err := b.redis.Do(ctx, b.redis.B().Flushall().Sync().Build()).Error(); err != nil {
		return 0, err
	}
	used, _, err := b.memory(ctx)
	return used, err
}

// memory is what Redis uses for data, and the resident memory of its process, in bytes.
func (b *bench) memory(ctx context.Context) (used, rss int64, err error) {
	text, err := b.redis.Do(ctx, b.redis.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "used_memory":
			used = n
		case "used_memory_rss":
			rss = n
		}
	}
	if used == 0 || rss == 0 {
		return 0, 0, fmt.Errorf("memory of Redis: it does not say how much it uses: %q", text)
	}
	return used, rss, nil
}
