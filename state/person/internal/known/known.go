// Package known is what a process remembers of persons, by distinct id. A person never forgets, also
// not by being merged into another: what it knew once need not be written again, however old the
// memory of it is.
package known

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/recent"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// Person is a person as it is stored, at least.
type Person struct {
	ID                         uuid.UUID
	CreatedMilli, UpdatedMilli int64
	Identified                 bool
	Registers                  []byte // as rules.Registers stores them
}

// Derived is a person whose id alone is known: it covers nothing.
func Derived(id uuid.UUID) Person {
	return Person{ID: id, CreatedMilli: math.MaxInt64, UpdatedMilli: math.MinInt64}
}

// Covers says whether d would leave the person unchanged.
func (p Person) Covers(d *rules.Delta) bool {
	return rules.Covers(p.CreatedMilli, p.UpdatedMilli, p.Registers, d)
}

// Cache remembers the persons that were last used. It may be used from several goroutines.
type Cache struct {
	mu     sync.Mutex // guards all below; held for short work in memory
	of     *recent.Bytes
	moves  uint64 // batches that moved distinct ids
	newest uint64 // number of the last one of those

	key, value []byte // of one call
}

// New makes a cache that takes about so many bytes.
func New(bytes int) *Cache { return &Cache{of: recent.NewBytes(bytes)} }

// ID returns the id of the person last seen with a distinct id.
func (c *Cache) ID(r person.Ref) (uuid.UUID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.get(r)
	return p.ID, ok
}

// Resolve fills in the ids last seen and returns the indexes of the rest, with the state of the
// cache that a later Fill must still find. Where no other process merges persons, an id last seen
// is the id.
func (c *Cache) Resolve(refs []person.Ref, into []uuid.UUID) (missing []int, moves uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range refs {
		p, ok := c.get(r)
		if into[i] = p.ID; !ok {
			missing = append(missing, i)
		}
	}
	return missing, c.moves
}

// Fill remembers the ids read for missing, unless a distinct id moved meanwhile.
func (c *Cache) Fill(refs []person.Ref, ids []uuid.UUID, missing []int, moves uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves != moves {
		return
	}
	for _, i := range missing {
		if _, has := c.get(refs[i]); !has {
			c.put(refs[i], Derived(ids[i]))
		}
	}
}

// News returns the changes that may say more than is known. It judges only those without
// properties; the others are worth gathering first.
func (c *Cache) News(changes []person.Change) []person.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := make([]person.Change, 0, len(changes)/2)
	for i := range changes {
		ch := &changes[i]
		if len(ch.Properties) == 0 {
			at := ch.At.UnixMilli()
			if p, ok := c.get(ch.Ref); ok && p.Covers(&rules.Delta{FirstMilli: at, LastMilli: at}) {
				continue
			}
		}
		rest = append(rest, *ch)
	}
	return rest
}

// Unknown returns the deltas that say more than is known, in the memory of deltas.
func (c *Cache) Unknown(deltas []rules.Delta) []rules.Delta {
	ps := make([]Person, len(deltas))
	oks := make([]bool, len(deltas))
	c.mu.Lock()
	for i := range deltas {
		ps[i], oks[i] = c.get(deltas[i].Ref)
	}
	c.mu.Unlock()
	rest := deltas[:0]
	for i := range ps {
		if !oks[i] || !ps[i].Covers(&deltas[i]) {
			rest = append(rest, deltas[i])
		}
	}
	return rest
}

// Apart returns the merges that may change something, and their indexes in merges; it gives
// the others their outcome. Two distinct ids that were one person once always will be, and
// a person that was identified stays so.
func (c *Cache) Apart(merges []person.Merge, outcomes []person.Outcome) (rest []person.Merge, of []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest, of = make([]person.Merge, 0, len(merges)), make([]int, 0, len(merges))
	for i := range merges {
		m := &merges[i]
		into, ok := c.get(m.Ref)
		other, both := c.get(person.Ref{Project: m.Project, Distinct: m.Other})
		at := m.At.UnixMilli()
		d := &rules.Delta{FirstMilli: at, LastMilli: at}
		if ok && both && m.Other != m.Distinct && into.ID == other.ID && (into.Identified || other.Identified) &&
			(into.Covers(d) || other.Covers(d)) {
			outcomes[i] = person.Same
			continue
		}
		rest, of = append(rest, *m), append(of, i)
	}
	return rest, of
}

// Batch is what a transaction has read and written, once it is durable.
type Batch struct {
	Number uint64 // in the order of the transactions; 0 where nobody asks Resolve
	Moves  bool   // whether it moved distinct ids
	Refs   []person.Ref
	Of     func(person.Ref) (Person, bool) // false: there is none to remember
}

// Learn remembers the persons of a batch. Batches may arrive here in another order than they were
// written in: then the cache forgets what an older one has, instead of taking it for the newest.
func (c *Cache) Learn(b Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := b.Number < c.newest
	if b.Moves {
		c.newest = max(c.newest, b.Number)
		c.moves++
	}
	for _, r := range b.Refs {
		if p, ok := b.Of(r); ok && !late {
			c.put(r, p)
		} else {
			c.of.Remove(c.keyOf(r))
		}
	}
}

// Forget forgets the person of a distinct id.
func (c *Cache) Forget(r person.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of.Remove(c.keyOf(r))
}

// keyOf is the key of a distinct id, until the next call.
func (c *Cache) keyOf(r person.Ref) []byte {
	c.key = append(append(c.key[:0], r.Project[:]...), r.Distinct...)
	return c.key
}

func (c *Cache) put(r person.Ref, p Person) {
	v := append(c.value[:0], p.ID[:]...)
	v = binary.LittleEndian.AppendUint64(v, uint64(p.CreatedMilli))
	v = binary.LittleEndian.AppendUint64(v, uint64(p.UpdatedMilli))
	v = append(v, 0)
	if p.Identified {
		v[identified] = 1
	}
	c.value = append(v, p.Registers...)
	c.of.Put(c.keyOf(r), c.value)
}

func (c *Cache) get(r person.Ref) (p Person, has bool) {
	v, has := c.of.Get(c.keyOf(r))
	if !has {
		return p, false
	}
	return Person{
		ID:           uuid.UUID(v[:created]),
		CreatedMilli: int64(binary.LittleEndian.Uint64(v[created:])),
		UpdatedMilli: int64(binary.LittleEndian.Uint64(v[updated:])),
		Identified:   v[identified] == 1,
		Registers:    v[registers:],
	}, true
}

// Where the parts of a person begin in what is remembered of it; its id is first.
const (
	created    = 16
	updated    = created + 8
	identified = updated + 8
	registers  = identified + 1
)
