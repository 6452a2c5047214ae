package bridge

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
)

// broker is a Mosquitto of this run.
type broker struct {
	*process.Services
	name     string // the row's words for it; empty for the first
	quick    bool   // its clients must have TCP acknowledge: see nudge
	received int    // PUBLISH packets received, at the last query
}

func (b *broker) addr() string { return b.Addr("mosquitto") }
func (b *broker) url() string  { return "tcp://" + b.addr() }

// servers are the servers of this run.
type servers struct {
	redis *process.Services
	ready *broker // set_tcp_nodelay true, no limit in flight
	stock *broker // as Debian ships it: no nodelay, 20 in flight to a client of MQTT 5, queues of 1,000
	ctl   rueidis.Client
}

// Settings of the Mosquittos, over those of scripts/services. The broker's own counters check
// how many messages were published, so both refresh them every second.
const (
	readySettings = "sys_interval 1\nmax_inflight_messages 0"
	stockSettings = "sys_interval 1\nset_tcp_nodelay false\nmax_queued_messages 1000\nautosave_interval 1800"
)

func startServers(ctx context.Context, dir string) (_ *servers, err error) {
	s := &servers{ready: &broker{}, stock: &broker{name: ", stock broker", quick: true}}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.redis, err = process.StartServices(ctx, filepath.Join(dir, "redis"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, "redis"); err != nil {
		return nil, err
	}
	if s.ready.Services, err = process.StartServices(ctx, filepath.Join(dir, "ready"), []string{"MOSQUITTO_SETTINGS=" + readySettings}, "mosquitto"); err != nil {
		return nil, err
	}
	if s.stock.Services, err = process.StartServices(ctx, filepath.Join(dir, "stock"), []string{"MOSQUITTO_SETTINGS=" + stockSettings}, "mosquitto"); err != nil {
		return nil, err
	}
	for _, b := range []*broker{s.ready, s.stock} {
		if _, err = b.took(-1); err != nil {
			return nil, err
		}
	}
	s.ctl, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.redis.Addr("redis")}, DisableCache: true, ForceSingleClient: true})
	return s, err
}

func (s *servers) stop() {
	if s.ctl != nil {
		s.ctl.Close()
	}
	for _, e := range []*process.Services{s.redis, s.ready.Services, s.stock.Services} {
		if e != nil {
			e.Stop()
		}
	}
}

// took says how many messages the broker received since the last query, by its own count. The
// broker refreshes that every second or two: took waits until it is the wanted number, or has
// surely been refreshed twice.
func (b *broker) took(want int) (int, error) {
	const count, uptime = "$SYS/broker/publish/messages/received", "$SYS/broker/uptime"
	s, err := newSubscriber(b.addr(), "bench-count", 0, count, uptime)
	if err != nil {
		return 0, err
	}
	defer s.close()
	_ = s.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	now, before := b.received, b.received
	for refreshed := 0; refreshed < 4; { // the first is a retained one, and one may be in flight
		topic, text, err := s.next()
		if err != nil {
			return 0, fmt.Errorf("count of the broker: %w", err)
		}
		if string(topic) == uptime {
			refreshed++
			continue
		}
		if now, err = strconv.Atoi(string(text)); err != nil {
			return 0, fmt.Errorf("count of the broker: %w", err)
		}
		if now-before == want {
			break
		}
	}
	b.received = now
	return now - before, nil
}

// state is what a stream and its one group hold.
type state struct{ entries, pending, read, consumers int64 }

func (s *servers) state(ctx context.Context, stream string) (st state, err error) {
	replies := s.ctl.DoMulti(ctx, s.ctl.B().Xlen().Key(stream).Build(), s.ctl.B().XinfoGroups().Key(stream).Build())
	if st.entries, err = replies[0].AsInt64(); err != nil {
		return st, err
	}
	groups, err := replies[1].ToArray()
	if err != nil || len(groups) != 1 {
		return st, fmt.Errorf("%s has %d groups: %w", stream, len(groups), err)
	}
	group, err := groups[0].AsMap()
	if err != nil {
		return st, err
	}
	number := func(name string) int64 {
		m := group[name]
		n, _ := m.AsInt64() // entries-read is nil where Redis does not know it
		return n
	}
	st.pending, st.read, st.consumers = number("pending"), number("entries-read"), number("consumers")
	return st, nil
}

// group of every stream here.
const group = "bridge"

// prepare makes a stream with a group that has read nothing: a copy of the entries that
// were written once, or an empty one.
func (s *servers) prepare(ctx context.Context, stream, copyOf string) error {
	if copyOf != "" {
		if err := s.ctl.Do(ctx, s.ctl.B().Copy().Source(copyOf).Destination(stream).Build()).Error(); err != nil {
			return err
		}
	}
	return s.ctl.Do(ctx, s.ctl.B().XgroupCreate().Key(stream).Group(group).Id("0").Mkstream().Build()).Error()
}
