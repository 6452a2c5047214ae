package tablewindow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// put is a group in a transaction.
type put struct {
	*blob.Group
	blobs []blob.Blob // of all its records
	key   string      // of its window
	r     *Record
	known []bool // the names that its window has; nil: none
	rows  []*Blob
}

// Put implements window.Intake: a few statements for all batch ids. Blobs are made while no other
// writer waits.
func (s *Store[Raw]) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	if err := cmp.Or(ctx.Err(), entry.CheckPut(records, kept)); err != nil || len(records) == 0 {
		return err
	}
	var puts []*put
	var keys []string
	for _, g := range blob.Groups(records) {
		p := &put{Group: g, blobs: g.Pack(records, nil), key: activeKey(g.Batch)}
		puts, keys = append(puts, p), append(keys, p.key)
	}
	if err := s.update(ctx, func(c *change) error {
		found, err := c.windows.Get(keys)
		if err != nil {
			return err
		}
		var opened, grown []*Record
		var rows []*Blob
		for _, p := range puts {
			if p.r, p.known, p.rows = found[p.key], nil, nil; p.r == nil {
				p.r = c.open(p)
				opened = append(opened, p.r)
			} else {
				grown = append(grown, p.r.fill())
			}
			if err := p.put(c, &s.names, records); err != nil {
				return fmt.Errorf("batch %q: %w", p.Batch, err)
			}
			rows = append(rows, p.rows...)
		}
		return cmp.Or(c.blobs.Put(rows), c.windows.Put(opened), c.windows.Put(grown, "records", "bytes", "expect", "blobs", "due"))
	}); err != nil {
		return fmt.Errorf("put %d records: %w", len(records), err)
	}
	for i := range kept {
		kept[i] = window.Overwrote
	}
	for _, p := range puts {
		s.names.added(p)
		for n, first := range p.First {
			if kept != nil && (p.known == nil || !p.known[n]) {
				kept[first] = window.New
			}
		}
	}
	return nil
}

// open makes the window of a group.
func (c *change) open(p *put) *Record {
	c.books.revision = entry.NextRevision(c.books.revision, c.now)
	r := &Record{Entry: *entry.Start(p.Batch, c.books.revision, c.now), key: p.key, waits: toClose}
	c.books.count(r, 1)
	return r
}

// put counts the records of a group, and makes the rows of its blobs.
func (p *put) put(c *change, names *names, records []window.Record) error {
	r, fresh, blobs := p.r, len(p.First), p.blobs
	keys, err := names.find(c.blobs, p)
	if err != nil {
		return fmt.Errorf("look for records: %w", err)
	}
	if len(keys) > 0 {
		keep, known, err := p.overwrite(c, keys)
		if err != nil {
			return fmt.Errorf("overwrite records: %w", err)
		}
		fresh, blobs = fresh-known, p.Pack(records, keep)
	}
	for _, b := range blobs {
		r.blobs++
		r.Bytes += int64(b.Bytes)
		p.rows = append(p.rows, &Blob{blobKey(r.Revision, r.blobs), b.Names, b.Data})
	}
	c.books.count(r, -1)
	r.Records += int64(fresh)
	c.books.count(r, 1)
	c.books.accepted += uint64(fresh)
	if p.Expect > 0 {
		r.Expect = int64(p.Expect)
	}
	if r.Due = r.Opened; r.Expect > 0 && r.Records >= r.Expect {
		r.Due = full
	}
	r.seal()
	return nil
}

// stored is where a record is, and its checksum.
type stored struct {
	key string
	sum uint64
}

// overwrite finds which names the window has, in these blobs, and removes those records from them that
// have other bytes now. It says which records are to be kept: not those that are there as they are.
func (p *put) overwrite(c *change, keys []string) (keep []bool, known int, err error) {
	found, err := c.blobs.Get(keys, "names")
	if err != nil {
		return nil, 0, err
	}
	there := map[blob.Digest]stored{}
	for key, b := range found {
		for d, sum := range blob.Names(b.names) {
			there[d] = stored{key, sum}
		}
	}
	p.known, keep = make([]bool, len(p.Digest)), make([]bool, len(p.Digest))
	gone := map[string]map[blob.Digest]bool{}
	n := 0
	for _, b := range p.blobs {
		for d, sum := range blob.Names(b.Names) {
			before, is := there[d]
			if p.known[n], keep[n] = is, !is || before.sum != sum; is {
				known++
			}
			if is && keep[n] {
				if gone[before.key] == nil {
					gone[before.key] = map[blob.Digest]bool{}
				}
				gone[before.key][d] = true
			}
			n++
		}
	}
	return keep, known, p.remove(c, gone)
}

// remove removes records from blobs, by their keys.
func (p *put) remove(c *change, gone map[string]map[blob.Digest]bool) error {
	found, err := c.blobs.Get(slices.Collect(maps.Keys(gone)))
	if err != nil {
		return err
	}
	var rows []*Blob
	var empty []string
	for key, b := range found {
		rest, less := blob.Without(b.data, gone[key])
		p.r.Bytes -= int64(less)
		if rest.Records == 0 {
			empty = append(empty, key)
		} else {
			rows = append(rows, &Blob{key, rest.Names, rest.Data})
		}
	}
	return cmp.Or(c.blobs.Put(rows), c.blobs.Delete(empty))
}
