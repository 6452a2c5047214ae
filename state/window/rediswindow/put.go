package rediswindow

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// scriptBytes is about how much one script stores: others have to wait until it is done. Only
// the records of one batch id, which are kept all or none, may be larger.
const scriptBytes = 1 << 20

// group is the records of one batch id in a Put, only the last of each name.
type group struct {
	batch  string
	expect int
	names  map[digest]int // where in what follows the record of a name is
	digest []digest
	first  []int // the index of its first record
	last   []int // and of its last one
	bytes  int
}

// part is what one script stores.
type part struct {
	shard  int
	groups []*group
	bytes  int
}

// groups divides records by their batch ids, in the order in which those come.
func groups(records []window.Record) []*group {
	var all []*group
	byBatch := map[string]*group{}
	var g *group
	var key []byte
	for i := range records {
		r := &records[i]
		if g == nil || g.batch != r.Batch {
			if g = byBatch[r.Batch]; g == nil {
				g = &group{batch: r.Batch, names: make(map[digest]int, len(records)-i)}
				byBatch[r.Batch] = g
				all = append(all, g)
			}
		}
		if r.Expect > 0 {
			g.expect = r.Expect
		}
		key = entry.AppendKey(key[:0], r)
		d := digestOf(key)
		at, twice := g.names[d]
		if !twice {
			at = len(g.first)
			g.names[d] = at
			g.digest, g.first, g.last = append(g.digest, d), append(g.first, i), append(g.last, i)
		}
		g.last[at] = i
		g.bytes += len(r.Body) + len(key) + len(d) + 3*sumBytes
	}
	return all
}

// Put implements window.Intake: one script for each shard, or some for many large records.
func (s *Store) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	if err := cmp.Or(ctx.Err(), entry.CheckPut(records, kept)); err != nil || len(records) == 0 {
		return err
	}
	for i := range kept {
		kept[i] = window.Overwrote
	}
	var all errgroup.Group
	for _, parts := range s.parts(groups(records)) {
		all.Go(func() error {
			for _, p := range parts { // one after another: windows are opened in the order of their records
				if err := s.put(ctx, p, records, kept); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// parts divides groups by shards, and those of a shard by their sizes.
func (s *Store) parts(gs []*group) map[int][]*part {
	shards := map[int][]*part{}
	for _, g := range gs {
		shard := s.shard(g.batch)
		parts := shards[shard]
		if n := len(parts); n == 0 || parts[n-1].bytes+g.bytes > scriptBytes {
			parts = append(parts, &part{shard: shard})
			shards[shard] = parts
		}
		p := parts[len(parts)-1]
		p.groups = append(p.groups, g)
		p.bytes += g.bytes
	}
	return shards
}

// put stores a part and notes what is new.
func (s *Store) put(ctx context.Context, p *part, records []window.Record, kept []window.Kept) error {
	args := []string{s.ttl, strconv.Itoa(len(p.groups))}
	n := 0
	memory := s.memory()
	for _, g := range p.groups {
		args = g.append(args, records, memory)
		n += len(g.first)
	}
	s.giveBack(memory)
	digits, err := s.run(ctx, putScript, p.shard, args...).ToString()
	if err == nil && len(digits) != n {
		err = reply("put records")
	}
	if err != nil {
		return failed(err, "put %d records", n)
	}
	if kept == nil {
		return nil
	}
	for _, g := range p.groups {
		for i, first := range g.first {
			if digits[i] == '1' {
				kept[first] = window.New
			}
		}
		digits = digits[len(g.first):]
	}
	return nil
}

// memory is where blobs are made.
func (s *Store) memory() *packing {
	if p, ok := s.packings.Get().(*packing); ok {
		return p
	}
	return new(packing)
}

// giveBack keeps memory for others, unless a large record has made it large.
func (s *Store) giveBack(p *packing) {
	if cap(p.raw) <= 4*blobBytes {
		s.packings.Put(p)
	}
}

// append writes a group as arguments of the script. They use new memory: the client may still
// write a command after its context has ended.
func (g *group) append(args []string, records []window.Record, p *packing) []string {
	var blobs []string
	names := make([]byte, 0, len(g.last)*(len(digest{})+sumBytes))
	p.raw = slices.Grow(p.raw[:0], min(g.bytes, blobBytes+blobBytes/4))
	var key []byte
	bodies, in := 0, 0
	for n, i := range g.last {
		r := &records[i]
		key = entry.AppendKey(key[:0], r)
		sum := entry.Sum(key, r.Body)
		names = append(names, g.digest[n][:]...)
		names = binary.LittleEndian.AppendUint64(names, sum)
		p.raw = frame(p.raw, key, r.Body, sum)
		bodies += len(r.Body)
		if in++; in == blobRecords || len(p.raw) >= blobBytes || n == len(g.last)-1 {
			blobs = append(blobs, text(p.blob(in)))
			p.raw, in = p.raw[:0], 0
		}
	}
	args = append(args, g.batch, strconv.Itoa(g.expect), strconv.Itoa(len(g.last)), strconv.Itoa(len(blobs)), strconv.Itoa(bodies), text(names))
	return append(args, blobs...)
}
