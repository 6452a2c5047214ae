package sqliteperson

import (
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

// cache remembers durable facts: the person of a distinct id, and what a person knows. It
// is changed only after a transaction is on disk, and no write depends on it: a batch reads
// what it changes. It saves reads, and writes of known facts. A person never forgets, so
// what was known once stays known.
type cache struct {
	mu      sync.Mutex // guards all below; held for short work in memory
	refs    *simplelru.LRU[person.Ref, uuid.UUID]
	persons *simplelru.LRU[uuid.UUID, known]
	bytes   int // of persons
	most    int
	moves   uint64 // batches that moved distinct ids
	newest  uint64 // number of the last one of those
}

// known is a person as it is stored, at least.
type known struct {
	createdMilli, updatedMilli int64
	registers                  []byte
}

// overhead is about what an entry takes in memory beside its registers.
const overhead = 256

func newCache(refs, bytes int) (*cache, error) {
	c := &cache{most: bytes}
	var err error
	if c.refs, err = simplelru.NewLRU[person.Ref, uuid.UUID](refs, nil); err != nil {
		return nil, err
	}
	c.persons, err = simplelru.NewLRU(max(bytes/overhead, 1), func(_ uuid.UUID, k known) { c.bytes -= k.size() })
	return c, err
}

func (k known) size() int { return overhead + len(k.registers) }

// resolve fills in known ids and returns the indexes of the rest, with the state of the
// cache that a later fill must still find.
func (c *cache) resolve(refs []person.Ref, into []uuid.UUID) (missing []int, moves uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range refs {
		id, ok := c.refs.Get(r)
		if into[i] = id; !ok {
			missing = append(missing, i)
		}
	}
	return missing, c.moves
}

// fill remembers the ids read for missing, unless a distinct id moved meanwhile.
func (c *cache) fill(refs []person.Ref, ids []uuid.UUID, missing []int, moves uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves != moves {
		return
	}
	for _, i := range missing {
		c.add(refs[i], ids[i])
	}
}

// add remembers a distinct id in its own memory: the caller's may be part of something
// large, or be reused.
func (c *cache) add(r person.Ref, id uuid.UUID) {
	r.Distinct = strings.Clone(r.Distinct)
	c.refs.Add(r, id)
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
			if k, ok := c.person(ch.Ref); ok && k.covers(&rules.Delta{FirstMilli: ch.At.UnixMilli(), LastMilli: ch.At.UnixMilli()}) {
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
		ks[i], oks[i] = c.person(deltas[i].Ref)
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

func (c *cache) person(r person.Ref) (known, bool) {
	id, ok := c.refs.Get(r)
	if !ok {
		return known{}, false
	}
	return c.persons.Get(id)
}

func (k known) covers(d *rules.Delta) bool {
	return rules.Covers(k.createdMilli, k.updatedMilli, k.registers, d)
}

// learn remembers the rows that a batch has read and written, once they are durable.
// Batches may arrive here in another order than they were written in: then the cache
// forgets what an older one moved, instead of taking it for the newest.
func (c *cache) learn(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := b.commit < c.newest
	if len(b.overrides) > 0 {
		c.newest = max(c.newest, b.commit)
		c.moves++
	}
	for _, ref := range b.moved {
		c.link(b.links[ref], late)
	}
	for _, id := range b.removed {
		c.persons.Remove(id)
	}
	for _, ref := range b.refs {
		l, ok := b.links[ref]
		if !ok {
			continue
		}
		c.link(l, late)
		if r := b.behind(ref); r != nil {
			c.know(l.Person, known{r.CreatedMilli, r.UpdatedMilli, r.raw})
		}
	}
	for c.bytes > c.most {
		if _, _, ok := c.persons.RemoveOldest(); !ok {
			return
		}
	}
}

func (c *cache) link(l rules.Link, late bool) {
	if late {
		c.refs.Remove(l.Ref)
	} else {
		c.add(l.Ref, l.Person)
	}
}

func (c *cache) know(id uuid.UUID, k known) {
	if old, ok := c.persons.Peek(id); ok {
		c.bytes -= old.size()
	}
	c.bytes += k.size()
	c.persons.Add(id, k)
}
