// Package blocks numbers the runs of a log-structured store, whose blocks are rows of one SQLite
// table: the id of a block is the number of its run, and its place in it. Runs are written and
// removed in several transactions, by several writers at once, so that a crash leaves blocks of no
// run: they are found at the start, and removed by Mend.
package blocks

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

const (
	// Bits is how many bits of an id are the place: 2^24 blocks in a run are far more than needed.
	Bits = 24
	// Chunk is how many blocks are written or read at once: half a megabyte.
	Chunk = 128
)

// ID is that of a block.
func ID(run int64, place int) int64 { return run<<Bits | int64(place) }

// Numbers are those of the runs of a table. They are safe for concurrent use.
type Numbers struct {
	db           *sqlitedb.DB
	first, clear string

	mu   sync.Mutex
	last int64   // the greatest one that was given, or that has blocks
	gone []int64 // may have blocks, and are those of no run
}

// New are the numbers of a table with the column id; Read reads them.
func New(db *sqlitedb.DB, table string) *Numbers {
	return &Numbers{db: db,
		first: "SELECT min(id) FROM " + table + " WHERE id>=?",
		clear: "DELETE FROM " + table + " WHERE id IN (SELECT id FROM " + table + " WHERE id>=? AND id<? LIMIT ?)"}
}

// Read looks which numbers have blocks, at the first block of each. Runs are the numbers of all runs.
func (n *Numbers) Read(tx *sqlitedb.Tx, runs []int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	whole := make(map[int64]bool, len(runs))
	for _, no := range runs {
		whole[no], n.last = true, max(n.last, no)
	}
	for from := int64(0); ; {
		var id sql.NullInt64
		if err := tx.QueryRow(n.first, from).Scan(&id); err != nil || !id.Valid {
			return err
		}
		no := id.Int64 >> Bits
		if n.last = max(n.last, no); !whole[no] {
			n.gone = append(n.gone, no)
		}
		from = ID(no+1, 0)
	}
}

// Next is the number of a new run. One that is not written to the end is Gone.
func (n *Numbers) Next() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	return n.last
}

// Gone says that these are numbers of runs no more.
func (n *Numbers) Gone(runs ...int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = append(n.gone, runs...)
}

// Left are the numbers whose blocks Mend will remove.
func (n *Numbers) Left() []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.gone)
}

// Mend removes the blocks of what is Gone, a few at a time. What it did not come to is left for the
// next call.
func (n *Numbers) Mend(ctx context.Context) error {
	for _, no := range n.Left() {
		for some := int64(1); some > 0; {
			if err := n.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
				some, err = tx.Exec(n.clear, ID(no, 0), ID(no+1, 0), 8*Chunk)
				return err
			}); err != nil {
				return err
			}
		}
		n.mu.Lock()
		n.gone = slices.DeleteFunc(n.gone, func(o int64) bool { return o == no })
		n.mu.Unlock()
	}
	return nil
}
