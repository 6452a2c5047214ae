package operation

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
)

// Short is the Page of a listing that never has many items: users, sessions. Who lists gives all of them, in any
// order, and need not look at it: they are put in the order of their keys and cut into pages here.
type Short struct{ Page }

func (*Short) short() {}

type short interface{ short() }

// isShort says whether a listing never has many items.
func isShort(d *Description) bool {
	return reflect.PointerTo(d.Asks).Implements(reflect.TypeFor[short]())
}

// part yields those of all that are behind the page's cursor, in its order.
func (p *Page) part(all iter.Seq2[any, error]) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		var items []Keyed
		for a, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			items = append(items, a.(Keyed))
		}
		way := 1
		if p.Back() {
			way = -1
		}
		compare := func(a, b string) int { return way * cmp.Compare(a, b) }
		slices.SortFunc(items, func(a, b Keyed) int { return compare(a.PageKey(), b.PageKey()) })
		for _, a := range items {
			if p.after != "" && compare(a.PageKey(), p.after) <= 0 {
				continue
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}
