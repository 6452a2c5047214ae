package postgresperson

import (
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// cache remembers what a person was last seen to know, by distinct id. It may be out of
// date, since other processes write too, and that is harmless. A person never forgets, also
// not by being merged into another, so what it knew once need not be written again. Locking
// the person checks that a distinct id still belongs to it.
type cache struct {
	mu    sync.Mutex // guards all below; held for short work in memory
	known *simplelru.LRU[person.Ref, known]
	bytes int // of known
	most  int
}

// known is a person as it is stored, at least.
type known struct {
	id                         uuid.UUID
	createdMilli, updatedMilli int64
	identified                 bool
	registers                  []byte
}

// overhead is about what an entry takes in memory beside its distinct id and registers.
const overhead = 320

func newCache(bytes int) (*cache, error) {
	c := &cache{most: bytes}
	var err error
	c.known, err = simplelru.NewLRU(max(bytes/overhead, 1), func(r person.Ref, k known) { c.bytes -= k.size(r) })
	return c, err
}

func (k known) size(r person.Ref) int { return overhead + len(r.Distinct) + cap(k.registers) }

func (k known) covers(d *rules.Delta) bool {
	return rules.Covers(k.createdMilli, k.updatedMilli, k.registers, d)
}

// person returns the person last seen with a distinct id.
func (c *cache) person(r person.Ref) (uuid.UUID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known.Peek(r)
	return k.id, ok
}

// news returns the changes that may say more than is known. It judges only those without
// properties; the others are worth gathering first.
func (c *cache) news(changes []person.Change) []person.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := make([]person.Change, 0, len(changes)/2)
	for i := range changes {
		ch := &changes[i]
		if len(ch.Properties) == 0 {
			at := ch.At.UnixMilli()
			if k, ok := c.known.Get(ch.Ref); ok && k.covers(&rules.Delta{FirstMilli: at, LastMilli: at}) {
				continue
			}
		}
		rest = append(rest, *ch)
	}
	return rest
}

// unknown returns the deltas that say more than is known, in the memory of deltas.
func (c *cache) unknown(deltas []rules.Delta) []rules.Delta {
	ks := make([]known, len(deltas))
	oks := make([]bool, len(deltas))
	c.mu.Lock()
	for i := range deltas {
		ks[i], oks[i] = c.known.Get(deltas[i].Ref)
	}
	c.mu.Unlock()
	rest := deltas[:0]
	for i := range ks {
		if !oks[i] || !ks[i].covers(&deltas[i]) {
			rest = append(rest, deltas[i])
		}
	}
	return rest
}

// apart returns the merges that may change something, and their indexes in merges; it gives
// the others their outcome. Two distinct ids that were one person once always will be, and
// a person that was identified stays so.
func (c *cache) apart(merges []person.Merge, outcomes []person.Outcome) (rest []person.Merge, of []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest, of = make([]person.Merge, 0, len(merges)), make([]int, 0, len(merges))
	for i := range merges {
		m := &merges[i]
		into, ok := c.known.Get(m.Ref)
		other, both := c.known.Get(person.Ref{Project: m.Project, Distinct: m.Other})
		at := storable(m.At.UnixMilli())
		if ok && both && m.Other != m.Distinct && into.id == other.id && (into.identified || other.identified) &&
			(into.covers(&rules.Delta{FirstMilli: at, LastMilli: at}) || other.covers(&rules.Delta{FirstMilli: at, LastMilli: at})) {
			outcomes[i] = person.Same
			continue
		}
		rest, of = append(rest, *m), append(of, i)
	}
	return rest, of
}

// saw remembers the rows that were read.
func (c *cache) saw(refs []person.Ref, rows map[person.Ref]*row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		if r := rows[ref]; r != nil && r.raw != nil {
			c.add(ref, r)
		}
	}
	c.shrink()
}

// learn remembers the rows that a batch has read and written, once they are durable.
func (c *cache) learn(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range b.refs {
		if r := b.behind(ref); r != nil && !r.removed && r.raw != nil {
			c.add(ref, r)
		} else {
			c.known.Remove(ref)
		}
	}
	c.shrink()
}

func (c *cache) forget(r person.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Remove(r)
}

// add remembers a person in its own memory: the caller's may be part of something large, or
// be reused.
func (c *cache) add(ref person.Ref, r *row) {
	k := r.known()
	if old, ok := c.known.Peek(ref); ok {
		c.bytes -= old.size(ref)
	} else {
		ref.Distinct = strings.Clone(ref.Distinct)
	}
	c.bytes += k.size(ref)
	c.known.Add(ref, k)
}

func (c *cache) shrink() {
	for c.bytes > c.most {
		if _, _, ok := c.known.RemoveOldest(); !ok {
			return
		}
	}
}
