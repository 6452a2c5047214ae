package memorytable_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

func TestConformance(t *testing.T) {
	type store = table.Store[tabletest.Record, *memorytable.Tx]
	tabletest.Run(t, func(testing.TB) tabletest.Harness[*memorytable.Tx] {
		in := func(db *memorytable.DB) func(context.Context, table.Spec[tabletest.Record]) (store, error) {
			return func(_ context.Context, spec table.Spec[tabletest.Record]) (store, error) {
				s, err := memorytable.New(db, spec)
				if err != nil {
					return nil, err
				}
				return s, nil
			}
		}
		return tabletest.Harness[*memorytable.Tx]{
			Grows: true,
			Open:  in(memorytable.NewDB()),
			Apart: in(memorytable.NewDB()),
			In: func(s table.Store[tabletest.Record, *memorytable.Tx], raw *memorytable.Tx) table.Tx[tabletest.Record] {
				return s.(*memorytable.Store[tabletest.Record]).In(t.Context(), raw)
			},
		}
	})
}

// TestAPageLooksAtFewRecords counts how often fields are read.
func TestAPageLooksAtFewRecords(t *testing.T) {
	looks := 0
	spec := tabletest.Spec("t")
	for i, f := range spec.Fields {
		spec.Fields[i].At = func(r *tabletest.Record) any { looks++; return f.At(r) }
	}
	s, err := memorytable.New(memorytable.NewDB(), spec)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	if err := s.Update(t.Context(), func(tx table.Tx[tabletest.Record], _ *memorytable.Tx) error {
		for i := range n {
			if err := tx.Put([]*tabletest.Record{{Key: fmt.Sprint(i), State: uint8(i % 2), At: time.UnixMilli(int64(i))}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, back := range []bool{false, true} {
		looks = 0
		if err := s.View(t.Context(), func(tx table.Reader[tabletest.Record]) error {
			page, err := tx.Page(table.Query[tabletest.Record]{By: "state", Back: back, Most: 50, Where: []table.Cond{{Field: "state", Op: "=", Value: uint8(1)},
				{Field: "at", Op: ">", Value: time.UnixMilli(99)}, {Field: "at", Op: "<=", Value: time.UnixMilli(105)}}})
			if len(page) != 3 {
				t.Errorf("a page of %d records, want 3", len(page))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if looks > 300 {
			t.Errorf("backwards %v: the 3 that fit of %d records cost %d reads of fields", back, n, looks)
		}
	}
}

func TestATableIsOfOneType(t *testing.T) {
	db := memorytable.NewDB()
	if _, err := memorytable.New(db, tabletest.Spec("t")); err != nil {
		t.Fatal(err)
	}
	type other struct{ A, B string }
	if _, err := memorytable.New(db, table.Spec[other]{Name: "t", Fields: []table.Field[other]{
		{Name: "a", At: func(o *other) any { return &o.A }}, {Name: "b", At: func(o *other) any { return &o.B }},
	}}); err == nil {
		t.Error("a table of records of another type was opened")
	}
}

// A panic of do must not leave its changes, or the lock.
func TestAPanicChangesNothing(t *testing.T) {
	s, err := memorytable.New(memorytable.NewDB(), tabletest.Spec("t"))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Update(t.Context(), func(tx table.Tx[tabletest.Record], _ *memorytable.Tx) error {
			_ = tx.Put([]*tabletest.Record{{Key: "a"}})
			panic("at work")
		})
	}()
	if n, err := s.Count(t.Context(), 9); n != 0 || err != nil {
		t.Errorf("there are %d records, %v; want none", n, err)
	}
}
