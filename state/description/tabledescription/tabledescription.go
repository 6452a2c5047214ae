// Package tabledescription keeps descriptions in a table of any backend, and tells of changes by notices.
package tabledescription

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is a description, or under the key last the version of the last change and how many there are.
type Record struct {
	key     string // list/name: no list has a slash
	list    string
	name    string
	text    []byte
	version uint64
	changed time.Time
	by      string
	count   int // of last
}

const (
	last = "last"
	page = 100 // read at once
)

// Spec is what a record is.
func Spec() table.Spec[Record] {
	at := func(name string, of func(*Record) any) table.Field[Record] {
		return table.Field[Record]{Name: name, At: of}
	}
	return table.Spec[Record]{Name: "description", Fields: []table.Field[Record]{
		at("key", func(r *Record) any { return &r.key }),
		at("list", func(r *Record) any { return &r.list }),
		at("name", func(r *Record) any { return &r.name }),
		at("text", func(r *Record) any { return &r.text }),
		at("version", func(r *Record) any { return &r.version }),
		at("changed", func(r *Record) any { return &r.changed }),
		at("changed_by", func(r *Record) any { return &r.by }),
		at("count", func(r *Record) any { return &r.count }),
	}}
}

// Store is a description.Store.
type Store[Raw any] struct {
	t       table.Store[Record, Raw]
	notices notice.Notices
}

var _ description.Store = (*Store[any])(nil)

// New keeps descriptions in a table. Notices reach all who share it.
func New[Raw any](t table.Store[Record, Raw], notices notice.Notices) *Store[Raw] {
	return &Store[Raw]{t, notices}
}

// Memory keeps them in memory.
func Memory() *Store[*memorytable.Tx] { return New(memorytable.Alone(Spec()), &notice.Signal{}) }

// Await implements description.Store.
func (s *Store[Raw]) Await(ctx context.Context, known uint64) error {
	l, err := s.notices.Listen(ctx)
	if err != nil {
		return fmt.Errorf("await a change of the descriptions: %w", err)
	}
	defer l.Close()
	version, err := s.Version(ctx) // after it listens, so that no change is between
	if err != nil || version != known {
		return err
	}
	if err := l.Wait(ctx); err != nil {
		return fmt.Errorf("await a change of the descriptions: %w", err)
	}
	return nil
}

// Told implements description.Store.
func (s *Store[Raw]) Told() string { return s.notices.How() }

// tellWithin is how long a change that was made waits for its notice.
const tellWithin = time.Second

// tell says to all that something was changed. A notice that is lost costs those who wait some time.
func (s *Store[Raw]) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	_ = s.notices.Tell(ctx)
}

// lastOf is the record of the last change; of a table without any a zero one.
func lastOf(from table.Reader[Record]) (*Record, error) {
	found, err := from.Get([]string{last})
	if r := found[last]; r != nil {
		return r, err
	}
	return &Record{key: last}, err
}

// Version implements description.Store.
func (s *Store[Raw]) Version(ctx context.Context) (version uint64, err error) {
	err = s.t.View(ctx, func(from table.Reader[Record]) error {
		r, err := lastOf(from)
		version = r.version
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the version of the descriptions: %w", err)
	}
	return version, nil
}

// List implements description.Store.
func (s *Store[Raw]) List(ctx context.Context) (all description.Kept, err error) {
	err = s.t.View(ctx, func(from table.Reader[Record]) error {
		all = description.Kept{}
		r, err := lastOf(from)
		if err != nil {
			return err
		}
		all.Version = r.version
		return table.Each(from, table.Query[Record]{Most: page}, func(r *Record) bool {
			if r.key != last {
				all.All = append(all.All, description.Description{List: r.list, Name: r.name, Text: r.text, Version: r.version, Changed: r.changed, By: r.by})
			}
			return true
		})
	})
	if err != nil {
		return description.Kept{}, fmt.Errorf("list the descriptions: %w", err)
	}
	return all, nil
}

// Put implements description.Store.
func (s *Store[Raw]) Put(ctx context.Context, d description.Description, of uint64) (uint64, error) {
	if len(d.Text) == 0 || len(d.Text) > description.MostText {
		return 0, fmt.Errorf("describe %s %q: a text of %d bytes: want 1 to %d", d.List, d.Name, len(d.Text), description.MostText)
	}
	return s.change(ctx, "describe", d.List, d.Name, of, func(tx table.Tx[Record], was *Record, at *Record) error {
		if was == nil {
			if at.count++; at.count > description.Most {
				return description.ErrFull
			}
		}
		return tx.Put([]*Record{{key: d.List + "/" + d.Name, list: d.List, name: d.Name, text: d.Text, version: at.version, changed: d.Changed, by: d.By}})
	})
}

// Remove implements description.Store.
func (s *Store[Raw]) Remove(ctx context.Context, list, name string, of uint64) (uint64, error) {
	return s.change(ctx, "remove", list, name, of, func(tx table.Tx[Record], was *Record, at *Record) error {
		if was == nil {
			return description.ErrNone
		}
		at.count--
		return tx.Delete([]string{was.key})
	})
}

// change makes the next version: do changes the record of a name, which is nil where there is none,
// and the count.
func (s *Store[Raw]) change(ctx context.Context, what, list, name string, of uint64, do func(tx table.Tx[Record], was, at *Record) error) (version uint64, err error) {
	for _, n := range []string{list, name} {
		if len(n) == 0 || len(n) > description.MostName {
			return 0, fmt.Errorf("%s %s %q: a name of %d bytes: want 1 to %d", what, list, name, len(n), description.MostName)
		}
	}
	err = s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		at, err := lastOf(tx)
		if err != nil {
			return err
		}
		if at.version != of {
			return description.ErrChanged
		}
		key := list + "/" + name
		found, err := tx.Get([]string{key})
		if err != nil {
			return err
		}
		at.version++
		if err := do(tx, found[key], at); err != nil {
			return err
		}
		version = at.version
		return tx.Put([]*Record{at})
	})
	if err != nil {
		return 0, fmt.Errorf("%s %s %q: %w", what, list, name, err)
	}
	s.tell(ctx)
	return version, nil
}
