package redisdeadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
	"github.com/tidemill/tidemill/state/internal/leases"
)

const (
	receiveMax = 500              // dead letters of one Receive
	answer     = 10 * time.Second // how much longer than a wait its answer may take
)

// source hands out the replaying dead letters of one pipeline.
type source struct {
	s        *Store
	pipeline string
	out      leases.Book
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements deadletter.Store. Its sources learn of replays requested at any instance.
func (s *Store) Open(pipeline string) tidemill.Source {
	return &source{s: s, pipeline: pipeline}
}

// PipelineOfLetters is for deadletter.PipelineOf.
func (c *source) PipelineOfLetters() string { return c.pipeline }

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if err := ctx.Err(); err != nil || len(into) == 0 {
			return 0, err
		}
		n, wait, wake, err := c.take(ctx, into)
		if err != nil {
			return 0, fmt.Errorf("receive replays of %q: %w", c.pipeline, err)
		}
		if n > 0 {
			return n, nil
		}
		if err := c.wait(ctx, wait, wake); err != nil {
			return 0, err
		}
	}
}

// wait blocks until a wake newer than since, or for d.
func (c *source) wait(ctx context.Context, d time.Duration, since string) error {
	var at time.Time // the wait is of a length, whatever the clock says
	_, err := redisconn.Await(ctx, c.s.client, at, answer, redisconn.Wake{Stream: c.s.wakes(c.pipeline), Seen: since, Rest: at.Add(d)})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("wait for replays of %q: %w", c.pipeline, failed(err))
	}
	return ctx.Err()
}

// take hands out due dead letters, or says how long to wait at most, and since which wake.
func (c *source) take(ctx context.Context, into []*tidemill.Message) (n int, wait time.Duration, wake string, err error) {
	for range tries {
		now := c.s.o.Now()
		found, next, wake, err := c.due(ctx, now, min(len(into), receiveMax))
		if err != nil {
			return 0, 0, "", err
		}
		if len(found) == 0 {
			if wait = redisconn.Longest; next > 0 {
				wait = time.UnixMilli(next).Sub(now)
			}
			return 0, wait, wake, nil
		}
		if n, err = c.lease(ctx, found, now, into); n > 0 || err != nil {
			return n, 0, "", err
		}
	}
	return 0, 0, "", tidemill.Fail(tidemill.Transient, "others take the letters all the time")
}

// due returns the oldest dead letters that may be handed out, the time of the next that may
// be (0: none), and the newest wake.
func (c *source) due(ctx context.Context, now time.Time, most int) (found []stored, next int64, wake string, err error) {
	s := c.s
	answer, err := dueScript.Exec(ctx, s.client, []string{s.ready(c.pipeline), s.later(c.pipeline), s.meta, s.wakes(c.pipeline)},
		[]string{strconv.FormatInt(now.UnixMilli(), 10), strconv.Itoa(most)}).ToArray()
	if err != nil {
		return nil, 0, "", failed(err)
	}
	if found, _, err = s.pairs(answer[0], answer[1]); err != nil {
		return nil, 0, "", err
	}
	times, err := answer[2].AsStrSlice()
	if err != nil {
		return nil, 0, "", err
	}
	if len(times) == 2 {
		at, err := strconv.ParseFloat(times[1], 64)
		if err != nil {
			return nil, 0, "", err
		}
		next = int64(at)
	}
	wake, err = answer[3].ToString()
	return found, next, wake, err
}

// lease takes dead letters for this source where no other was faster, and then reads their
// messages. Those whose message is damaged are held again.
func (c *source) lease(ctx context.Context, found []stored, now time.Time, into []*tidemill.Message) (n int, err error) {
	var leased commit
	for _, r := range found {
		r.Lease(now, c.s.o.Lease)
		leased.changes = append(leased.changes, change{kind: "set", r: r.Record, old: r.old})
	}
	made, err := leased.run(ctx, c.s)
	if err != nil {
		return 0, err
	}
	marks := map[int64]tidemill.Mark{}
	var seqs []int64
	for i, r := range found {
		if made[i] {
			marks[r.Seq] = r.Position()
			seqs = append(seqs, r.Seq)
		}
	}
	letters, err := c.s.whole(ctx, seqs, receiveMax)
	if err != nil {
		return 0, err // they come back when the lease ends
	}
	var broken commit
	for _, r := range letters {
		switch {
		case !r.Holds(marks[r.Seq]): // it died on another path meanwhile
		case r.Damaged != "":
			r.Break(now)
			broken.changes = append(broken.changes, change{kind: "set", r: r.Record, old: r.old, history: true})
		default:
			r.Fill(into[n])
			c.out.Add(r.Position(), "")
			n++
		}
	}
	if len(broken.changes) > 0 {
		if _, err := broken.run(ctx, c.s); err != nil && n == 0 {
			return 0, err // else they come again, and are found damaged again
		}
	}
	return n, nil
}

// Settle implements tidemill.Source: one lookup and one script, and both again for dead
// letters that changed in between.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), leases.Check(ends)); err != nil {
		return err
	}
	var open []int
	for i := range tidemill.ByIDFirst(ends) {
		if ends[i].Outcome == tidemill.Unanswered {
			open = append(open, i)
		}
	}
	for range tries {
		if len(open) == 0 {
			return nil
		}
		var err error
		if open, err = c.settle(ctx, ends, open); err != nil {
			return fmt.Errorf("settle %d replays of %q: %w", len(ends), c.pipeline, err)
		}
	}
	return tidemill.Fail(tidemill.Transient, "settle %d replays of %q: others change them all the time", len(ends), c.pipeline)
}

// settle tries once, and returns those that have to be tried again.
func (c *source) settle(ctx context.Context, ends []tidemill.Settlement, open []int) (again []int, err error) {
	now := c.s.o.Now()
	bySeq, byID, err := c.lookup(ctx, ends, open)
	if err != nil {
		return nil, err
	}
	var batch commit
	at := map[int64]int{}       // index of its change
	took := map[int][]int{}     // settlements of each change: those applied first
	stale := map[int][]int{}    // and those that came after
	answers := map[int]bool{}   // of those that are stale in any case
	ended := map[int64]bool{}   // gone in this batch
	original := map[int64]int{} // failures when it was read
	for _, i := range open {
		e := &ends[i]
		r, ok := stored{}, false
		if e.Mark == (tidemill.Mark{}) {
			r, ok = holding(byID[e.ID])
		} else {
			r, ok = bySeq[int64(e.Mark.Lo)]
		}
		if !ok || r.Pipeline != c.pipeline {
			answers[i] = true
			continue
		}
		k, changed := at[r.Seq]
		if ended[r.Seq] || !r.Holds(e.Mark) {
			if changed {
				stale[k] = append(stale[k], i)
			} else {
				answers[i] = true
			}
			continue
		}
		if !changed {
			k = len(batch.changes)
			at[r.Seq] = k
			original[r.Seq] = r.Deaths
			batch.changes = append(batch.changes, change{kind: "set", r: r.Record, old: r.old})
		}
		took[k] = append(took[k], i)
		ch := &batch.changes[k]
		if r.Settle(e, now) {
			ended[r.Seq] = true
			ch.kind, ch.book = "del", "skipped"
			if rules.Ended(e).Delivered > 0 {
				ch.book = "replayed"
			}
		}
		ch.history = r.Deaths != original[r.Seq]
	}
	made := []bool{}
	if len(batch.changes) > 0 {
		if made, err = batch.run(ctx, c.s); err != nil {
			return nil, err
		}
	}
	for i := range answers {
		ends[i].Outcome = tidemill.Stale
	}
	for k, ok := range made {
		if !ok {
			continue
		}
		for _, i := range took[k] {
			ends[i].Outcome = tidemill.Applied
		}
		for _, i := range stale[k] {
			ends[i].Outcome = tidemill.Stale
		}
	}
	var marks []tidemill.Mark // the stale ones too; Keep forgets one without a mark
	for _, i := range open {
		if ends[i].Outcome == tidemill.Unanswered {
			again = append(again, i)
			continue
		}
		marks = append(marks, ends[i].Mark)
	}
	c.out.Forget(marks...)
	return again, nil
}

// lookup finds the dead letters of the settlements: by position, and by ID where they have
// none.
func (c *source) lookup(ctx context.Context, ends []tidemill.Settlement, open []int) (bySeq map[int64]stored, byID map[string][]stored, err error) {
	var seqs []int64
	var fields []string
	for _, i := range open {
		if e := &ends[i]; e.Mark == (tidemill.Mark{}) {
			fields = append(fields, idField(c.pipeline, e.ID))
		} else if e.Mark.Lo < newest {
			seqs = append(seqs, int64(e.Mark.Lo))
		}
	}
	bySeq, byID = map[int64]stored{}, map[string][]stored{}
	found, err := c.s.find(ctx, fields)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range found {
		for _, r := range l.letters {
			bySeq[r.Seq] = r
			byID[r.ID] = append(byID[r.ID], r)
		}
	}
	seqs = slices.DeleteFunc(seqs, func(seq int64) bool { _, ok := bySeq[seq]; return ok })
	letters, err := c.s.letters(ctx, seqs, true)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(bySeq, letters)
	return bySeq, byID, nil
}

// holding is the oldest of these dead letters that is handed out.
func holding(rs []stored) (oldest stored, ok bool) {
	for _, r := range rs {
		if r.Holds(tidemill.Mark{}) && (!ok || r.Seq < oldest.Seq) {
			oldest, ok = r, true
		}
	}
	return oldest, ok
}

// Books implements tidemill.Bookkeeper, from one snapshot. Pending is counted in the store.
func (c *source) Books(ctx context.Context) (tidemill.Books, error) {
	s := c.s
	if err := cmp.Or(ctx.Err(), s.adopt(ctx)); err != nil {
		return tidemill.Books{}, fmt.Errorf("read the books of dead letters of %q: %w", c.pipeline, err)
	}
	n, err := booksScript.Exec(ctx, s.client, s.keysOf(c.pipeline), nil).AsIntSlice()
	if err != nil || len(n) != 5 {
		return tidemill.Books{}, fmt.Errorf("read the books of dead letters of %q: %w", c.pipeline, cmp.Or(failed(err), errors.ErrUnsupported))
	}
	return tidemill.Books{Accepted: uint64(n[0]), Settled: tidemill.Count{Delivered: uint64(n[1]), Skipped: uint64(n[2])},
		Lost: uint64(n[3]), Pending: uint64(n[4])}, nil
}
