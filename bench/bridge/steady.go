package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/process"
)

// steady measures the costs of a bridge that has been running: CPU while idle, and allocations
// a message when entries come then, by its own metrics.
func (b *bench) steady(c contender, on *broker) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		at := place{redis: b.redis.Addr("redis"), stream: b.name(), broker: on, topic: "bench/steady"}
		if err := b.prepare(ctx, at.stream, ""); err != nil {
			return err
		}
		p, err := c.start(ctx, at)
		if err != nil {
			return err
		}
		defer p.Stop()
		through := func(n int) error { // sends n entries through all of it
			if err := fill(ctx, b.ctl, at.stream, n); err != nil {
				return err
			}
			return b.emptied(ctx, p, at.stream)
		}
		if err := through(1000); err != nil { // it is connected, and one-time growth is over
			return err
		}
		before, from := process.CPU(p.PID()), time.Now()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Ended():
			return fmt.Errorf("it ended by itself: %w", p.Stop())
		case <-time.After(b.idle):
		}
		r.Idle = 100 * (process.CPU(p.PID()) - before).Seconds() / time.Since(from).Seconds()
		first, err := allocated(p)
		if err != nil {
			return err
		}
		profiled := make(chan error, 1)
		go func() { profiled <- p.Profile(b.profile, 2) }()
		if err := errors.Join(through(b.entries), <-profiled); err != nil {
			return err
		}
		last, err := allocated(p)
		if err != nil {
			return err
		}
		r.Messages = b.entries
		r.Allocs, r.Bytes = (last.times-first.times)/float64(b.entries), (last.bytes-first.bytes)/float64(b.entries)
		r.RSS = process.MostRSS(p.PID())
		if err := p.Stop(); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		published, err := on.took(1000 + b.entries)
		if err == nil && published != 1000+b.entries {
			err = fmt.Errorf("%d messages were published, not %d", published, 1000+b.entries)
		}
		return err
	}
}

// emptied waits until a stream is empty.
func (b *bench) emptied(ctx context.Context, p *process.Program, stream string) error {
	for deadline := time.After(time.Minute); ; {
		st, err := b.state(ctx, stream)
		if err != nil || st.entries == 0 && st.pending == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Ended():
			return fmt.Errorf("it ended by itself: %w", p.Stop())
		case <-deadline:
			return fmt.Errorf("not done in time: %d entries in the stream, %d pending", st.entries, st.pending)
		case <-time.After(10 * time.Millisecond): // between two polls of another process
		}
	}
}

// memory is what a Go program has allocated since it started.
type memory struct{ times, bytes float64 }

func allocated(p *process.Program) (m memory, err error) {
	text, err := p.Get("/metrics")
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "go_memstats_mallocs_total":
			m.times, err = strconv.ParseFloat(value, 64)
		case "go_memstats_alloc_bytes_total":
			m.bytes, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return m, err
		}
	}
	if m.times == 0 || m.bytes == 0 {
		return m, fmt.Errorf("%s/metrics has no go_memstats_mallocs_total or go_memstats_alloc_bytes_total", p.URL)
	}
	return m, nil
}
