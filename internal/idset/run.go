package idset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// run is a sorted set of entries that does not change: blocks in the database, and in memory
// where each begins and a filter.
type run struct {
	no     int64
	level  int   // how often it was merged
	newest int64 // upper bound of when the newest of its ids was added, in milliseconds
	count  int
	fences []uint64 // the first hash of each block
	filter filter
}

// blockIDs are in a block: one page of 4 KB holds a block and its row.
const blockIDs = 160

func (r *run) block(i int) int64 { return blocks.ID(r.no, i) }

// find calls each with the entries of that hash.
func (s *Set) find(tx *sqlitedb.Tx, r *run, hash uint64, each func(Entry)) error {
	at := max(sort.Search(len(r.fences), func(i int) bool { return r.fences[i] >= hash })-1, 0)
	for ; at < len(r.fences) && r.fences[at] <= hash; at++ {
		var block sqlitedb.Blob
		if err := tx.QueryRow(s.sql.block, r.block(at)).Scan(&block); err != nil {
			return fmt.Errorf("read ids: block %d of run %d: %w", at, r.no, err)
		}
		n := len(block) / entryBytes
		i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint64(block[i*entryBytes:]) >= hash })
		for ; i < n && binary.BigEndian.Uint64(block[i*entryBytes:]) == hash; i++ {
			each(readEntry(block[i*entryBytes:]))
		}
	}
	return nil
}

func words(b []byte) []uint64 {
	w := make([]uint64, len(b)/8)
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return w
}

func wordBytes(w []uint64) []byte {
	b := make([]byte, 0, 8*len(w))
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// reader reads a run from its beginning.
type reader struct {
	set    *Set
	run    *run
	at     int    // the next block
	chunk  []byte // what was read and not taken, at the end of memory
	memory []byte
}

// peek returns the next entry without taking it; io.EOF: there is none.
func (b *reader) peek(ctx context.Context) (Entry, error) {
	if len(b.chunk) == 0 && b.at < len(b.run.fences) {
		at, to := b.at, min(b.at+blocks.Chunk, len(b.run.fences))
		memory := b.memory[:0]
		err := b.set.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query(b.set.sql.blocks, b.run.block(at), b.run.block(to))
			if err != nil {
				return err
			}
			defer rows.Close()
			for ; rows.Next(); at++ {
				var block sqlitedb.Blob
				if err := rows.Scan(&block); err != nil {
					return err
				}
				memory = append(memory, block...)
			}
			if err := rows.Err(); err != nil || at == to {
				return err
			}
			return fmt.Errorf("run %d of the ids of %s has no block %d", b.run.no, b.set.o.Name, at)
		})
		if err != nil {
			return Entry{}, err
		}
		b.at, b.chunk, b.memory = at, memory, memory
	}
	if len(b.chunk) < entryBytes {
		return Entry{}, io.EOF
	}
	return readEntry(b.chunk), nil
}

func (b *reader) take() { b.chunk = b.chunk[entryBytes:] }

// least takes the first entry of all.
func least(ctx context.Context, all []*reader) (Entry, error) {
	var from *reader
	var first Entry
	for _, b := range all {
		n, err := b.peek(ctx)
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return Entry{}, err
		}
		if from == nil || n.compare(first.ID) < 0 {
			from, first = b, n
		}
	}
	if from == nil {
		return Entry{}, io.EOF
	}
	from.take()
	return first, nil
}
