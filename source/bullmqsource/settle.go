package bullmqsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

const (
	settleJobs = 512  // that one script ends
	maxCause   = 2000 // bytes of a failure that are kept of each attempt
)

// Settle implements tidemill.Source. Where a job has no attempts left, a retry (Again, with
// CountTry) fails it for good: its settlement is then changed to say so (Done, Dead). Where a
// finished job has unfinished children, it has failed, as with BullMQ, and its settlement is
// changed to say that.
func (s *Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	part := make([]ending, 0, min(len(ends), settleJobs))
	var others []int // by ID alone, or of another source's hand-out
	s.mu.Lock()
	for i := range ends {
		e := &ends[i]
		if e.Outcome != tidemill.Unanswered {
			continue
		}
		h, ours := s.outs[e.ID]
		if !ours || h.hand != e.Mark.Epoch {
			others = append(others, i)
			continue
		}
		part = append(part, ending{index: i, hold: h, hand: strconv.FormatUint(uint64(h.hand), 10)})
	}
	s.mu.Unlock()
	if len(others) > 0 {
		found, err := s.look(ctx, ends, others)
		if err != nil {
			return err
		}
		part = append(found, part...) // acks from outside come first here, too
	}
	for from := 0; from < len(part); from += settleJobs {
		if err := s.settle(ctx, ends, part[from:min(from+settleJobs, len(part))]); err != nil {
			return err
		}
	}
	return nil
}

// ending is one settlement to be sent.
type ending struct {
	index int
	hold
	hand string // in the script's form: the hand-out, by us or (*) by another source; empty: any
	last bool   // it fails for good
}

// look reads what is needed to end jobs that are not ours, or not any more.
func (s *Source) look(ctx context.Context, ends []tidemill.Settlement, others []int) ([]ending, error) {
	commands := make(rueidis.Commands, len(others))
	for i, at := range others {
		commands[i] = s.client.B().Hmget().Key(s.base+ends[at].ID).Field("timestamp", "atm", "opts").Build()
	}
	found := make([]ending, 0, len(others))
	for i, res := range s.client.DoMulti(ctx, commands...) {
		f, err := res.ToArray()
		if err != nil || len(f) != 3 {
			return nil, s.fail(errors.Join(errReply, err), "look at jobs of")
		}
		e := &ends[others[i]]
		if f[0].IsNil() {
			e.Outcome = tidemill.Stale // the job does not exist
			continue
		}
		tries, _ := f[1].AsInt64()
		options, _ := f[2].ToString()
		p := ending{index: others[i]}
		if e.Mark != (tidemill.Mark{}) {
			p.hand = "*" + strconv.FormatUint(uint64(e.Mark.Epoch), 10)
		}
		s.mu.Lock()
		p.hold = hold{tries: int(tries), opts: s.cache.read(options)}
		s.mu.Unlock()
		found = append(found, p)
	}
	return found, nil
}

// settle ends one part.
func (s *Source) settle(ctx context.Context, ends []tidemill.Settlement, part []ending) error {
	args := append(make([]string, 0, 2+6*len(part)), s.token, strconv.Itoa(s.o.Metrics))
	for i := range part {
		args = s.code(args, &ends[part[i].index], &part[i])
	}
	took, err := s.run(ctx, args, len(part))
	if err != nil {
		return err
	}
	var children []ending
	s.mu.Lock()
	for i := range part {
		p, e := &part[i], &ends[part[i].index]
		switch took[i] {
		case '1':
			e.Outcome = tidemill.Applied
			if p.last {
				e.End, e.Fate = tidemill.Done, tidemill.Dead
			}
		case '2':
			children = append(children, *p)
			continue
		default:
			e.Outcome = tidemill.Stale
		}
		if h, ours := s.outs[e.ID]; ours && (p.hand != "" && h.hand == e.Mark.Epoch || p.hand == "" && took[i] == '1') {
			delete(s.outs, e.ID)
		}
	}
	s.mu.Unlock()
	if len(children) == 0 {
		return nil
	}
	for _, p := range children {
		e := &ends[p.index]
		e.End, e.Fate, e.CountTry, e.Kind, e.Cause = tidemill.Again, tidemill.None, true, tidemill.Business, "it has children that have not completed"
	}
	return s.settle(ctx, ends, children)
}

// run has the script end jobs, and returns its answer to each.
func (s *Source) run(ctx context.Context, args []string, n int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	took, err := settleScript.Exec(ctx, s.client, s.meta, args).ToString()
	if err == nil && len(took) != n {
		err = errReply
	}
	return took, s.fail(err, "end jobs of")
}

// code writes a settlement in the script's form.
func (s *Source) code(args []string, e *tidemill.Settlement, p *ending) []string {
	args = append(args, e.ID, p.hand)
	switch {
	case e.End == tidemill.Left:
		return append(args, "l")
	case e.End == tidemill.Again && !e.CountTry:
		return append(args, "p", upwards(e.After))
	case e.End == tidemill.Again:
		wait, more := s.next(e, p)
		if p.last = !more; p.last {
			return s.failure(args, p.opts, reason(e), trace(e))
		}
		push := "LPUSH"
		if p.opts.lifo {
			push = "RPUSH"
		}
		return append(args, "r", upwards(wait), push, reason(e), trace(e), p.opts.traces)
	case e.Fate == tidemill.Dead:
		return s.failure(args, p.opts, reason(e), trace(e))
	}
	value := "null"
	if e.Fate == tidemill.Skipped {
		value = `{"skipped":` + quote(e.Cause) + `}`
	}
	keep := p.opts.completed
	if keep == "" {
		keep = s.o.KeepCompleted.rule()
	}
	return append(args, "c", value, keep)
}

// failure fails a job for good.
func (s *Source) failure(args []string, o *options, reason, trace string) []string {
	keep := o.failed
	if keep == "" {
		keep = s.o.KeepFailed.rule()
	}
	return append(args, "f", reason, keep, trace, o.traces, strconv.Itoa(o.attempts), o.onFailure)
}

// next says how long a job waits after a failed try, and whether it is tried again at all: the
// job's options take precedence over the pipeline's.
func (s *Source) next(e *tidemill.Settlement, p *ending) (time.Duration, bool) {
	failed := p.tries + 1
	if failed >= p.opts.attempts {
		return 0, false
	}
	wait, says := p.opts.backoff.wait(failed, chance(), s.o.Backoff)
	switch {
	case !says:
		return e.After, true
	case wait < 0:
		return 0, false
	}
	return wait, true
}

// bury fails jobs without work on them. Each is named by its hand-out and the reason. They are
// ours no more, also after an error: then they come again when their locks end.
func (s *Source) bury(ctx context.Context, dead []job, why func(*job) (hand, reason string)) error {
	args := append(make([]string, 0, 2+9*len(dead)), s.token, strconv.Itoa(s.o.Metrics))
	ids := make([]string, len(dead))
	s.mu.Lock()
	for i := range dead {
		j := &dead[i]
		hand, reason := why(j)
		ids[i] = j.id
		args = s.failure(append(args, j.id, hand), s.cache.read(j.options), reason, quote(reason))
	}
	s.mu.Unlock()
	took, err := s.run(ctx, args, len(dead))
	s.mu.Lock()
	for i := range dead {
		if h, ours := s.outs[ids[i]]; ours && int64(h.hand) == dead[i].hand {
			delete(s.outs, ids[i])
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if n := strings.Count(took, "1"); n > 0 {
		_, reason := why(&dead[0])
		s.o.Report(Report{What: Failed, Count: n, IDs: ids[:min(len(ids), 100)],
			Text: fmt.Sprintf("%d jobs of BullMQ queue %q were failed before anybody worked on them again (%s)", n, s.o.Queue, reason)})
	}
	return nil
}

// reason is a failure as BullMQ's users see it.
func reason(e *tidemill.Settlement) string {
	r := e.Cause
	if r == "" {
		r = e.Kind.String()
	}
	return cut(r)
}

// trace is the entry of a failure in a job's stacktrace, as JSON.
func trace(e *tidemill.Settlement) string { return quote(cut(e.Kind.String() + ": " + e.Cause)) }

func cut(s string) string {
	if len(s) > maxCause {
		s = s[:maxCause]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func quote(s string) string {
	b, _ := json.Marshal(strings.ToValidUTF8(s, "\uFFFD")) // a string always can be
	return string(b)
}

// upwards is a wait in ms, rounded up.
func upwards(d time.Duration) string {
	return strconv.FormatInt(max(0, (d.Microseconds()+999)/1000), 10)
}
