package tabledeadletter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
)

// The keys of groups begin with what no name begins with. The group of those that are in no other
// has no kind. The others end with inGroup. A dead letter for whose group there was no room keeps the
// key of that one with outside as its end: it is found by its cause like the others.
const (
	ofGroups  = "\xfc"
	otherKind = "\xff"
	inGroup   = "\x00"
	outside   = "\x01"
)

func otherKey(pipeline string) string { return string(part([]byte(ofGroups), pipeline)) + otherKind }

// groupOf is the group that a dead letter belongs to, without its size.
func groupOf(r *Record) *Record {
	g := &Record{state: grouped, cause: deadletter.CommonCause(r.Cause)}
	g.Pipeline, g.Kind = r.Pipeline, r.Kind
	g.key = groupKey(r, g.cause)
	return g
}

// groupKey is the key of the group that a dead letter is in, if it died of a cause.
func groupKey(r *Record, cause string) string {
	return string(part(append(part([]byte(ofGroups), r.Pipeline), byte(r.Kind)), cause)) + inGroup
}

// outsideKey is what a dead letter has that would be in a group if there were room for that.
func outsideKey(of string) string { return of[:len(of)-len(inGroup)] + outside }

// countedIn is the key of the group that counts a dead letter.
func countedIn(r *Record) string {
	if strings.HasSuffix(r.group, outside) {
		return otherKey(r.Pipeline)
	}
	return r.group
}

// grouping is how groups and owners change in a transaction.
type grouping struct {
	groups map[string]*joining // by their keys
	owners owners
}

func newGrouping() *grouping { return &grouping{map[string]*joining{}, owners{}} }

// joining is how one of them changes.
type joining struct {
	group  *Record // nil: nobody joins it
	joined []*Record
	left   uint64
}

func (g *grouping) at(key string) *joining {
	if g.groups[key] == nil {
		g.groups[key] = &joining{}
	}
	return g.groups[key]
}

// leave takes a dead letter out of its group and from its owner, which were read, as was its pipeline.
func (g *grouping) leave(r *Record) {
	if r.group != "" {
		g.at(countedIn(r)).left++
		r.group = ""
	}
	g.owners.leave(r)
}

// join puts a dead letter that has died into its group. Which one that is, is decided by write.
func (g *grouping) join(r *Record) {
	to := groupOf(r)
	j := g.at(to.key)
	r.group, j.group, j.joined = to.key, to, append(j.joined, r)
	g.owners.join(r)
}

// write changes groups and owners. The books of the pipelines, which count the groups, are written by
// the caller, and so are the dead letters, afterwards.
func (g *grouping) write(tx table.Tx[Record], of accounts) error {
	if len(g.groups)+len(g.owners) == 0 {
		return nil
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(g.groups)), maps.Keys(g.owners))
	for name := range of {
		keys = append(keys, otherKey(name))
	}
	found, err := tx.Get(keys, "pipeline", "kind", "cause", "size")
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(g.groups)) {
		if j := g.groups[key]; j.group != nil && found[key] == nil {
			g.begin(j, of[j.group.Pipeline])
		}
	}
	rows, gone := g.owners.rows(found)
	for key, j := range g.groups {
		row := found[key]
		if row == nil {
			row = j.group
		}
		if row == nil || len(j.joined) == 0 && j.left == 0 {
			continue
		}
		to := &Record{key: key, state: grouped, cause: row.cause, size: row.size + uint64(len(j.joined)) - j.left}
		to.Pipeline, to.Kind = row.Pipeline, row.Kind
		if to.size > 0 {
			rows = append(rows, to)
			continue
		}
		if gone = append(gone, key); key != otherKey(row.Pipeline) {
			of[row.Pipeline].groups--
		}
	}
	if len(gone) > 0 {
		if err := tx.Delete(gone); err != nil {
			return err
		}
	}
	return tx.Put(rows)
}

// begin makes a new group. Where a pipeline has as many as it may, the dead letters join that of all
// others.
func (g *grouping) begin(j *joining, b *books) {
	if b.groups < deadletter.MaxGroups {
		b.groups++
		return
	}
	other := g.at(otherKey(j.group.Pipeline))
	other.group = &Record{}
	other.group.Pipeline = j.group.Pipeline
	for _, r := range j.joined {
		r.group = outsideKey(r.group)
	}
	other.joined, j.joined = append(other.joined, j.joined...), nil
}

// Groups implements deadletter.Store. It reads the groups, and no dead letters.
func (s *Store[Raw]) Groups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		all = deadletter.Groups{}
		pipelines, err := pipelinesIn(tx, only)
		if err != nil {
			return err
		}
		for _, name := range pipelines {
			q := table.Query[Record]{By: "state", Most: pageMax, Only: append([]string{"kind", "cause", "size"}, place...), Where: among(name, grouped)}
			if err := table.Each(tx, q, func(r *Record) bool {
				if r.key == otherKey(name) {
					all.Other += int(r.size)
				} else {
					all.Groups = append(all.Groups, deadletter.Group{Pipeline: name, Kind: r.Kind, Cause: r.cause, Count: int(r.size)})
				}
				return true
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("read the groups of dead letters: %w", err)
	}
	all.Largest()
	return all, nil
}
