package rowindex

import (
	"container/heap"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sort"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Search says which rows are looked for.
type Search struct {
	Keys      []uint64 // rows with any of them
	Low, High Position // between these, both excluded
	Back      bool     // the last first
	First     int64    // rows with lower ids are gone
}

// Search calls use with the positions of rows, in order and each once, so many at a time and in the
// transaction in which they were read; use says how many are wanted next, 0: none. It knows the rows
// that are in the index when it is called (see CatchUp). Rows that were removed, and rows of other
// keys of the same hash, may be among them.
func (x *Index) Search(ctx context.Context, s Search, most int, use func(tx *sqlitedb.Tx, at []Position) (next int, err error)) error {
	c := x.cursors(s)
	for most > 0 {
		var at []Position
		err := x.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
			if at, err = c.take(tx, most); err != nil || len(at) == 0 {
				return err
			}
			most, err = use(tx, at)
			return err
		})
		switch {
		case errors.Is(err, sql.ErrNoRows) && !slices.Equal(c.runs, x.snapshot()): // one was merged away while it was read
			c = x.cursors(s)
		case err != nil:
			return err
		case len(at) == 0:
			return nil
		case s.Back:
			s.High = at[len(at)-1]
		default:
			s.Low = at[len(at)-1]
		}
	}
	return nil
}

// cursors are what a search reads, as a heap by the next entry of each.
type cursors struct {
	x    *Index
	s    Search
	runs []*run
	all  []*cursor // the heap
	todo []*cursor // not positioned yet
	last *Position // that was taken
}

// cursor is in the entries of a key in a run, or among the rows in memory.
type cursor struct {
	key    uint64
	run    *run
	block  int
	in     []entry
	at     int
	memory *unsorted // nil: in a run
}

// now is where the cursor is.
func (r *cursor) now() Position {
	if r.memory != nil {
		return r.memory.in[0]
	}
	return r.in[r.at].at
}

// unsorted are rows as a heap: a page needs few of them in order.
type unsorted struct {
	in   []Position
	back bool
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (u *unsorted) Len() int { return len(u.in) }

func (u *unsorted) Less(i, j int) bool {
	d := u.in[i].Compare(u.in[j])
	return d < 0 != u.back && d != 0
}

func (u *unsorted) Swap(i, j int) { u.in[i], u.in[j] = u.in[j], u.in[i] }

func (u *unsorted) Push(p any) { u.in = append(u.in, p.(Position)) }

func (u *unsorted) Pop() any {
	u.in = u.in[:len(u.in)-1]
	return nil // nobody wants it
}

func (x *Index) cursors(s Search) *cursors {
	x.mu.Lock()
	runs, rows := x.runs, x.rows
	x.mu.Unlock()
	c := &cursors{x: x, s: s, runs: runs}
	c.s.Keys = slices.Sorted(slices.Values(s.Keys))
	memory := &unsorted{back: s.Back}
	for i := range rows {
		for _, k := range rows[i].Keys {
			if at := (Position{rows[i].At, rows[i].ID}); has(c.s.Keys, k) && c.between(at) {
				memory.in = append(memory.in, at)
				break
			}
		}
	}
	if len(memory.in) > 0 {
		heap.Init(memory)
		c.all = append(c.all, &cursor{memory: memory})
	}
	for _, r := range runs {
		for _, k := range s.Keys {
			if len(r.fences) > 0 && r.last >= s.First {
				c.todo = append(c.todo, &cursor{key: k, run: r})
			}
		}
	}
	return c
}

func has(sorted []uint64, k uint64) bool {
	_, found := slices.BinarySearch(sorted, k)
	return found
}

func (c *cursors) between(p Position) bool { return p.Compare(c.s.Low) > 0 && p.Compare(c.s.High) < 0 }

// position makes a cursor be at its first entry; has says that there is one.
func (c *cursors) position(tx *sqlitedb.Tx, r *cursor) (has bool, err error) {
	from := entry{r.key, c.s.Low}
	if c.s.Back {
		from = entry{r.key, c.s.High}
	}
	r.block = r.run.before(from)
	if r.in, err = c.x.readBlock(tx, r.run, r.block); err != nil {
		return false, err
	}
	r.at = sort.Search(len(r.in), func(i int) bool { return r.in[i].compare(from) >= 0 })
	if c.s.Back {
		r.at--
	} else if r.at < len(r.in) && r.in[r.at] == from { // it is excluded
		r.at++
	}
	return c.stands(tx, r)
}

// stands reads the neighbouring block where a cursor is beyond its own.
func (c *cursors) stands(tx *sqlitedb.Tx, r *cursor) (has bool, err error) {
	for r.at < 0 || r.at >= len(r.in) {
		step := 1
		if r.at < 0 {
			step = -1
		}
		if r.block+step < 0 || r.block+step >= len(r.run.fences) {
			return false, nil
		}
		r.block += step
		if r.in, err = c.x.readBlock(tx, r.run, r.block); err != nil {
			return false, err
		}
		if r.at = 0; c.s.Back {
			r.at = len(r.in) - 1
		}
	}
	e := r.in[r.at]
	return e.key == r.key && c.between(e.at), nil
}

// step makes a cursor be at its next entry; has says that there is one.
func (c *cursors) step(tx *sqlitedb.Tx, r *cursor) (has bool, err error) {
	if r.memory != nil {
		heap.Pop(r.memory)
		return r.memory.Len() > 0, nil
	}
	if r.at++; c.s.Back {
		r.at -= 2
	}
	return c.stands(tx, r)
}

// take takes the next positions.
func (c *cursors) take(tx *sqlitedb.Tx, most int) (at []Position, err error) {
	for ; len(c.todo) > 0; c.todo[0], c.todo = nil, c.todo[1:] {
		has, err := c.position(tx, c.todo[0])
		if err != nil {
			return nil, err
		}
		if has {
			c.all = append(c.all, c.todo[0])
		}
	}
	heap.Init(c)
	for len(at) < most && len(c.all) > 0 {
		r := c.all[0]
		if p := r.now(); p.Row >= c.s.First && (c.last == nil || *c.last != p) { // a row may have several of the keys
			at, c.last = append(at, p), &p
		}
		has, err := c.step(tx, r)
		if err != nil {
			return nil, err
		}
		if has {
			heap.Fix(c, 0)
		} else {
			heap.Pop(c)
		}
	}
	return at, nil
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (c *cursors) Len() int { return len(c.all) }

func (c *cursors) Less(i, j int) bool {
	d := c.all[i].now().Compare(c.all[j].now())
	return d < 0 != c.s.Back && d != 0
}

func (c *cursors) Swap(i, j int) { c.all[i], c.all[j] = c.all[j], c.all[i] }

func (c *cursors) Push(r any) { c.all = append(c.all, r.(*cursor)) }

func (c *cursors) Pop() any {
	last := c.all[len(c.all)-1]
	c.all = c.all[:len(c.all)-1]
	return last
}
