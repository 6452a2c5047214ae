// Package tableaccess keeps grants in a table of any backend, and the views of the console that those who come in save.
package tableaccess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is a grant, or a saved view.
type Record struct{ record }

// record is in it as one, so that the names of functions of the table, which have all fields in them, are short.
type record struct {
	key string // its kind, a slash, and its id
	access.Grant

	title, target string // of a view: its name, and its address
}

// lastToken is the record that each new token writes, so that one is added after the other: that none
// has its name stays true.
const lastToken = "tokens"

// page is how many records are read at once.
const page = 500

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "access", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "kind", At: func(r *Record) any { return (*string)(&r.Kind) }},
		{Name: "name", At: func(r *Record) any { return &r.Name }},
		{Name: "role", At: func(r *Record) any { return &r.Role }},
		{Name: "hash", At: func(r *Record) any { return &r.Hash }},
		{Name: "by", At: func(r *Record) any { return &r.By }},
		{Name: "address", At: func(r *Record) any { return &r.From }},
		{Name: "browser", At: func(r *Record) any { return &r.Browser }},
		{Name: "made", At: func(r *Record) any { return &r.Made }},
		{Name: "used", At: func(r *Record) any { return &r.Used }},
		{Name: "until", At: func(r *Record) any { return &r.Until }},
		{Name: "entered", At: func(r *Record) any { return &r.Entered }},
		{Name: "title", At: func(r *Record) any { return &r.title }},
		{Name: "target", At: func(r *Record) any { return &r.target }},
	}, Orders: []table.Order{{Name: "named", By: []string{"kind", "name", "made"}}, {Name: "end", By: []string{"until"}}}, Expires: "until"}
}

// Store implements access.Store and access.Sweeper.
type Store[Raw any] struct{ t table.Store[Record, Raw] }

var (
	_ access.Store   = (*Store[any])(nil)
	_ access.Sweeper = (*Store[any])(nil)
)

// New makes a store of a table; what is in it stays.
func New[Raw any](t table.Store[Record, Raw]) *Store[Raw] { return &Store[Raw]{t} }

// Memory makes an empty store in memory.
func Memory() *Store[*memorytable.Tx] { return New(memorytable.Alone(Spec())) }

func keyOf(kind access.Kind, id string) string { return string(kind) + "/" + id }

func recordOf(g access.Grant) *Record {
	return &Record{record{key: keyOf(g.Kind, g.ID), Grant: g}}
}

func (r *Record) grant() access.Grant {
	g := r.Grant
	g.ID = strings.TrimPrefix(r.key, string(r.Kind)+"/")
	return g
}

// Add implements access.Store.
func (s *Store[Raw]) Add(ctx context.Context, g access.Grant) error {
	if g.ID == "" || len(g.ID) > access.MaxName || len(g.Name) > access.MaxName {
		return fmt.Errorf("add %s: a name has 1 to %d bytes", g.Kind, access.MaxName)
	}
	return s.update(ctx, "add", g.Kind, g.ID, func(tx table.Tx[Record]) error {
		added, keys := []*Record{recordOf(g)}, []string{keyOf(g.Kind, g.ID)}
		if g.Kind == access.Token {
			added, keys = append(added, &Record{record{key: lastToken}}), append(keys, lastToken)
		}
		found, err := tx.Get(keys, "kind")
		if err != nil {
			return err
		}
		if g.Kind == access.Token {
			same, err := tx.Page(named(g.Kind, g.Name, 1))
			if err != nil {
				return err
			}
			if len(same) > 0 {
				return access.ErrTaken
			}
		}
		if found[keys[0]] != nil {
			return access.ErrTaken
		}
		return tx.Put(added)
	})
}

// Get implements access.Store.
func (s *Store[Raw]) Get(ctx context.Context, kind access.Kind, id string) (g access.Grant, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		r, err := find(tx, kind, id)
		if err == nil {
			g = r.grant()
		}
		return err
	})
	return g, about(err, "get", kind, id)
}

// find reads the one grant of an id, which may be shortened.
func find(tx table.Reader[Record], kind access.Kind, id string) (*Record, error) {
	key := keyOf(kind, id)
	found, err := tx.Get([]string{key})
	if err != nil {
		return nil, err
	}
	if r := found[key]; r != nil {
		return r, nil
	}
	if len(id) != access.ShortID || kind == access.User {
		return nil, access.ErrUnknown
	}
	rs, err := tx.Page(table.Query[Record]{Most: 1, Where: []table.Cond{{Field: "key", Op: ">=", Value: key}}})
	if err != nil {
		return nil, err
	}
	if len(rs) == 0 || !strings.HasPrefix(rs[0].key, key) {
		return nil, access.ErrUnknown
	}
	return rs[0], nil
}

// named asks for the grants of a kind, and of a name if there is one.
func named(kind access.Kind, name string, most int) table.Query[Record] {
	q := table.Query[Record]{By: "named", Most: most, Where: []table.Cond{{Field: "kind", Op: "=", Value: string(kind)}}}
	if name != "" {
		q.Where = append(q.Where, table.Cond{Field: "name", Op: "=", Value: name})
	}
	return q
}

// List implements access.Store.
func (s *Store[Raw]) List(ctx context.Context, kind access.Kind, name string) (all []access.Grant, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		rs, err := table.All(tx, named(kind, name, page))
		all = make([]access.Grant, len(rs))
		for i, r := range rs {
			all[i] = r.grant()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list each %s: %w", kind, err)
	}
	return all, nil
}

// Change implements access.Store.
func (s *Store[Raw]) Change(ctx context.Context, kind access.Kind, id string, c access.Change) (after access.Grant, err error) {
	err = s.update(ctx, "change", kind, id, func(tx table.Tx[Record]) error {
		r, err := find(tx, kind, id)
		if err != nil {
			return err
		}
		before := r.grant()
		after = before
		if err := c.Do(&after); err != nil {
			return err
		}
		after.Kind, after.ID, after.Name = before.Kind, before.ID, before.Name
		if kind == access.User && (after.Role != before.Role || after.Hash != before.Hash && !c.Anew) {
			if after.Role != before.Role {
				c.Keep = ""
				err = notTheLast(tx, before)
			}
			if err == nil {
				err = end(tx, before.Name, c.Keep)
			}
			if err != nil {
				return err
			}
		}
		return tx.Put([]*Record{recordOf(after)})
	})
	return after, err
}

// Remove implements access.Store.
func (s *Store[Raw]) Remove(ctx context.Context, kind access.Kind, id string) (g access.Grant, err error) {
	err = s.update(ctx, "remove", kind, id, func(tx table.Tx[Record]) error {
		r, err := find(tx, kind, id)
		if err != nil {
			return err
		}
		g = r.grant()
		if kind == access.User {
			err = notTheLast(tx, g)
		}
		if err == nil && (kind == access.User || kind == access.Token) {
			if err = end(tx, g.Name, ""); err == nil {
				err = forgetViews(tx, g.Name)
			}
		}
		if err != nil {
			return err
		}
		return tx.Delete([]string{r.key})
	})
	return g, err
}

// notTheLast refuses to take the role admin from the last user who has it.
func notTheLast(tx table.Tx[Record], g access.Grant) error {
	if g.Role != access.Admin {
		return nil
	}
	others := 0
	err := table.Each(tx, named(access.User, "", page), func(r *Record) bool {
		if r.Role == access.Admin && r.Name != g.Name {
			others++
		}
		return others == 0
	})
	if err == nil && others == 0 {
		return access.ErrLastAdmin
	}
	return err
}

// end ends the sessions of a name, but for one.
func end(tx table.Tx[Record], name, keep string) error {
	rs, err := table.All(tx, named(access.Session, name, page))
	if err != nil {
		return err
	}
	var gone []string
	for _, r := range rs {
		if id := r.grant().ID; keep == "" || !strings.HasPrefix(id, keep) {
			gone = append(gone, r.key)
		}
	}
	return tx.Delete(gone)
}

// Sweep implements access.Sweeper.
func (s *Store[Raw]) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return s.t.Sweep(ctx, now, most)
}

func (s *Store[Raw]) update(ctx context.Context, what string, kind access.Kind, id string, do func(table.Tx[Record]) error) error {
	return about(s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error { return do(tx) }), what, kind, id)
}

// about says what an error is of. The id of what has a secret is shortened.
func about(err error, what string, kind access.Kind, id string) error {
	switch {
	case err == nil:
		return nil
	case kind != access.User:
		id = id[:min(len(id), access.ShortID)]
	}
	if errors.Is(err, access.ErrUnknown) || errors.Is(err, access.ErrTaken) {
		return fmt.Errorf("%s %q: %w", kind, id, err)
	}
	return fmt.Errorf("%s %s %q: %w", what, kind, id, err)
}
