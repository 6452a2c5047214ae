//go:build !embedded

package analyticssystem

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/source/redissource"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/definition/redisdefinition"
	"github.com/tidemill/tidemill/state/lock/redislock"
	"github.com/tidemill/tidemill/state/person/redisperson"
	"github.com/tidemill/tidemill/state/project/redisproject"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest/limit/redislimit"
	"github.com/tidemill/tidemill/systems/analytics/circuit/rediscircuit"
)

// The overflow stream's name, beside that of the stream of all others.
const overflowStream = "events:overflow"

// redis puts a Redis behind the waiting events, dead letters and locks, and its caches in
// front of persons, definitions and projects, wherever these are.
func (w *wiring) redis(ctx context.Context, b *backends) error {
	c, o := w.own, w.Host
	client, err := w.Redis(ctx, w.Config.Redis.URL)
	if err != nil {
		return err
	}
	streams := map[string]string{analytics.Name: c.Stream, analytics.OverflowName: overflowStream}
	b.intake = redissource.NewIntake(client, redissource.IntakeOptions{Capacity: c.QueueMax, Stream: func(queue string) string { return streams[queue] }})
	b.damaged = false
	b.open = func(_ context.Context, name string) (stream, error) {
		s, err := redissource.New(client, redissource.Options{Stream: streams[name], Group: c.Group, Lease: c.Claim,
			Consumer: cmp.Or(c.Consumer, fmt.Sprintf("processor-%d", os.Getpid())),
			Report:   func(r redissource.Report) { w.OfStream(w.Log, name, r) }})
		if err != nil {
			return nil, err
		}
		w.OnClose(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return s.Close(ctx)
		})
		b.checks = append(b.checks, w.Stream(name, streams[name], s))
		return s, nil
	}
	b.waits = func(ctx context.Context, name string) (bool, error) {
		n, err := client.Do(ctx, client.B().Xlen().Key(streams[name]).Build()).AsInt64()
		return n > 0, redisconn.Error(err, "ask how long the stream %s is", streams[name])
	}
	if b.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: c.DeadMax, Trim: c.DeadTrim}, Pipeline: analytics.Name}); err != nil {
		return err
	}
	if b.locks, err = redislock.New(client, redislock.Options{}); err != nil {
		return err
	}
	if b.circuit, err = rediscircuit.New(client, rediscircuit.Options{}); err != nil {
		return err
	}
	if w.Config.Postgres.URL != "" { // the embedded database needs no cache in front of it
		if b.persons, err = redisperson.New(client, b.persons, redisperson.Options{Log: o.Log, Now: o.Now}); err != nil {
			return err
		}
		if b.projects, err = redisproject.New(client, b.projects, o.Log); err != nil {
			return err
		}
		if b.definitions, err = redisdefinition.New(client, b.definitions, o.Log); err != nil {
			return err
		}
	}
	if b.meter, err = redislimit.New(client, redislimit.Options{Rate: c.RateLimit, Quota: c.Quota, Log: o.Log, Now: o.Now}); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("stream: Redis, %s, %s", w.Config.Redis.URL, c.Stream))
	return nil
}
