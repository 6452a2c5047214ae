package redisdeadletter

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// groupsMax is how many dead letters are looked at for their groups: the newest.
const groupsMax = 10_000

// cause is what groups have in common.
type cause struct {
	pipeline string
	kind     tidemill.Kind
	cause    string
}

// grouped is the group of a dead letter since its last death. A database that went back to an older
// copy gives numbers again: the time tells such ones apart.
type grouped struct {
	deaths int
	last   int64 // when it last died, in ms
	of     *cause
}

// groups are those that Groups found last, by the numbers of dead letters: their failures, which are
// most of what there is to read, are not read again.
type groups struct {
	mu    sync.Mutex // guards found, which is replaced and not changed
	found map[int64]grouped
}

func (g *groups) last() map[int64]grouped {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.found
}

func (g *groups) keep(found map[int64]grouped) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = found
}

// Groups implements deadletter.Store. It looks at the newest dead letters, without their messages.
func (s *Store) Groups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	last, found := s.groups.last(), map[int64]grouped{}
	counts, causes := map[*cause]int{}, map[cause]*cause{}
	err = s.scan(ctx, deadletter.Filter{Only: only, Back: true, Max: groupsMax}, func(page []stored) error {
		var unread []int64
		for _, r := range page {
			if g, ok := last[r.Seq]; !ok || g.deaths != r.Deaths || g.last != r.Last.UnixMilli() {
				unread = append(unread, r.Seq)
			} else {
				found[r.Seq] = g
				counts[g.of]++
				causes[*g.of] = g.of
			}
		}
		letters, err := s.letters(ctx, unread, true) // without those that are gone by now
		if err != nil {
			return err
		}
		for _, r := range letters {
			c := cause{r.Pipeline, r.Kind, rules.CommonCause(r.Cause)}
			of := causes[c]
			if of == nil {
				of = &c
				causes[c] = of
			}
			found[r.Seq] = grouped{r.Deaths, r.Last.UnixMilli(), of}
			counts[of]++
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("look for the groups of dead letters: %w", err)
	}
	s.groups.keep(found)
	for of, n := range counts {
		all.Groups = append(all.Groups, deadletter.Group{Pipeline: of.pipeline, Kind: of.kind, Cause: of.cause, Count: n})
	}
	if len(found) == groupsMax {
		all.Looked = groupsMax
	}
	all.Largest()
	return all, nil
}
