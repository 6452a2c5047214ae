package sqlitequeue

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Which names are known is kept as a log-structured set, because ids are random: in one
// ordered table each new name would rewrite a page of 4 KB of its own. Measured side by
// side up to two million random names: such a table alone cost 11 to 29 µs of processor
// time a name, growing; a whole Add of a job without payload 3 to 4 µs (Sweep not counted).
//
//   - New names go to a table in memory, and in the jobs' own transaction to
//     queue_name_log, from which the table is read back at the start.
//   - A full table is written as a run: its names in order, in blocks of queue_name_block,
//     and for each run a filter in memory (2 bytes a name) that tells from most names
//     that they are not in it, so that a new name is looked up on disk once in a thousand
//     runs.
//   - Sweep merges runs, and drops those whose newest name is older than queue.Remember.

// name is a job's name in 16 bytes. hash covers only the queue and the ID, so that an ack
// without a tenant finds it; check covers all three, and is cryptographic: nobody can make
// a job that passes for another tenant's.
type name struct{ hash, check uint64 }

// nameOf makes the name of a job. buf is scratch memory, returned for the next call.
func nameOf(no uint32, tenant, id string, buf []byte) (name, []byte) {
	buf = binary.LittleEndian.AppendUint32(buf[:0], no)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(tenant)))
	buf = append(buf, tenant...)
	buf = append(buf, id...)
	sum := sha256.Sum256(buf)
	return name{idHash(no, id), binary.LittleEndian.Uint64(sum[:])}, buf
}

func idHash(no uint32, id string) uint64 {
	return xxhash.Sum64String(id) ^ uint64(no)*0x9e3779b97f4a7c15 // the golden ratio spreads queues
}

// named is a known name and the position of its job in the file.
type named struct {
	name
	pos int64
}

const namedBytes = 24

func (n named) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, n.hash)
	b = binary.BigEndian.AppendUint64(b, n.check)
	return binary.BigEndian.AppendUint64(b, uint64(n.pos))
}

func readNamed(b []byte) named {
	return named{name{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, int64(binary.BigEndian.Uint64(b[16:]))}
}

func (n name) less(o name) bool { return n.hash < o.hash || n.hash == o.hash && n.check < o.check }

// names is the set of known names of all queues.
type names struct {
	store *Store

	mu     sync.Mutex
	tables []*table // the last one accepts new names; those before it are being written
	runs   []*run   // newest first; replaced, never changed

	flushing chan struct{} // cap 1: held by the writer of a table or a run
	last     int64         // number of the newest run; guarded by flushing
}

// loadNames reads the known names back.
func loadNames(ctx context.Context, s *Store) (*names, error) {
	x := &names{store: s, flushing: make(chan struct{}, 1)}
	t := newTable(1)
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := t.load(tx); err != nil {
			return err
		}
		rows, err := tx.Query("SELECT no, level, newest, count, fences, filter FROM queue_name_run ORDER BY newest DESC")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r := new(run)
			var fences, filter []byte
			if err := rows.Scan(&r.no, &r.level, &r.newest, &r.count, &fences, &filter); err != nil {
				return err
			}
			r.fences, r.filter = words(fences), words(filter)
			x.runs, x.last = append(x.runs, r), max(x.last, r.no)
		}
		return rows.Err()
	})
	x.tables = []*table{t}
	return x, err
}

// logID is where the names of a table's jobs are logged: tables in order, and in each the
// transactions.
func logID(gen, seq int64) int64 { return gen<<logBits | seq }

const logBits = 32

// load reads the log back into a table, which is the log's next.
func (t *table) load(tx *sqlitedb.Tx) error {
	rows, err := tx.Query("SELECT id, names FROM queue_name_log ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var block sql.RawBytes
		if err := rows.Scan(&id, &block); err != nil {
			return err
		}
		t.gen = id>>logBits + 1
		for ; len(block) >= namedBytes; block = block[namedBytes:] {
			t.insert(entry{named: readNamed(block)})
		}
	}
	return rows.Err()
}

// table is new names in memory: a hash table chained by hash.
type table struct {
	gen     int64
	logged  atomic.Int64 // transactions in its log
	heads   map[uint64]int32
	entries []entry
	open    int           // claimed and not resolved
	quiet   chan struct{} // closed when a full table has none open
}

type entry struct {
	named
	next  int32  // of the same hash; -1: none
	claim *claim // of the caller that adds it; nil: known, or, without a position, given up
}

// claim is one caller's hold on the names of a batch while it is being written.
type claim struct {
	table *table
	first int           // of this claim's entries
	owns  []int         // the index of each of them in the names of the call
	done  chan struct{} // closed when it is resolved
}

func newTable(gen int64) *table {
	return &table{gen: gen, heads: map[uint64]int32{}, quiet: make(chan struct{})}
}

// find returns the entry of a name that is known or claimed.
func (t *table) find(n name) *entry {
	i, ok := t.heads[n.hash]
	for ok && i >= 0 {
		e := &t.entries[i]
		if e.name == n && (e.claim != nil || e.pos != 0) {
			return e
		}
		i = e.next
	}
	return nil
}

func (t *table) insert(e entry) {
	head, ok := t.heads[e.hash]
	if !ok {
		head = -1
	}
	e.next = head
	t.heads[e.hash] = int32(len(t.entries))
	t.entries = append(t.entries, e)
}

// cut removes the newest entries.
func (t *table) cut(to int) {
	for i := len(t.entries) - 1; i >= to; i-- {
		if e := &t.entries[i]; e.next >= 0 {
			t.heads[e.hash] = e.next
		} else {
			delete(t.heads, e.hash)
		}
	}
	t.entries = t.entries[:to]
}

// The answers of claiming for each name.
const (
	claimed = -1 - iota // it is new, and the claim's
	known               // it is known; 0 or above: the claim has it already, at that index
)

// claim claims the new names; says[i] is the answer for each. While it holds none, it waits
// for other callers that are adding some of them.
func (x *names) claim(ctx context.Context, want []name, says []int) (*claim, error) {
	for {
		c, other, runs := x.try(want, says)
		if other != nil {
			select {
			case <-other.done:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		err := x.lookUp(ctx, runs, c, want, says)
		for errors.Is(err, sql.ErrNoRows) { // a run was merged away while it was read
			err = x.lookUp(ctx, x.snapshot(), c, want, says)
		}
		if err != nil {
			x.resolve(c, nil)
			return nil, err
		}
		return c, nil
	}
}

// try claims, or says which claim to wait for.
func (x *names) try(want []name, says []int) (c, other *claim, runs []*run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tables[len(x.tables)-1]
	c = &claim{table: t, first: len(t.entries), done: make(chan struct{})}
	c.owns = make([]int, 0, len(want))
	for i, n := range want {
		var e *entry
		for j := len(x.tables) - 1; j >= 0 && e == nil; j-- {
			e = x.tables[j].find(n)
		}
		switch {
		case e == nil:
			t.insert(entry{named: named{name: n}, claim: c})
			c.owns = append(c.owns, i)
			says[i] = claimed
		case e.claim == nil:
			says[i] = known
		case e.claim == c:
			says[i] = c.owns[x.index(t, e)-c.first]
		default:
			t.cut(c.first)
			return nil, e.claim, nil
		}
	}
	t.open += len(c.owns)
	return c, nil, x.runs
}

// index is where an entry of a table lies.
func (x *names) index(t *table, e *entry) int {
	i := t.heads[e.hash]
	for &t.entries[i] != e {
		i = t.entries[i].next
	}
	return int(i)
}

// lookUp finds claimed names in the runs: those are known. A name that repeats one of them
// in the same batch is then known too.
func (x *names) lookUp(ctx context.Context, runs []*run, c *claim, want []name, says []int) error {
	if len(runs) == 0 || len(c.owns) == 0 {
		return nil
	}
	err := x.search(ctx, runs, want, func(i int) bool { return says[i] == claimed }, func(i int) { says[i] = known })
	if err != nil {
		return err
	}
	for i, s := range says {
		if s >= 0 && says[s] == known {
			says[i] = known
		}
	}
	return nil
}

// search looks up the open names in the runs, and tells which it found. It fails with
// sql.ErrNoRows where a run was merged away meanwhile.
func (x *names) search(ctx context.Context, runs []*run, want []name, open func(i int) bool, found func(i int)) error {
	var maybe []question
	for i, n := range want {
		if !open(i) {
			continue
		}
		for _, r := range runs {
			if r.filter.maybe(n.hash) {
				maybe = append(maybe, question{i, r})
			}
		}
	}
	if len(maybe) == 0 {
		return nil
	}
	return x.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, q := range maybe {
			if !open(q.i) {
				continue
			}
			hit := false
			err := q.run.find(tx, want[q.i].hash, func(n named) { hit = hit || n.name == want[q.i] })
			if err != nil {
				return err
			}
			if hit {
				found(q.i)
			}
		}
		return nil
	})
}

// question is whether a name of a batch is in a run.
type question struct {
	i   int
	run *run
}

// resolve ends a claim. positions are where the jobs of the claimed names lie, in the order of
// the claim; 0, or no positions at all: not added, and the name is free again.
func (x *names) resolve(c *claim, positions []int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := c.table
	for k := range c.owns {
		e := &t.entries[c.first+k]
		e.claim = nil
		if positions != nil {
			e.pos = positions[k]
		}
	}
	t.open -= len(c.owns)
	if t.open == 0 && len(c.owns) > 0 && t != x.tables[len(x.tables)-1] {
		close(t.quiet)
	}
	if positions == nil && c.first+len(c.owns) == len(t.entries) {
		t.cut(c.first)
	}
	close(c.done)
}

// filePositions returns where jobs of that ID may lie, of any tenant.
func (x *names) filePositions(ctx context.Context, no uint32, id string) ([]int64, error) {
	hash := idHash(no, id)
	x.mu.Lock()
	runs := x.runs
	var at []int64
	for _, t := range x.tables {
		i, ok := t.heads[hash]
		for ok && i >= 0 {
			if e := &t.entries[i]; e.pos != 0 {
				at = append(at, e.pos)
			}
			i = t.entries[i].next
		}
	}
	x.mu.Unlock()
	err := x.store.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, r := range runs {
			if !r.filter.maybe(hash) {
				continue
			}
			if err := r.find(tx, hash, func(n named) { at = append(at, n.pos) }); err != nil {
				return err
			}
		}
		return nil
	})
	return at, err
}
