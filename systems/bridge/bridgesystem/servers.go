//go:build !embedded

package bridgesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/source/redissource"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

// onServers puts the bridge between a Redis and an MQTT broker.
func (w *wiring) onServers(ctx context.Context, e *ends) error {
	client, err := w.redis(ctx, e)
	if err != nil {
		return err
	}
	publishers, err := w.mqtt(e)
	if err != nil {
		return err
	}
	c := w.own
	w.Look(func(ctx context.Context) []preflight.Finding { return redisconn.Inspect(ctx, client) })
	if err := w.Judge(ctx); err != nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, c.Health.RedisTimeout)
	err = e.isStream(checking)
	cancel()
	if tidemill.KindOf(err) == tidemill.Validation { // other errors are waited out
		return fmt.Errorf("bridge.redis.stream (REDIS_STREAM): %w", err)
	}
	e.healthy = func(ctx context.Context) error {
		asking, cancel := context.WithTimeout(ctx, c.Health.RedisTimeout)
		err := e.isStream(asking)
		cancel()
		if err != nil {
			err = fmt.Errorf("ask Redis: %w", err)
		}
		waiting, cancel := context.WithTimeout(ctx, c.Health.MQTTTimeout)
		defer cancel()
		return errors.Join(err, anyUp(waiting, publishers))
	}
	w.parts.Checks = append(w.parts.Checks, func(ctx context.Context) []preflight.Finding {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return mqttconn.Inspect(ctx, publishers[0])
	})
	return nil
}

// redis opens the stream.
func (w *wiring) redis(ctx context.Context, e *ends) (redisconn.Client, error) {
	c, log := &w.own.Redis, w.log
	address := redisAddress(c)
	client, err := w.reachRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	w.OnClose(func() error { client.Close(); return nil })
	source, err := redissource.New(client, redissource.Options{Stream: c.Stream, Group: c.ConsumerGroup,
		Consumer: cmp.Or(c.ConsumerName, "consumer-"+uuid.NewString()),
		Lease:    c.ClaimMinIdle, Block: w.blockTime(), Batch: c.BatchSize, Grows: !w.Config.Given("bridge.redis.batch_size"), Answer: c.ReadTimeout,
		ClaimEvery: c.ClaimInterval, ClaimBatch: c.ClaimBatchSize, ClaimOnce: !c.AggressiveClaim, ClaimPause: c.ClaimCycleDelay,
		Drains: c.DrainEnabled,
		Report: func(r redissource.Report) {
			w.OfStream(log, bridge.Name, r)
			switch r.What {
			case redissource.Claimed:
				e.count.claimed.Add(r.Count)
			case redissource.Drained:
				e.count.drained.Add(r.Count)
			case redissource.Removed:
				e.count.removed.Add(r.Count)
			}
		}})
	if err != nil {
		return nil, err
	}
	w.parts.Checks = append(w.parts.Checks, w.Stream(bridge.Name, c.Stream, source))
	e.source, e.isStream, e.finder = source, source.Check, &bridgeapi.Finder{Stream: standing(source)}
	e.outline, e.consumer, e.takeOver = streamOutline(source, c.Stream), possession(source), source.TakeOver
	e.Close = append(e.Close, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return source.Close(ctx)
	})
	if c.DrainEnabled {
		e.Loops = append(e.Loops, flow.Loop{Name: "drain", Every: c.DrainInterval, AtStart: true, Do: func(ctx context.Context) error {
			for {
				if n, err := source.Drain(ctx, c.DrainBatchSize); n == 0 || err != nil {
					return err
				}
			}
		}})
	}
	if c.ConsumerCleanupEnabled {
		e.Loops = append(e.Loops, flow.Loop{Name: "idle consumers", Every: c.ConsumerCleanupInterval, Do: func(ctx context.Context) error {
			_, err := source.CleanUp(ctx, c.ConsumerIdleTimeout)
			return err
		}})
	}
	w.Uses = append(w.Uses, fmt.Sprintf("stream: Redis, %s, %s", address.shown, c.Stream))
	return client, nil
}

// standing finds entries of a stream.
func standing(s *redissource.Source) func(context.Context, string) (*bridgeapi.Standing, error) {
	return func(ctx context.Context, id string) (*bridgeapi.Standing, error) {
		st, err := s.Find(ctx, id)
		return (*bridgeapi.Standing)(st), err
	}
}

// possession says what a consumer of a stream has.
func possession(s *redissource.Source) func(context.Context, string) (bridgeapi.Consumer, error) {
	return func(ctx context.Context, name string) (out bridgeapi.Consumer, err error) {
		p, err := s.Of(ctx, name)
		if err != nil {
			return out, err
		}
		out = bridgeapi.Consumer{BridgeConsumer: shown(p.Consumer), Held: p.Held.Seconds(), Entries: []bridgeapi.ConsumerEntry{}}
		for _, e := range p.Entries {
			out.Entries = append(out.Entries, bridgeapi.ConsumerEntry{ID: e.ID, Idle: e.Idle.Seconds(), Handed: e.Handed})
		}
		return out, nil
	}
}

func shown(c redissource.Consumer) bridgeapi.BridgeConsumer {
	return bridgeapi.BridgeConsumer{Name: c.Name, Pending: c.Pending, Idle: c.Idle.Seconds()}
}

// streamOutline says how a stream stands.
func streamOutline(s *redissource.Source, name string) func(context.Context, *bridgeapi.Bridge) error {
	return func(ctx context.Context, out *bridgeapi.Bridge) error {
		o, err := s.Outline(ctx)
		if err != nil {
			return err
		}
		out.Stream, out.Length, out.Pending, out.Delayed, out.Oldest = name, o.Length, o.Pending, o.Delayed, answer.When(o.Oldest)
		for _, c := range o.Consumers {
			out.Consumers = append(out.Consumers, shown(c))
		}
		return nil
	}
}

// blockTime is how long a read waits at Redis. A read that waits hears of nothing else: not
// of an entry that comes due for its next try, nor of a stop. Where it is not given, it is
// as short as the first wait between tries, and a second at most.
func (w *wiring) blockTime() time.Duration {
	b := w.own
	if w.Config.Given("bridge.redis.block_time") {
		return b.Redis.BlockTime
	}
	most := time.Second
	if b.Retry.Enabled {
		most = min(most, max(b.Retry.InitialBackoff, 100*time.Millisecond))
	}
	return min(b.Redis.BlockTime, most)
}

// reachRedis connects, and tries again as often as the settings say.
func (w *wiring) reachRedis(ctx context.Context, at redisURL) (redisconn.Client, error) {
	c := &w.own.Redis
	o := redisconn.Options{Name: w.own.App.Name, Dial: c.ConnectTimeout, Timeout: max(c.ReadTimeout, c.WriteTimeout),
		Blocking: c.PoolSize, Idle: c.MinIdleConns, MaxAge: c.MaxConnAge, MaxIdle: c.IdleTimeout}
	for tries := 0; ; tries++ {
		client, err := redisconn.Open(ctx, at.url, o)
		if err == nil || tries >= c.MaxRetries || ctx.Err() != nil || tidemill.KindOf(err) == tidemill.Credentials {
			return client, err
		}
		// Logged at the start, each time the Redis of the bridge cannot be reached; it is tried again.
		// To do: see whether it is up, and whether address, user and password are right.
		w.log.Warn("no connection to Redis", "error", err, "again_in", c.RetryInterval, "attempt", tries+1)
		if sleep.For(ctx, c.RetryInterval) != nil {
			return nil, err
		}
	}
}

// redisURL is the address of a Redis, whole and as it may be shown.
type redisURL struct {
	url   tidemill.Secret
	shown string
}

// redisAddress makes the one address of the many settings.
func redisAddress(c *bridgeconfig.Redis) redisURL {
	scheme, user, path, query := "redis", "", "", ""
	if c.TLSEnabled {
		scheme = "rediss"
	}
	if c.MasterName != "" {
		scheme += "+sentinel"
		path = "/" + c.MasterName
	} else if len(c.Addresses) > 1 {
		query = "?cluster=true"
	}
	if c.DB != 0 {
		path += fmt.Sprintf("/%d", c.DB)
	}
	if !c.Password.IsZero() {
		user = url.PathEscape(c.Username) + ":" + url.PathEscape(c.Password.Reveal()) + "@"
	}
	rest := strings.Join(c.Addresses, ",") + path + query
	return redisURL{tidemill.NewSecret(scheme + "://" + user + rest), scheme + "://" + rest}
}
