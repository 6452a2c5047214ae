package redisqueue

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill/state/queue"
)

// Knows implements queue.Register.
func (s *Store) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	if err := queue.CheckKnows(ctx, names, known); err != nil {
		return err
	}
	type place struct {
		shard int
		queue string
	}
	of := map[place][]int{}
	var places []place // in the order in which they are named
	for i, n := range names {
		p := place{s.shard(n.ID), n.Queue}
		if of[p] == nil {
			places = append(places, p)
		}
		of[p] = append(of[p], i)
	}
	for _, p := range places {
		for part := range slices.Chunk(of[p], addJobs) {
			args := make([]string, 2, 2+len(part))
			args[0], args[1] = p.queue, remember
			for _, i := range part {
				args = append(args, digest(names[i].Tenant, names[i].ID))
			}
			said, err := s.run(ctx, knowsScript, p.shard, args...).ToString()
			if err == nil && len(said) != len(part) {
				err = reply("look for names")
			}
			if err != nil {
				return failed(err, "look for %d names in queue %q", len(part), p.queue)
			}
			for k, i := range part {
				known[i] = said[k] == '1'
			}
		}
	}
	return nil
}
