package rediswindow

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// scriptBytes is about how much one script stores: others have to wait until it is done. Only
// the records of one batch id, which are kept all or none, may be larger.
const scriptBytes = 1 << 20

// part is what one script stores.
type part struct {
	shard  int
	groups []*blob.Group
	bytes  int
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
	for _, parts := range s.parts(blob.Groups(records)) {
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
func (s *Store) parts(gs []*blob.Group) map[int][]*part {
	shards := map[int][]*part{}
	for _, g := range gs {
		shard := s.shard(g.Batch)
		parts := shards[shard]
		if n := len(parts); n == 0 || parts[n-1].bytes+g.Bytes > scriptBytes {
			parts = append(parts, &part{shard: shard})
			shards[shard] = parts
		}
		p := parts[len(parts)-1]
		p.groups = append(p.groups, g)
		p.bytes += g.Bytes
	}
	return shards
}

// put stores a part and notes what is new.
func (s *Store) put(ctx context.Context, p *part, records []window.Record, kept []window.Kept) error {
	args := []string{s.ttl, strconv.Itoa(len(p.groups))}
	n := 0
	for _, g := range p.groups {
		args = appendGroup(args, g, records)
		n += len(g.First)
	}
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
		for i, first := range g.First {
			if digits[i] == '1' {
				kept[first] = window.New
			}
		}
		digits = digits[len(g.First):]
	}
	return nil
}

// appendGroup writes a group as arguments of the script. They use new memory: the client may still
// write a command after its context has ended.
func appendGroup(args []string, g *blob.Group, records []window.Record) []string {
	blobs := g.Pack(records, nil)
	var names []byte
	bodies := 0
	for _, b := range blobs {
		names = append(names, b.Names...)
		bodies += b.Bytes
	}
	args = append(args, g.Batch, strconv.Itoa(g.Expect), strconv.Itoa(len(g.First)), strconv.Itoa(len(blobs)), strconv.Itoa(bodies), rueidis.BinaryString(names))
	for _, b := range blobs {
		args = append(args, rueidis.BinaryString(b.Data))
	}
	return args
}
