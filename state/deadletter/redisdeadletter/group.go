package redisdeadletter

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// groupsMax is how many dead letters are looked at for their groups: the newest.
const groupsMax = 10_000

// Groups implements deadletter.Store. It looks at the newest dead letters, without their messages.
func (s *Store) Groups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	type name struct {
		pipeline string
		kind     tidemill.Kind
		cause    string
	}
	counts, looked := map[name]int{}, 0
	err = s.scan(ctx, deadletter.Filter{Only: only, Back: true, Max: groupsMax}, func(page []stored) error {
		seqs := make([]int64, len(page))
		for i, r := range page {
			seqs[i] = r.Seq
		}
		letters, err := s.letters(ctx, seqs, true)
		for _, r := range letters {
			counts[name{r.Pipeline, r.Kind, rules.CommonCause(r.Cause)}]++
			looked++
		}
		return err
	})
	if err != nil {
		return all, fmt.Errorf("look for the groups of dead letters: %w", err)
	}
	for of, n := range counts {
		all.Groups = append(all.Groups, deadletter.Group{Pipeline: of.pipeline, Kind: of.kind, Cause: of.cause, Count: n})
	}
	if looked == groupsMax {
		all.Looked = looked
	}
	all.Largest()
	return all, nil
}
