package idset

import (
	"context"
	"database/sql"
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
	set   *Set
	run   *run
	next  int // the next block
	chunk []byte
	at    int // in chunk
}

// peek returns the next entry without taking it; io.EOF: there is none.
func (b *reader) peek(ctx context.Context) (Entry, error) {
	if b.at == len(b.chunk) && b.next < len(b.run.fences) {
		if err := b.set.db.Read(ctx, b.fill); err != nil {
			return Entry{}, err
		}
	}
	if len(b.chunk)-b.at < entryBytes {
		return Entry{}, io.EOF
	}
	return readEntry(b.chunk[b.at:]), nil
}

func (b *reader) fill(tx *sqlitedb.Tx) error {
	to := min(b.next+blocks.Chunk, len(b.run.fences))
	rows, err := tx.Query(b.set.sql.blocks, b.run.block(b.next), b.run.block(to))
	if err != nil {
		return err
	}
	defer rows.Close()
	var block sql.RawBytes
	for b.chunk, b.at = b.chunk[:0], 0; rows.Next(); b.next++ {
		if err := rows.Scan(&block); err != nil {
			return err
		}
		b.chunk = append(b.chunk, block...)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if b.next < to {
		return fmt.Errorf("run %d of the ids of %s has no block %d", b.run.no, b.set.o.Name, b.next)
	}
	return nil
}

func (b *reader) take() { b.at += entryBytes }

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
