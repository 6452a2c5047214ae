package layout

import (
	"slices"

	"github.com/tidemill/tidemill/state/table"
)

// Counting are the key and the fields that the counter reads.
func (l *Layout[T]) Counting() []table.Field[T] {
	fields, _ := l.Only(l.Count.From) // they are checked
	return fields
}

// Counts reports whether writing these fields can change what a record is counted under.
func (l *Layout[T]) Counts(fields []table.Field[T]) bool {
	return slices.ContainsFunc(fields, func(f table.Field[T]) bool { return slices.Contains(l.Count.From, f.Name) })
}

// Tally is by how much counters change.
type Tally map[string]int

func (t Tally) add(name string, n int) {
	if name == "" {
		return
	}
	if t[name] += n; t[name] == 0 {
		delete(t, name)
	}
}

// Put is what writing fields of rows changes: before are the records that exist, with the fields
// of Counting, which it changes. Where it makes them, it counts records that do not exist too.
func (l *Layout[T]) Put(before map[string]*T, rows []*T, fields []table.Field[T], makes bool) Tally {
	t := Tally{}
	var counted []table.Field[T]
	for _, f := range l.Counting() {
		if slices.ContainsFunc(fields, func(g table.Field[T]) bool { return g.Name == f.Name }) {
			counted = append(counted, f)
		}
	}
	for _, r := range rows {
		kept := before[l.Key(r)]
		switch {
		case kept != nil:
			t.add(l.Count.Of(kept), -1)
		case makes:
			kept = new(T)
		default:
			continue
		}
		Copy(kept, r, counted)
		t.add(l.Count.Of(kept), 1)
	}
	return t
}

// Deleted is what deleting records changes, given as in Put.
func (l *Layout[T]) Deleted(before map[string]*T) Tally {
	t := Tally{}
	for _, r := range before {
		t.add(l.Count.Of(r), -1)
	}
	return t
}

// Replaced adds what it changes that a record takes another's place; each may be nil.
func (l *Layout[T]) Replaced(t Tally, before, after *T) {
	if l.Count.Of == nil {
		return
	}
	if before != nil {
		t.add(l.Count.Of(before), -1)
	}
	if after != nil {
		t.add(l.Count.Of(after), 1)
	}
}
