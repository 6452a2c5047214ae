package idset

import (
	"encoding/binary"
	"fmt"
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

// entries reads a run from its beginning.
func (s *Set) entries(r *run) *blocks.Reader[Entry] {
	return &blocks.Reader[Entry]{DB: s.db, Query: s.sql.blocks, Name: "the ids of " + s.o.Name, Run: r.no, Blocks: len(r.fences), AtOnce: blocks.Chunk, Unpack: unpack}
}

func unpack(to []Entry, block []byte) ([]Entry, error) {
	for ; len(block) >= entryBytes; block = block[entryBytes:] {
		to = append(to, readEntry(block))
	}
	return to, nil
}
