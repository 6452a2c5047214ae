package idset

import (
	"cmp"
	"encoding/binary"
	"sync/atomic"
)

// entryBytes is the size of an entry in the database.
const entryBytes = 24

func (e Entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.Hash)
	b = binary.BigEndian.AppendUint64(b, e.Check)
	return binary.BigEndian.AppendUint64(b, uint64(e.Pos))
}

func readEntry(b []byte) Entry {
	return Entry{ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, int64(binary.BigEndian.Uint64(b[16:]))}
}

func (id ID) compare(o ID) int {
	return cmp.Or(cmp.Compare(id.Hash, o.Hash), cmp.Compare(id.Check, o.Check))
}

// table is new ids in memory: a hash table chained by hash.
type table struct {
	gen     int64
	log     string       // the statement that logs
	logged  atomic.Int64 // transactions in its log
	heads   map[uint64]int32
	entries []slot
	open    int           // claimed and not resolved
	quiet   chan struct{} // closed when a full table has none open
}

type slot struct {
	Entry
	next  int32  // of the same hash; -1: none
	claim *Claim // of the caller that adds it; nil: known, or, without a position, given up
}

// newTable makes a table with room for so many ids.
func (s *Set) newTable(gen int64, room int) *table {
	return &table{gen: gen, log: s.sql.log, heads: make(map[uint64]int32, room), entries: make([]slot, 0, room), quiet: make(chan struct{})}
}

// find returns the slot of an id that is known or claimed.
func (t *table) find(id ID) *slot {
	i, ok := t.heads[id.Hash]
	for ok && i >= 0 {
		e := &t.entries[i]
		if e.ID == id && (e.claim != nil || e.Pos != 0) {
			return e
		}
		i = e.next
	}
	return nil
}

// each calls do with the slots of a hash.
func (t *table) each(hash uint64, do func(*slot)) {
	i, ok := t.heads[hash]
	for ok && i >= 0 {
		do(&t.entries[i])
		i = t.entries[i].next
	}
}

func (t *table) insert(e slot) {
	head, ok := t.heads[e.Hash]
	if !ok {
		head = -1
	}
	e.next = head
	t.heads[e.Hash] = int32(len(t.entries))
	t.entries = append(t.entries, e)
}

// index is where a slot of the table lies.
func (t *table) index(e *slot) int {
	i := t.heads[e.Hash]
	for &t.entries[i] != e {
		i = t.entries[i].next
	}
	return int(i)
}

// cut removes the newest entries.
func (t *table) cut(to int) {
	for i := len(t.entries) - 1; i >= to; i-- {
		if e := &t.entries[i]; e.next >= 0 {
			t.heads[e.Hash] = e.next
		} else {
			delete(t.heads, e.Hash)
		}
	}
	t.entries = t.entries[:to]
}
