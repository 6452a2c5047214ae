package redisdeadletter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
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

// groups are those that Groups found last. Nothing is read again while nothing has died or gone; else,
// by the numbers of dead letters, not the failures that are known, which are most of what there is to
// read.
type groups struct {
	mu    sync.Mutex // guards what follows, which is replaced and not changed
	found map[int64]grouped
	at    extent // before they were read
	all   deadletter.Groups
}

// extent tells dead letters from what they were: each that came, died again or went is counted, and
// others add entries to the stream and remove some.
type extent struct {
	deaths, last string // the second: entry that was ever added
	length       int64
}

func (s *Store) extent(ctx context.Context) (e extent, err error) {
	says, err := extentScript.Exec(ctx, s.client, []string{s.deaths, s.stream}, nil).ToArray()
	if err != nil {
		return e, failed(err)
	}
	e.deaths, _ = says[0].ToString()
	e.last, _ = says[1].ToString()
	e.length, err = says[2].AsInt64()
	return e, err
}

func (g *groups) last() (found map[int64]grouped, at extent, all deadletter.Groups) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.found, g.at, g.all
}

func (g *groups) keep(found map[int64]grouped, at extent, all deadletter.Groups) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found, g.at, g.all = found, at, all
}

// Groups implements deadletter.Store. It looks at the newest dead letters, without their messages.
func (s *Store) Groups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	at, err := s.extent(ctx)
	if err != nil {
		return all, fmt.Errorf("look for the groups of dead letters: %w", err)
	}
	last, was, known := s.groups.last()
	if only == nil && at == was && known.Groups != nil {
		known.Groups = slices.Clone(known.Groups)
		return known, nil
	}
	found := map[int64]grouped{}
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
			c := cause{r.Pipeline, r.Kind, deadletter.CommonCause(r.Cause)}
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
	for of, n := range counts {
		all.Groups = append(all.Groups, deadletter.Group{Pipeline: of.pipeline, Kind: of.kind, Cause: of.cause, Count: n})
	}
	if len(found) == groupsMax {
		all.Looked = groupsMax
	}
	all.Largest()
	if only == nil {
		s.groups.keep(found, at, all)
		all.Groups = slices.Clone(all.Groups)
	}
	return all, nil
}
