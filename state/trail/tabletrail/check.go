package tabletrail

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/trail"
)

const (
	page      = 500
	mostWrong = 100
)

// Check implements trail.Trail. It reads a page at a time, so that others may add and forget
// meanwhile.
func (t *Trail[Raw]) Check(ctx context.Context) (c trail.Checked, err error) {
	k := &checking{Checked: &c, open: map[uint64]trail.End{}, closed: map[uint64]trail.End{}}
	q := table.Query[Record]{Most: page, Where: []table.Cond{{Field: "key", Op: "<", Value: head}}}
	for whole := false; !whole; {
		var h *Record
		var rs []*Record
		if err := t.t.View(ctx, func(tx table.Reader[Record]) error { // may be called again
			found, err := tx.Get([]string{head})
			if err == nil {
				h = found[head]
				rs, err = tx.Page(q)
			}
			return err
		}); err != nil {
			return c, fmt.Errorf("check the audit trail: %w", err)
		}
		k.begin(h)
		for _, r := range rs {
			k.next(r)
		}
		if whole = len(rs) < page; whole {
			k.end(h)
		} else {
			q.After = rs[len(rs)-1]
		}
	}
	if err := t.compare(ctx, k); err != nil {
		return c, fmt.Errorf("check the audit trail: %w", err)
	}
	return c, nil
}

// checking follows the chain.
type checking struct {
	*trail.Checked
	prev   string
	seq    uint64               // of the next one; 0: nothing was read
	open   map[uint64]trail.End // what entries say of their ends, which were not met yet
	closed map[uint64]trail.End // ends of entries that said that they had not ended when they were read
}

func (k *checking) wrong(format string, args ...any) {
	if len(k.Wrong) < mostWrong {
		k.Wrong = append(k.Wrong, fmt.Sprintf(format, args...))
	}
}

// begin begins at the oldest one, also where that was forgotten meanwhile.
func (k *checking) begin(h *Record) {
	if h != nil && h.of > k.seq {
		k.First, k.seq, k.prev = h.of, h.of, h.prev
		maps.DeleteFunc(k.open, func(seq uint64, _ trail.End) bool { return seq < h.of }) // their ends may be forgotten too
	}
}

func (k *checking) next(r *Record) {
	if r.Seq != k.seq || r.key != keyOf(r.Seq) {
		k.wrong("entry %d is followed by %d: what was between is gone", k.seq-1, r.Seq)
	}
	if r.prev != k.prev {
		k.wrong("entry %d does not follow the one before it", r.Seq)
	}
	of := any(begun(r.Entry))
	if r.entry {
		k.Entries++
		k.open[r.Seq] = r.End
	} else {
		of = ended(r.of, r.End)
		k.close(r)
	}
	if r.hash != hashOf(r.prev, r.Seq, of) {
		k.wrong("entry %d was changed", r.Seq)
	}
	k.prev, k.seq, k.Last, k.Head = r.hash, r.Seq+1, r.Seq, r.hash
}

// close compares the end of an entry with what that says.
func (k *checking) close(r *Record) {
	said, ok := k.open[r.of]
	delete(k.open, r.of)
	switch {
	case !ok && r.of >= k.First:
		k.wrong("entry %d ends %d, which is not there or has ended before", r.Seq, r.of)
	case !ok: // the entry was forgotten
	case said.Outcome == trail.Unknown: // perhaps it ended since it was read
		k.closed[r.of] = r.End
	case said != r.End:
		k.wrong("entry %d says something else of its end than the trail", r.of)
	}
}

func (k *checking) end(h *Record) {
	for seq, end := range k.open {
		if end.Outcome != trail.Unknown {
			k.wrong("entry %d says how it ended, and the trail has no end of it", seq)
		}
	}
	if h == nil && k.seq > 0 || h != nil && (h.Seq != k.seq-1 || h.hash != k.prev) {
		k.wrong("the newest entries are gone: the last one is %d", k.Last)
	}
}

// compare reads those entries again that had not ended when they were read. An end stays as it is, so
// that each may be read at another moment.
func (t *Trail[Raw]) compare(ctx context.Context, k *checking) error {
	for seqs := range slices.Chunk(slices.Sorted(maps.Keys(k.closed)), page) {
		keys := make([]string, len(seqs))
		for i, seq := range seqs {
			keys[i] = keyOf(seq)
		}
		var found map[string]*Record
		if err := t.t.View(ctx, func(tx table.Reader[Record]) (err error) {
			found, err = tx.Get(keys)
			return err
		}); err != nil {
			return err
		}
		for i, seq := range seqs {
			if r := found[keys[i]]; r != nil && r.End != k.closed[seq] {
				k.wrong("entry %d says something else of its end than the trail", seq)
			}
		}
	}
	return nil
}
