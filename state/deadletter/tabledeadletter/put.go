package tabledeadletter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
	"github.com/tidemill/tidemill/state/table"
)

// dying is a dead letter that is put.
type dying struct {
	*tidemill.DeadLetter
	key  string
	head []byte // its encoded message
}

// Put implements deadletter.Store: a few statements for many dead letters.
func (s *Store[Raw]) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if err := cmp.Or(ctx.Err(), rules.CheckPut(letters)); err != nil || len(letters) == 0 {
		return err
	}
	all := make([]dying, len(letters)) // while no other writer waits
	for i := range letters {
		l := &letters[i]
		all[i] = dying{l, keyOf(nameOf(l)), encodeMessage(l.Message, l.Row)}
	}
	if err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error { return s.put(tx, all) }); err != nil {
		return fmt.Errorf("put %d dead letters: %w", len(letters), err)
	}
	return nil
}

func (s *Store[Raw]) put(tx table.Tx[Record], letters []dying) error {
	keys, pipelines := make([]string, len(letters)), make([]string, len(letters))
	for i, l := range letters {
		keys[i], pipelines[i] = l.key, l.Pipeline
	}
	found, accounts, err := read(tx, pipelines, keys)
	if err != nil {
		return err
	}
	if err := whole(tx, slices.Collect(maps.Values(found))...); err != nil {
		return err
	}
	var fresh []*Record
	more := map[string]int{} // of each pipeline
	for _, l := range letters {
		if found[l.key] == nil {
			found[l.key] = &Record{key: l.key}
			fresh = append(fresh, found[l.key])
			more[l.Pipeline]++
		}
	}
	groups := newGrouping()
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if err := s.room(tx, found, name, more[name], accounts[name], groups); err != nil {
			return err
		}
	}
	if err := number(tx, fresh); err != nil {
		return err
	}
	var changed []*Record
	for _, l := range letters {
		r := found[l.key]
		did, another := r.Put(l.DeadLetter)
		if did {
			r.message = l.head
			changed = append(changed, r)
			groups.leave(r)
		}
		if another {
			accounts[l.Pipeline].put++
			accounts[l.Pipeline].skipped++
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for _, r := range changed {
		if r.group == "" { // one that was given twice has died of the last
			groups.join(r)
		}
	}
	if err := groups.write(tx, accounts); err != nil {
		return err
	}
	return write(tx, changed, accounts.rows()...)
}

// number gives new dead letters their numbers.
func number(tx table.Tx[Record], fresh []*Record) error {
	for part := range slices.Chunk(fresh, table.MaxNext) {
		newest, err := tx.Next(len(part))
		if err != nil {
			return err
		}
		for i, r := range part {
			r.Seq = int64(newest) - int64(len(part)-1-i)
		}
	}
	return nil
}

// room makes sure that the new dead letters of a pipeline fit, and counts them in its books.
func (s *Store[Raw]) room(tx table.Tx[Record], found map[string]*Record, pipeline string, fresh int, b *books, groups *grouping) error {
	there := b.there()
	if over := there + fresh - s.o.Max; over > 0 {
		trimmed := 0
		if s.o.Trim {
			var err error
			if trimmed, err = trim(tx, found, pipeline, over, groups); err != nil {
				return err
			}
		}
		if trimmed < over {
			return deadletter.Full(pipeline, fresh, there, s.o.Max)
		}
		b.lost += uint64(trimmed)
	}
	b.put += uint64(fresh)
	return nil
}

// trim drops the oldest n held dead letters of a pipeline, except those that die again in this
// call, and says how many it dropped.
func trim(tx table.Tx[Record], again map[string]*Record, pipeline string, n int, groups *grouping) (int, error) {
	page, err := tx.Page(table.Query[Record]{By: "state", Where: among(pipeline, held), Most: n + len(again), Only: []string{"tenant", "apart", "grouped", "owned"}})
	if err != nil {
		return 0, err
	}
	page = slices.DeleteFunc(page, func(r *Record) bool { return again[r.key] != nil })
	page = page[:min(n, len(page))]
	for _, r := range page {
		r.Pipeline = pipeline
		groups.leave(r)
	}
	return len(page), remove(tx, page)
}

// tenants is how many tenants' dead letters of one message ID are read at once.
const tenants = 100

// Has implements deadletter.Store.
func (s *Store[Raw]) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if len(ids) != len(marks) {
		return nil, fmt.Errorf("look for dead letters of %q: %d ids and %d marks", pipeline, len(ids), len(marks))
	}
	has := make([]bool, len(ids))
	err := s.t.View(ctx, func(tx table.Reader[Record]) error {
		clear(has)
		for i, id := range ids {
			q := table.Query[Record]{Where: beginning(prefix(pipeline, id)), Most: tenants, Only: []string{"shard", "hi", "lo"}}
			if err := table.Each(tx, q, func(r *Record) bool {
				has[i] = r.fill().Mark.At(marks[i])
				return !has[i]
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d dead letters of %q: %w", len(ids), pipeline, err)
	}
	return has, nil
}
