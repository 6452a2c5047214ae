package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

// spent is what every process has used at one moment.
type spent struct {
	at                       time.Time
	own, redis, broker, side time.Duration
}

// look reads what has been used; bridge and side are 0 if there is none.
func (b *bench) look(bridge, side int, on *broker) spent {
	s := spent{at: time.Now(), redis: b.redis.CPU("redis")}
	if on != nil {
		s.broker = on.CPU("mosquitto")
	}
	if bridge > 0 {
		s.own = process.CPU(bridge)
	}
	if side > 0 {
		s.side = process.CPU(side)
	}
	return s
}

// fill says what n messages cost from one look to the next.
func (r *result) fill(n int, from, to spent) {
	per := func(d time.Duration) float64 { return math.Round(d.Seconds()*1e8/float64(n)) / 100 }
	took := to.at.Sub(from.at)
	r.Messages, r.Seconds = n, took.Round(time.Millisecond).Seconds()
	r.Rate = math.Round(float64(n) / took.Seconds())
	r.Own, r.Redis, r.Broker, r.Side = per(to.own-from.own), per(to.redis-from.redis), per(to.broker-from.broker), per(to.side-from.side)
}

// far is how the subscriber answers.
type far int

const (
	silent far = iota // not at all: the broker's PUBACK is the acknowledgement
	inBulk
	oneByOne
)

// drain makes a contender empty a stream that was filled before it starts, and checks that
// every entry was published exactly once and is done.
func (b *bench) drain(c contender, on *broker, side far) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) (err error) {
		at := place{redis: b.redis.Addr("redis"), stream: b.name(), broker: on, topic: "bench/telemetry"}
		if err := b.prepare(ctx, at.stream, template); err != nil {
			return err
		}
		var a *farSide
		sidePID := 0
		if side != silent {
			at.acks = at.topic + "/acks"
			if a, err = b.startFarSide(ctx, at, side); err != nil {
				return err
			}
			defer a.Stop()
			sidePID = a.PID()
		}
		p, err := c.start(ctx, at)
		if err != nil {
			return err
		}
		defer p.Stop()
		from, to, err := b.watch(ctx, c, p, sidePID, at)
		if err != nil {
			return err
		}
		r.fill(b.entries, from, to)
		r.RSS = process.MostRSS(p.PID())
		if err := p.Stop(); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		wanted := b.entries
		if a != nil {
			h, err := a.heard()
			if err != nil {
				return err
			}
			if h.Entries != b.entries || h.Messages != b.entries {
				err = fmt.Errorf("the receiver heard %d messages about %d entries of %d", h.Messages, h.Entries, b.entries)
			}
			wanted += h.Acks
			figures.Note(&r.Problem, err)
		}
		published, err := on.took(wanted)
		if err == nil && published != wanted {
			err = fmt.Errorf("%d messages were published, not %d", published, wanted)
		}
		figures.Note(&r.Problem, err)
		return b.ctl.Do(ctx, b.ctl.B().Del().Key(at.stream).Build()).Error()
	}
}

// watch waits until every entry is done, and returns what had been used just before the first
// was read and right after the last.
func (b *bench) watch(ctx context.Context, c contender, p *process.Program, side int, at place) (from, to spent, err error) {
	n := int64(b.entries)
	deadline := time.After(60*time.Second + time.Duration(n)*time.Millisecond/4)
	for {
		now := b.look(p.PID(), side, at.broker)
		st, err := b.state(ctx, at.stream)
		switch {
		case err != nil:
			return from, to, err
		case st.read == 0 && st.pending == 0 && st.entries == n:
			from = now
		case st.pending > 0: // running
		case c.deletes && st.entries == 0, !c.deletes && st.read == n:
			return from, b.look(p.PID(), side, at.broker), nil
		}
		select {
		case <-ctx.Done():
			return from, to, ctx.Err()
		case <-p.Ended():
			return from, to, fmt.Errorf("it ended by itself: %w", p.Stop())
		case <-deadline:
			return from, to, fmt.Errorf("not done in time: %d entries in the stream, %d pending, %d read of %d", st.entries, st.pending, st.read, n)
		case <-time.After(5 * time.Millisecond): // between two polls of other processes
		}
	}
}

// farSide is the subscriber's process.
type farSide struct {
	*process.Program
	result string
}

func (b *bench) startFarSide(ctx context.Context, at place, side far) (*farSide, error) {
	result := filepath.Join(b.dir, "heard.json")
	cmd, err := rounds.Self(ctx, "bridge", "-broker", at.broker.addr(), "-topic", at.topic, "-acks", at.acks, "-result", result, fmt.Sprintf("-each=%t", side == oneByOne))
	if err != nil {
		return nil, err
	}
	p, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	return &farSide{p, result}, nil
}

// heard stops the subscriber and returns its report.
func (f *farSide) heard() (h heard, err error) {
	if err := f.Stop(); err != nil {
		return h, err
	}
	text, err := os.ReadFile(f.result)
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(text, &h)
}
