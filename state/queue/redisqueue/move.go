package redisqueue

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// moveJobs are changed by one script.
const moveJobs = 200

// Retry implements queue.Mover.
func (s *Store) Retry(ctx context.Context, f queue.Filter) (int, error) {
	return s.move(ctx, "retry", f, queue.Failed)
}

// Promote implements queue.Mover.
func (s *Store) Promote(ctx context.Context, f queue.Filter) (int, error) {
	return s.move(ctx, "promote", f, queue.Delayed)
}

// Remove implements queue.Mover.
func (s *Store) Remove(ctx context.Context, f queue.Filter) (int, error) {
	return s.move(ctx, "remove", f, queue.Waiting, queue.Delayed, queue.Completed, queue.Failed)
}

// move changes the jobs that a filter chooses, in the states in which that is possible. It
// leaves jobs alone that are added or retried meanwhile.
func (s *Store) move(ctx context.Context, what string, f queue.Filter, states ...queue.State) (n int, err error) {
	if f.Queue == "" {
		return 0, rules.NoQueue()
	}
	for _, state := range states {
		if f.State != "" && f.State != state {
			continue
		}
		of := f
		if of.State = state; f.Max > 0 {
			if of.Max = f.Max - n; of.Max <= 0 {
				return n, nil
			}
		}
		moved, err := s.moveState(ctx, what, of)
		if n += moved; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *Store) moveState(ctx context.Context, what string, f queue.Filter) (n int, err error) {
	var batch []*found
	flush := func() error {
		for len(batch) > 0 {
			part := batch[:min(len(batch), moveJobs)]
			if f.Max > 0 {
				part = part[:min(len(part), f.Max-n)]
			}
			if len(part) == 0 {
				break
			}
			moved, err := s.change(ctx, what, f.Queue, part)
			if n += moved; err != nil {
				return err
			}
			batch = batch[len(part):]
		}
		batch = batch[:0]
		return nil
	}
	for j, err := range s.found(ctx, f) {
		if err != nil {
			return n, err
		}
		if j.damaged != nil && what == "retry" { // as a new job it needs a name
			continue
		}
		if len(batch) > 0 && batch[0].shard != j.shard || len(batch) == moveJobs {
			if err := flush(); err != nil {
				return n, err
			}
		}
		if f.Max > 0 && n == f.Max {
			return n, nil
		}
		batch = append(batch, j)
	}
	return n, flush()
}

// change runs the script for jobs of one shard.
func (s *Store) change(ctx context.Context, what, name string, jobs []*found) (n int, err error) {
	args := []string{name, strconv.Itoa(s.o.Capacity), remember, what}
	for _, j := range jobs {
		args = append(args, j.pos, digest(j.Tenant, j.ID), "")
	}
	took, err := s.run(ctx, moveScript, jobs[0].shard, packed(args, nil)...).ToString()
	if err == nil && len(took) != len(jobs) {
		err = reply("change jobs")
	}
	if err != nil {
		return 0, failed(err, "%s %d jobs of queue %q", what, len(jobs), name)
	}
	for _, t := range took {
		switch t {
		case '1':
			n++
		case '3', '4':
			err = cmp.Or(err, rules.Refused(queue.Added(t-'0'), name))
		}
	}
	return n, err
}

// find returns one job, or ErrNotFound.
func (s *Store) find(ctx context.Context, n queue.Name) (*found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var newest *found
	for shard := range s.tags {
		some, err := s.positions(ctx, shard, []string{n.Queue, "ids", digest(n.Tenant, n.ID)})
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			continue
		}
		p, err := s.page(ctx, n.Queue, shard, append([]string{"these"}, some...)...)
		if err != nil {
			return nil, err
		}
		for _, j := range p.jobs {
			if j.damaged != nil { // it has the name's digest
				return nil, j.damaged
			}
			if j.ID == n.ID && j.Tenant == n.Tenant && (newest == nil || j.Added.After(newest.Added)) {
				newest = j
			}
		}
	}
	if newest == nil {
		return nil, queue.NotFound(n)
	}
	return newest, nil
}

// Look implements queue.Mover.
func (s *Store) Look(ctx context.Context, n queue.Name) (*queue.Job, error) {
	j, err := s.find(ctx, n)
	if err != nil {
		return nil, err
	}
	return &j.Job, nil
}

// editTries is how often an edit is made anew because the job changed meanwhile.
const editTries = 10

// Edit implements queue.Mover.
func (s *Store) Edit(ctx context.Context, n queue.Name, payload []byte, seen string) error {
	for range editTries {
		j, err := s.find(ctx, n)
		if err != nil {
			return err
		}
		switch err := rules.CheckEdit(n.Queue, &j.Message, payload, seen); {
		case err == nil: // the script wants the record that was read
		case j.State == queue.Completed:
			return queue.NotFound(n)
		case j.State == queue.Leased:
			return queue.Out(n)
		default:
			return err
		}
		p, err := s.packer(ctx, j.shard, n.Queue, nil)
		if err != nil {
			return err
		}
		m := j.Message
		m.Payload = payload
		rec := append([]byte(j.rec[:addedBytes]), appendRecord(nil, &m, p)...)
		packs := p.with(nil, n.Queue)
		took, err := s.run(ctx, moveScript, j.shard, packed([]string{n.Queue, strconv.Itoa(s.o.Capacity), remember, "edit",
			j.pos, "", rueidis.BinaryString(rec), j.rec}, packs)...).ToString()
		if err != nil {
			return failed(err, "edit job %q of queue %q", n.ID, n.Queue)
		}
		switch took {
		case "":
			s.forget(j.shard, packs)
		case "1":
			return nil
		case "5":
			return queue.Out(n)
		case "0":
			return queue.NotFound(n)
		}
	}
	return tidemill.Fail(tidemill.Transient, "edit job %q of queue %q: others change it all the time", n.ID, n.Queue)
}
