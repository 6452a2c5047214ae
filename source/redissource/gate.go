package redissource

import (
	"context"
	"strconv"
	"time"
)

// Gate implements tidemill.Gater. All sources of the group see it: at once, or when their
// waiting read ends. It opens by itself ten leases after its time, so that nothing waits
// for a process that closed it and died.
func (s *Source) Gate(ctx context.Context, until time.Time, probes int) error {
	wait := time.Duration(-1)
	if !until.IsZero() {
		wait = max(0, time.Until(until))
	}
	ms := int64(-1)
	if wait >= 0 {
		ms = (wait.Microseconds() + 999) / 1000
	}
	err := shut.Exec(ctx, s.client, []string{s.keys.gate, s.keys.probes},
		[]string{strconv.FormatInt(ms, 10), strconv.Itoa(probes), millis(wait + 10*s.o.Lease)}).Error()
	s.mu.Lock()
	s.gate++
	s.mu.Unlock()
	return s.fail(err, "gate")
}

// permitted asks how many of the first n that are ready may go out as probes.
func (r *reader) permitted(ctx context.Context, n int) (int, error) {
	s := r.s
	args := make([]string, 1, 1+n)
	args[0] = millis(s.o.Lease)
	for _, e := range r.ready()[:n] {
		args = append(args, e.id)
	}
	got, err := permit.Exec(ctx, s.client, []string{s.keys.gate, s.keys.probes}, args).AsInt64()
	if err != nil {
		return 0, s.fail(err, "ask the gate of")
	}
	return int(min(got, int64(n))), nil
}
