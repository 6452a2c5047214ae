package rowindex

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// entry is a key of a row.
type entry struct {
	key uint64
	at  Position
}

func (e entry) compare(o entry) int {
	if e.key != o.key {
		return cmp.Compare(e.key, o.key)
	}
	return e.at.Compare(o.at)
}

// run is the sorted entries of the rows of one range of ids. It does not change.
type run struct {
	no          int64
	level       int     // how often it was merged
	first, last int64   // ids of rows
	count       int     // rows
	fences      []entry // the first of each block
}

// blockEntries are in a block: some 2 to 5 KB.
const blockEntries = 512

func (r *run) block(i int) int64 { return blocks.ID(r.no, i) }

// before is the number of the last block that begins with an entry up to one; 0 where none does.
func (r *run) before(e entry) int {
	return max(sort.Search(len(r.fences), func(i int) bool { return r.fences[i].compare(e) > 0 })-1, 0)
}

const fenceBytes = 24

func readFences(b []byte) []entry {
	all := make([]entry, 0, len(b)/fenceBytes)
	for ; len(b) >= fenceBytes; b = b[fenceBytes:] {
		number := binary.LittleEndian.Uint64
		all = append(all, entry{number(b), Position{int64(number(b[8:])), int64(number(b[16:]))}})
	}
	return all
}

func writeFences(all []entry) []byte {
	b := make([]byte, 0, fenceBytes*len(all))
	for _, f := range all {
		b = binary.LittleEndian.AppendUint64(b, f.key)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.at.At))
		b = binary.LittleEndian.AppendUint64(b, uint64(f.at.Row))
	}
	return b
}

// pack appends an entry to a block, as the difference to the one before it, which is the zero one at
// the block's beginning.
func pack(b []byte, before, e entry) []byte {
	b = binary.AppendUvarint(b, e.key-before.key)
	if e.key == before.key {
		b = binary.AppendUvarint(b, uint64(e.at.At-before.at.At))
	} else {
		b = binary.AppendVarint(b, e.at.At)
	}
	return binary.AppendVarint(b, e.at.Row-before.at.Row)
}

// errPacked says that a block is damaged.
var errPacked = errors.New("a block of the index is damaged")

// unpack appends the entries of a block.
func unpack(to []entry, b []byte) ([]entry, error) {
	var e entry
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errPacked
		}
		e.key += key
		b = b[n:]
		if key == 0 {
			at, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, errPacked
			}
			e.at.At += int64(at)
			b = b[n:]
		} else {
			at, n := binary.Varint(b)
			if n <= 0 {
				return nil, errPacked
			}
			e.at.At = at
			b = b[n:]
		}
		row, n := binary.Varint(b)
		if n <= 0 {
			return nil, errPacked
		}
		e.at.Row += row
		b = b[n:]
		to = append(to, e)
	}
	return to, nil
}

// readBlock reads a block of a run. It fails with sql.ErrNoRows where the run was merged away meanwhile.
func (x *Index) readBlock(tx *sqlitedb.Tx, r *run, i int) ([]entry, error) {
	var b sqlitedb.Blob
	if err := tx.QueryRow(x.sql.block, r.block(i)).Scan(&b); err != nil {
		return nil, fmt.Errorf("read block %d of run %d of the index %s: %w", i, r.no, x.o.Name, err)
	}
	return unpack(make([]entry, 0, x.o.block), b)
}

// inOrder yields sorted entries.
func inOrder(sorted []entry) func() (entry, error) {
	return func() (entry, error) {
		if len(sorted) == 0 {
			return entry{}, io.EOF
		}
		e := sorted[0]
		sorted = sorted[1:]
		return e, nil
	}
}

// write writes a run of the entries that next yields in order until io.EOF. last runs in the
// transaction that makes the run valid. Without any it writes no run.
func (x *Index) write(ctx context.Context, r *run, next func() (entry, error), last func(*sqlitedb.Tx) error) (is *run, err error) {
	r.no = x.numbers.Next()
	defer func() {
		if err != nil {
			x.numbers.Gone(r.no)
		}
	}()
	w := &writer{x: x, r: r}
	for end := false; !end; {
		e, err := next()
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return nil, err
		}
		if !end {
			w.add(e)
		} else if len(w.block) > 0 {
			w.end()
		}
		if len(w.args) >= 2*blocks.Chunk || end && len(w.args) > 0 {
			if err := w.flush(ctx); err != nil {
				return nil, err
			}
		}
	}
	r.count = w.entries / Keys
	err = x.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if r.count > 0 {
			if _, err := tx.Exec(x.sql.addRun, r.no, r.level, r.first, r.last, r.count, writeFences(r.fences)); err != nil {
				return err
			}
		}
		return last(tx)
	})
	if err != nil || r.count == 0 {
		return nil, err
	}
	return r, nil
}

// writer writes the blocks of a run.
type writer struct {
	x     *Index
	r     *run
	block []byte
	n     int   // entries in block
	prev  entry // the last of them
	args  []any // of blocks that are to be written

	entries int // of all blocks
}

func (w *writer) add(e entry) {
	if w.n == 0 {
		w.prev = entry{}
		w.r.fences = append(w.r.fences, e)
	}
	w.block = pack(w.block, w.prev, e)
	w.prev = e
	w.entries++
	if w.n++; w.n == w.x.o.block {
		w.end()
	}
}

// end ends a block.
func (w *writer) end() {
	w.args = append(w.args, w.r.block(len(w.r.fences)-1), w.block)
	w.block, w.n = nil, 0
}

func (w *writer) flush(ctx context.Context) error {
	err := w.x.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Bulk(w.x.sql.addBlock, "(?,?)", "", w.args)
		return err
	})
	w.args = w.args[:0]
	return err
}

// fillBlocks is how many blocks are read at once: eight runs that are merged hold a megabyte or two.
const fillBlocks = 16

// entries reads a run from its beginning.
func (x *Index) entries(r *run) *blocks.Reader[entry] {
	return &blocks.Reader[entry]{DB: x.db, Query: x.sql.blocks, Name: "the index " + x.o.Name, Run: r.no, Blocks: len(r.fences), AtOnce: fillBlocks, Unpack: unpack}
}
