package recent

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Bytes has a value of each of the latest keys, all of them in a few large blocks: the collector of
// garbage has no more to look at where there are a million of them. It is not for several goroutines
// at once.
//
// What is used goes into the young generation. Where that has taken half of the memory, and not mostly
// for values that were replaced since, it becomes the old one, and the old one is forgotten: of what
// was not used for that long, all. A key is in one of the two.
type Bytes struct {
	most       int // bytes of a generation
	young, old generation
}

// generation has one value of a hash: of two keys with the same, the last.
type generation struct {
	at         map[uint64]place
	blocks     [][]byte
	size, dead int // bytes that were taken, and those of values that were replaced or removed
}

type place struct{ block, from uint32 }

const (
	// blockSize is how much memory is taken at once, at least.
	blockSize = 1 << 18
	// overhead is about what a key takes beside itself and its value.
	overhead = 32
)

// NewBytes remembers values in about so many bytes of memory; it takes them as they are needed.
func NewBytes(most int) *Bytes {
	b := &Bytes{most: most / 2}
	b.young.at = map[uint64]place{}
	return b
}

// Get is the value of a key. It stays as it is, and is not to be changed.
func (b *Bytes) Get(key []byte) ([]byte, bool) {
	h := xxhash.Sum64(key)
	if v, has := b.young.get(h, key); has {
		return v, true
	}
	v, has := b.old.get(h, key)
	if has {
		b.put(h, key, v)
	}
	return v, has
}

// Put remembers a value, whose memory stays the caller's. What takes half of the memory is not remembered.
func (b *Bytes) Put(key, value []byte) {
	h := xxhash.Sum64(key)
	if old, has := b.young.get(h, key); !has || !bytes.Equal(old, value) {
		b.put(h, key, value)
	}
}

// Remove forgets a key.
func (b *Bytes) Remove(key []byte) { b.remove(xxhash.Sum64(key)) }

func (b *Bytes) remove(h uint64) {
	b.young.remove(h)
	b.old.remove(h)
}

func (b *Bytes) put(h uint64, key, value []byte) {
	b.remove(h) // also if it is that of another key: what is left of either could be of before
	n := taken(key, value)
	if n > b.most {
		return
	}
	if b.young.size+n > b.most && b.young.dead > b.young.size/2 {
		b.young = b.young.living(b.most)
	}
	if b.young.size+n > b.most {
		b.old, b.young = b.young, generation{at: make(map[uint64]place, len(b.young.at))}
	}
	b.young.put(h, key, value, b.most)
}

// taken is about how much memory a value takes.
func taken(key, value []byte) int { return len(key) + len(value) + 2*binary.MaxVarintLen32 + overhead }

func (g *generation) put(h uint64, key, value []byte, most int) {
	n := taken(key, value) - overhead
	last := len(g.blocks) - 1
	if last < 0 || cap(g.blocks[last])-len(g.blocks[last]) < n {
		if last >= 0 {
			g.size += cap(g.blocks[last]) - len(g.blocks[last])
		}
		g.blocks = append(g.blocks, make([]byte, 0, max(n, min(blockSize, most))))
		last++
	}
	to := g.blocks[last]
	g.at[h] = place{uint32(last), uint32(len(to))}
	for _, part := range [][]byte{key, value} {
		to = append(binary.AppendUvarint(to, uint64(len(part))), part...)
	}
	g.blocks[last] = to
	g.size += taken(key, value)
}

func (g *generation) get(h uint64, key []byte) ([]byte, bool) {
	p, has := g.at[h]
	if !has {
		return nil, false
	}
	own, value := g.read(p)
	if !bytes.Equal(own, key) {
		return nil, false
	}
	return value, true
}

func (g *generation) remove(h uint64) {
	if p, has := g.at[h]; has {
		g.dead += taken(g.read(p))
		delete(g.at, h)
	}
}

// living is a generation of what was neither replaced nor removed.
func (g *generation) living(most int) generation {
	is := generation{at: make(map[uint64]place, len(g.at))}
	for h, p := range g.at {
		key, value := g.read(p)
		is.put(h, key, value, most)
	}
	return is
}

func (g *generation) read(p place) (key, value []byte) {
	key, rest := part(g.blocks[p.block][p.from:])
	value, _ = part(rest)
	return key, value
}

// part divides what begins with a length.
func part(from []byte) (is, rest []byte) {
	n, of := binary.Uvarint(from)
	end := of + int(n)
	return from[of:end:end], from[end:]
}
