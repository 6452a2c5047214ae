package tableaccess

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/view"
)

// Saved views are records beside those of the people who saved them, whose removal takes away what they did not share,
// in one transaction. A view's kind says who sees it, and its name, in the orders, is its owner's.
const (
	ownView    access.Kind = "view"
	sharedView access.Kind = "sharedview"
)

const (
	viewKey  = "view/" // and the id
	lastView = "views" // the record that each change of views writes, so that one is made after the other
)

// Views implements view.Store.
type Views[Raw any] struct{ s *Store[Raw] }

var _ view.Store = (*Views[any])(nil)

// Views are the saved views of those who come in.
func (s *Store[Raw]) Views() view.Store { return &Views[Raw]{s} }

func (r *Record) view() view.View {
	return view.View{ID: r.key[len(viewKey):], Name: r.title, Address: r.target, Owner: r.Name, Shared: r.Kind == sharedView, Made: r.Made}
}

func viewRecord(v *view.View) *Record {
	kind := ownView
	if v.Shared {
		kind = sharedView
	}
	return &Record{record{viewKey + v.ID, access.Grant{Kind: kind, Name: v.Owner, Made: v.Made}, v.Name, v.Address}}
}

// views are those of an owner; empty: of all. More shared ones than there may be are not read.
func views(from table.Reader[Record], kind access.Kind, owner string) (all []view.View, err error) {
	rs, err := table.All(from, named(kind, owner, page))
	for _, r := range rs {
		all = append(all, r.view())
	}
	return all, err
}

// putView keeps a view that has an id.
func putView(tx table.Tx[Record], v *view.View) error {
	if err := view.Check(v); err != nil {
		return err
	}
	if _, err := tx.Get([]string{lastView}); err != nil {
		return err
	}
	own, err := views(tx, ownView, v.Owner)
	if err != nil {
		return err
	}
	shared, err := views(tx, sharedView, "")
	if err != nil {
		return err
	}
	owned, open := 0, 0
	for _, o := range append(own, shared...) {
		if o.ID == v.ID {
			continue
		}
		if o.Shared {
			open++
		}
		if o.Owner != v.Owner {
			continue
		}
		if owned++; o.Name == v.Name {
			return view.ErrTaken
		}
	}
	switch {
	case owned >= view.Most:
		return view.ErrFull
	case v.Shared && open >= view.MostShared:
		return view.ErrFullShared
	}
	return tx.Put([]*Record{viewRecord(v), {record{key: lastView}}})
}

// oneView reads a view.
func oneView(from table.Reader[Record], id string) (v view.View, err error) {
	key := viewKey + id
	if id == "" || len(key) > table.MaxKey {
		return v, view.ErrUnknown
	}
	found, err := from.Get([]string{key})
	if r := found[key]; r != nil {
		return r.view(), err
	}
	if err == nil {
		err = view.ErrUnknown
	}
	return v, err
}

// update changes views; do returns the one that was changed.
func (s *Views[Raw]) update(ctx context.Context, what, of string, do func(table.Tx[Record]) (view.View, error)) (v view.View, err error) {
	err = s.s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		v, err = do(tx)
		return err
	})
	if err != nil {
		return view.View{}, fmt.Errorf("%s the view %q: %w", what, of, err)
	}
	return v, nil
}

// Add implements view.Store.
func (s *Views[Raw]) Add(ctx context.Context, v view.View) (view.View, error) {
	return s.update(ctx, "save", v.Name, func(tx table.Tx[Record]) (view.View, error) {
		n, err := tx.Next(1)
		if err != nil {
			return v, err
		}
		v.ID = strconv.FormatUint(n, 10)
		return v, putView(tx, &v)
	})
}

// Get implements view.Store.
func (s *Views[Raw]) Get(ctx context.Context, id string) (v view.View, err error) {
	err = s.s.t.View(ctx, func(from table.Reader[Record]) error {
		v, err = oneView(from, id)
		return err
	})
	if err != nil {
		return view.View{}, fmt.Errorf("read the view %q: %w", id, err)
	}
	return v, nil
}

// List implements view.Store.
func (s *Views[Raw]) List(ctx context.Context, owner string) (all []view.View, err error) {
	err = s.s.t.View(ctx, func(from table.Reader[Record]) error {
		all = nil
		if owner != "" {
			if all, err = views(from, ownView, owner); err != nil {
				return err
			}
		}
		shared, err := views(from, sharedView, "")
		all = append(all, shared...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the views of %q: %w", owner, err)
	}
	return all, nil
}

// Change implements view.Store.
func (s *Views[Raw]) Change(ctx context.Context, id string, do func(*view.View) error) (view.View, error) {
	return s.update(ctx, "change", id, func(tx table.Tx[Record]) (view.View, error) {
		v, err := oneView(tx, id)
		if err != nil {
			return v, err
		}
		was := v
		if err := do(&v); err != nil {
			return v, err
		}
		v.ID, v.Owner, v.Made = was.ID, was.Owner, was.Made
		return v, putView(tx, &v)
	})
}

// Remove implements view.Store.
func (s *Views[Raw]) Remove(ctx context.Context, id string, may func(*view.View) error) (view.View, error) {
	return s.update(ctx, "remove", id, func(tx table.Tx[Record]) (view.View, error) {
		v, err := oneView(tx, id)
		if err != nil {
			return v, err
		}
		if err := may(&v); err != nil {
			return v, err
		}
		return v, tx.Delete([]string{viewKey + id})
	})
}

// forgetViews removes what somebody did not share.
func forgetViews(tx table.Tx[Record], owner string) error {
	own, err := views(tx, ownView, owner)
	if err != nil {
		return err
	}
	var gone []string
	for _, v := range own {
		gone = append(gone, viewKey+v.ID)
	}
	return tx.Delete(gone)
}
