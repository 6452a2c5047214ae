package bullmqsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
)

// keepJobs is how many locks one script renews.
const keepJobs = 1000

// Keep implements tidemill.Keeper. It also looks for jobs of dead workers, in case Receive does
// not get to it.
func (s *Source) Keep(ctx context.Context) error {
	s.mu.Lock()
	type out struct {
		id   string
		hand uint32
	}
	list := make([]out, 0, len(s.outs))
	for id, h := range s.outs {
		list = append(list, out{id, h.hand})
	}
	s.mu.Unlock()
	for some := range slices.Chunk(list, keepJobs) {
		args := append(make([]string, 0, 2+2*len(some)), s.token, millis(s.o.Lease))
		for _, o := range some {
			args = append(args, o.id, strconv.FormatUint(uint64(o.hand), 10))
		}
		kept, err := keepScript.Exec(ctx, s.client, s.meta, args).ToString()
		if err == nil && len(kept) != len(some) {
			err = errReply
		}
		if err != nil {
			return s.fail(err, "keep jobs of")
		}
		s.mu.Lock()
		for i, o := range some {
			if kept[i] == '0' && s.outs[o.id].hand == o.hand {
				delete(s.outs, o.id) // its settlement will be Stale
			}
		}
		s.mu.Unlock()
	}
	return s.tend(ctx)
}

// tend looks for jobs of dead workers when it is time.
func (s *Source) tend(ctx context.Context) error {
	s.mu.Lock()
	early := time.Now().Before(s.check)
	s.mu.Unlock()
	if early {
		return nil
	}
	most := strconv.Itoa(max(s.o.MaxStalled, 0))
	got, err := checkScript.Exec(ctx, s.client, s.meta, []string{most, millis(s.o.StalledEvery)}).ToArray()
	if err == nil && len(got) != 3 {
		err = errReply
	}
	if err != nil {
		return s.fail(err, "look for dead workers of")
	}
	next, err1 := got[0].AsInt64()
	back, err2 := got[1].AsInt64()
	told, err3 := got[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil {
		return s.fail(err, "look for dead workers of")
	}
	s.mu.Lock()
	s.check = time.Now().Add(time.Duration(next)*time.Millisecond + time.Millisecond)
	s.mu.Unlock()
	if back > 0 {
		s.o.Report(Report{What: Stalled, Count: int(back), Text: fmt.Sprintf("%d jobs of BullMQ queue %q had lost their workers: they wait again", back, s.o.Queue)})
	}
	dead := make([]job, len(told))
	for i, m := range told {
		if dead[i], err = readJob(m); err != nil {
			return s.fail(err, "look for dead workers of")
		}
	}
	for some := range slices.Chunk(dead, settleJobs) {
		if err := s.bury(ctx, some, func(*job) (string, string) { return "-", stalledTooOften }); err != nil {
			return err
		}
	}
	return nil
}

// stalledTooOften is BullMQ's reason for failing such a job.
const stalledTooOften = "job stalled more than allowable limit"

// Progress records how far the work on a job is, for people who look at it: data is any
// JSON, by custom a number up to 100. It returns false where the job is no longer ours.
func (s *Source) Progress(ctx context.Context, m *tidemill.Message, data []byte) (bool, error) {
	n, err := progressScript.Exec(ctx, s.client, s.meta,
		[]string{m.ID, s.token + ":" + strconv.FormatUint(uint64(m.Mark.Epoch), 10), string(data)}).AsInt64()
	return n == 1, s.fail(err, "tell the progress of a job of")
}
