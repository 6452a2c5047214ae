package bullmqsource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
)

// takeJobs is how many jobs one script takes, at most.
const takeJobs = 512

// Receive implements tidemill.Source, in BullMQ's order: jobs without a priority first, the
// oldest before the newer, then by priority. Messages of one call share memory.
func (s *Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if ctx.Err() != nil || len(into) == 0 {
			return 0, context.Cause(ctx)
		}
		n, err := s.receive(ctx, into[:min(len(into), takeJobs)])
		if n > 0 {
			return n, nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			return 0, err
		}
	}
}

// receive makes one step: it hands out, or waits.
func (s *Source) receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := s.known(ctx); err != nil {
		return 0, err
	}
	if err := s.tend(ctx); err != nil {
		return 0, err
	}
	if s.missed {
		if n, err := s.again(ctx, into); n > 0 || err != nil {
			return n, err
		}
	}
	s.present(ctx)
	room, err := s.room(ctx, len(into))
	if err != nil {
		return 0, err
	}
	if room == 0 { // do not take a marker from workers with room
		s.workers.full = min(max(2*s.workers.full, fullFor), fullMost)
		return 0, sleep.For(ctx, s.workers.full)
	}
	s.workers.full = 0
	n, rest, err := s.take(ctx, into[:room])
	if n > 0 || err != nil || rest.more {
		return n, err
	}
	return 0, s.wait(ctx, rest)
}

// rest is why there was nothing to take.
type rest struct {
	more  bool          // there was something, but nothing to hand out
	limit time.Duration // imposed by a limit; 0: none
	due   time.Duration // until the next delayed job is due; below 0: none
}

// finishing goes on for a little when ctx has ended: the answer tells which jobs a script has
// taken by then; else they wait for the end of their locks.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	on, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-on.Done():
		}
	})
	return on, func() { stop(); cancel() }
}

// take asks for jobs. It ends jobs that another one's failure has failed already, and does not
// hand them out.
func (s *Source) take(ctx context.Context, into []*tidemill.Message) (int, rest, error) {
	on, cancel := finishing(ctx)
	defer cancel()
	args := []string{strconv.Itoa(len(into)), s.token, millis(s.o.Lease), s.o.Worker, "", ""}
	if s.o.Limit.Jobs > 0 {
		args[4], args[5] = strconv.Itoa(s.o.Limit.Jobs), millis(s.o.Limit.Per)
	}
	args = s.plans.args(args)
	s.missed = true
	got, err := takeScript.Exec(on, s.client, s.meta, args).ToArray()
	if err == nil && len(got) != 5 {
		err = errReply
	}
	if err != nil {
		return 0, rest{}, s.fail(err, "take jobs of")
	}
	limit, err1 := got[0].AsInt64()
	due, err2 := got[1].AsInt64()
	jobs, err3 := got[3].ToArray()
	asked, err4 := got[4].ToArray()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return 0, rest{}, s.fail(err, "take jobs of")
	}
	s.missed = false
	if err := s.learn(asked); err != nil {
		return 0, rest{}, s.fail(err, "take jobs of")
	}
	n, err := s.hand(on, jobs, into)
	return n, rest{more: len(jobs)+len(asked) > 0, limit: time.Duration(limit) * time.Millisecond, due: time.Duration(due) * time.Millisecond}, err
}

// again hands out the jobs of an answer that was lost.
func (s *Source) again(ctx context.Context, into []*tidemill.Message) (int, error) {
	on, cancel := finishing(ctx)
	defer cancel()
	s.mu.Lock()
	args := append(make([]string, 0, 3+len(s.outs)), s.token, millis(s.o.Lease), strconv.Itoa(len(into)))
	for id := range s.outs {
		args = append(args, id)
	}
	s.mu.Unlock()
	jobs, err := againScript.Exec(on, s.client, s.meta, args).ToArray()
	if err != nil {
		return 0, s.fail(err, "look for our jobs of")
	}
	s.missed = len(jobs) == len(into)
	if len(jobs) > 0 {
		s.o.Report(Report{What: Found, Count: len(jobs), Text: fmt.Sprintf("an answer of Redis with %d jobs of BullMQ queue %q was lost: they are handed out", len(jobs), s.o.Queue)})
	}
	return s.hand(on, jobs, into)
}

// hand makes messages of jobs.
func (s *Source) hand(ctx context.Context, told []rueidis.RedisMessage, into []*tidemill.Message) (n int, err error) {
	var dead []job
	s.mu.Lock()
	for _, m := range told {
		j, err := readJob(m)
		if err != nil || n == len(into) {
			s.mu.Unlock()
			s.missed = true
			return n, s.fail(errors.Join(errReply, err), "take jobs of")
		}
		h := hold{hand: uint32(j.hand), tries: int(j.tries), opts: s.cache.read(j.options)}
		s.outs[j.id] = h
		if j.deferred != "" {
			dead = append(dead, j)
			continue
		}
		j.message(into[n], s.o.Queue, s.o.Trace)
		n++
	}
	s.mu.Unlock()
	if len(dead) > 0 {
		err = s.bury(ctx, dead, func(j *job) (string, string) { return strconv.FormatInt(j.hand, 10), j.deferred })
	}
	return n, err
}

// wait waits until there may be something to take: until the marker is set, the next delayed
// job is due, a limit ends, or dead workers are to be looked for.
func (s *Source) wait(ctx context.Context, r rest) error {
	s.mu.Lock()
	wait := min(longest, time.Until(s.check))
	s.mu.Unlock()
	if s.workers.others > 0 {
		wait = min(wait, beside)
	}
	if r.due >= 0 {
		wait = min(wait, r.due)
	}
	if r.limit > 0 { // all jobs have to wait: do not take a marker from workers without the limit
		return sleep.For(ctx, max(min(wait, r.limit), time.Millisecond))
	}
	if until, ok := ctx.Deadline(); ok {
		// The server ends the wait, and the connection lives on.
		left := time.Until(until) - 2*time.Millisecond
		if left < time.Millisecond {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		wait = min(wait, left)
	}
	if wait <= 0 {
		return nil
	}
	wait = max(wait, time.Millisecond)                     // 0 is for ever
	limit, cancel := context.WithTimeout(ctx, wait+answer) // an answer must come, even if the server freezes
	defer cancel()
	err := s.client.Do(limit, s.client.B().Bzpopmin().Key(s.base+"marker").Timeout(wait.Seconds()).Build().UnblockOnCancel()).Error()
	switch {
	case ctx.Err() != nil: // the marker may have been for us
		s.wake(ctx)
		return context.Cause(ctx)
	case err == nil, rueidis.IsRedisNil(err), errors.Is(err, context.DeadlineExceeded) && limit.Err() == nil:
		return nil
	}
	return s.fail(err, "wait for jobs of")
}

// wake gives back a wake-up that we may have taken, so that another worker has it. If that fails
// it costs some seconds: all look again after a while.
func (s *Source) wake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = wakeScript.Exec(ctx, s.client, s.meta, nil).Error()
}
