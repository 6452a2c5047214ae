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

// putting is a Put in its transaction.
type putting struct {
	letters []dying
	found   map[string]*Record // those that die once more, and the new ones that were made
	fresh   map[string]int     // new ones of each pipeline
	books   map[string]books   // of each pipeline
	numbers func() (uint64, error)
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
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		p, err := s.begin(tx, all)
		if err != nil {
			return err
		}
		return p.apply(tx)
	})
	if err != nil {
		return fmt.Errorf("put %d dead letters: %w", len(letters), err)
	}
	return nil
}

// begin reads what is there, and makes sure that the dead letters fit.
func (s *Store[Raw]) begin(tx table.Tx[Record], letters []dying) (*putting, error) {
	p := &putting{letters: letters, fresh: map[string]int{}, books: map[string]books{}}
	keys := make([]string, 0, len(letters)+1)
	for _, l := range letters {
		keys = append(keys, l.key)
		if _, known := p.books[l.Pipeline]; !known {
			p.books[l.Pipeline] = books{}
			keys = append(keys, booksKey(l.Pipeline))
		}
	}
	if err := p.read(tx, keys); err != nil {
		return nil, err
	}
	seen, fresh := map[string]bool{}, 0
	for _, l := range letters {
		if p.found[l.key] == nil && !seen[l.key] {
			seen[l.key] = true
			p.fresh[l.Pipeline]++
			fresh++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.fresh)) {
		if err := s.room(tx, p, name); err != nil {
			return nil, err
		}
	}
	p.numbers = numbers(tx, fresh)
	return p, nil
}

// read finds the dead letters and books of keys: edited dead letters with their messages, the
// others without.
func (p *putting) read(tx table.Tx[Record], keys []string) (err error) {
	if p.found, err = tx.Get(keys, light...); err != nil {
		return err
	}
	for name := range p.books {
		if p.books[name], err = booksOf(name, p.found); err != nil {
			return err
		}
		delete(p.found, booksKey(name))
	}
	var edited []string
	for key, r := range p.found {
		if r.fill().fillHistory(); !r.Edited.IsZero() {
			edited = append(edited, key)
		}
	}
	if len(edited) == 0 {
		return nil
	}
	full, err := tx.Get(edited)
	if err != nil {
		return err
	}
	maps.Copy(p.found, full)
	return whole(tx, slices.Collect(maps.Values(full))...)
}

// numbers takes n numbers and gives them one by one.
func numbers(tx table.Tx[Record], n int) func() (uint64, error) {
	var next, last uint64
	return func() (uint64, error) {
		if next == last {
			k := min(n, table.MaxNext)
			newest, err := tx.Next(k)
			if err != nil {
				return 0, err
			}
			next, last, n = newest-uint64(k), newest, n-k
		}
		next++
		return next, nil
	}
}

// room makes sure that the new dead letters of a pipeline fit, and counts them in the books.
func (s *Store[Raw]) room(tx table.Tx[Record], p *putting, pipeline string) error {
	b := p.books[pipeline]
	fresh, there := p.fresh[pipeline], b.there()
	if over := there + fresh - s.o.Max; over > 0 {
		trimmed := 0
		if s.o.Trim {
			var err error
			if trimmed, err = p.trim(tx, pipeline, over); err != nil {
				return err
			}
		}
		if trimmed < over {
			return deadletter.Full(pipeline, fresh, there, s.o.Max)
		}
		b.lost += uint64(trimmed)
	}
	b.put += uint64(fresh)
	p.books[pipeline] = b
	return nil
}

// trim drops the oldest n held dead letters of a pipeline, except those that die again in this
// call, and says how many it dropped.
func (p *putting) trim(tx table.Tx[Record], pipeline string, n int) (int, error) {
	page, err := tx.Page(table.Query[Record]{By: "state", Where: among(pipeline, held), Most: n + len(p.found), Only: []string{"apart"}})
	if err != nil {
		return 0, err
	}
	page = slices.DeleteFunc(page, func(r *Record) bool { return p.found[r.key] != nil })
	page = page[:min(n, len(page))]
	return len(page), remove(tx, page)
}

// apply changes the dead letters and writes them.
func (p *putting) apply(tx table.Tx[Record]) error {
	changed := map[*Record][]byte{} // and the encoded message that it takes
	for _, l := range p.letters {
		r := p.found[l.key]
		if r == nil {
			seq, err := p.numbers()
			if err != nil {
				return err
			}
			r = &Record{key: l.key}
			r.Seq, p.found[l.key] = int64(seq), r
		}
		did, another := r.Put(l.DeadLetter)
		if did {
			changed[r] = l.head
		}
		if another {
			b := p.books[l.Pipeline]
			b.put++
			b.skipped++
			p.books[l.Pipeline] = b
		}
	}
	if len(changed) == 0 {
		return nil
	}
	var accounts []*Record
	for name, b := range p.books {
		accounts = append(accounts, b.row(name))
	}
	return write(tx, changed, accounts...)
}

// tenants is how many tenants' dead letters of one message ID are read at once.
const tenants = 100

// Has implements deadletter.Store.
func (s *Store[Raw]) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	if len(ids) != len(marks) {
		return nil, fmt.Errorf("look for dead letters of %q: %d ids and %d marks", pipeline, len(ids), len(marks))
	}
	has, at := make([]bool, len(ids)), make(map[string][]int, len(ids))
	for i, id := range ids {
		at[id] = append(at[id], i)
	}
	err := s.t.View(ctx, func(tx table.Reader[Record]) error {
		clear(has)
		for id, indexes := range at {
			q := table.Query[Record]{Where: beginning(prefix(pipeline, id)), Most: tenants, Only: []string{"shard", "hi", "lo"}}
			if err := eachOf(tx, q, func(r *Record) bool {
				r.fill()
				for _, i := range indexes {
					has[i] = has[i] || r.Mark.At(marks[i])
				}
				return true
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
