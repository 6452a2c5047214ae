// Package tabletest holds every promise of a table as a case that each backend passes. A
// backend's whole test is one call of Run.
package tabletest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

// A Harness is a place for tables of the backend under test.
type Harness[Raw any] struct {
	// Open opens a table, and makes it if it does not exist: each call as a process of its own
	// would, as far as the backend allows several.
	Open func(ctx context.Context, spec table.Spec[Record]) (table.Store[Record, Raw], error)
	// In is a store that Open returned, in a transaction of another. Nil: a transaction has one
	// table.
	In func(s table.Store[Record, Raw], raw Raw) table.Tx[Record]
	// Apart opens a table that cannot take part in a transaction of those that Open opens. Nil:
	// there is none that could be told apart.
	Apart func(ctx context.Context, spec table.Spec[Record]) (table.Store[Record, Raw], error)
	// Grows reports whether a spec can gain fields and orders.
	Grows bool
	// Effect writes a name to a table of the database, in the transaction; Effects are the names
	// in that table. Nil: there is nothing but tables.
	Effect  func(raw Raw, name string) error
	Effects func(t testing.TB) []string
	// Crash ends the process as a crash would, as far as a test can; tables are opened again
	// after it. Nil: nothing is durable.
	Crash func(t testing.TB)
}

// Record is what the suite keeps: a field of each type.
type Record struct {
	Key   string
	Group string
	State uint8
	At    time.Time
	Until time.Time
	No    uint64
	Tries int
	Flag  bool
	Body  []byte
	Call  uint64

	unlisted string // in no field of the spec: a table does not keep it
}

// Spec is the suite's table of a name. It counts records by their group and state.
func Spec(name string) table.Spec[Record] {
	type r = Record
	return table.Spec[r]{
		Name: name,
		Fields: []table.Field[r]{
			{Name: "key", At: func(r *r) any { return &r.Key }},
			{Name: "group", At: func(r *r) any { return &r.Group }},
			{Name: "state", At: func(r *r) any { return &r.State }},
			{Name: "at", At: func(r *r) any { return &r.At }},
			{Name: "until", At: func(r *r) any { return &r.Until }},
			{Name: "no", At: func(r *r) any { return &r.No }},
			{Name: "tries", At: func(r *r) any { return &r.Tries }},
			{Name: "flag", At: func(r *r) any { return &r.Flag }},
			{Name: "body", At: func(r *r) any { return &r.Body }},
			{Name: "call", At: func(r *r) any { return &r.Call }},
		},
		Orders: []table.Order{
			{Name: "at", By: []string{"at"}},
			{Name: "state", By: []string{"state", "at"}},
			{Name: "until", By: []string{"until"}},
			{Name: "group", By: []string{"group", "flag", "no"}},
			{Name: "tries", By: []string{"tries"}},
			{Name: "body", By: []string{"body"}},
		},
		Count: table.Counter[r]{From: []string{"group", "state"}, Of: func(r *r) string {
			if r.State == 0 {
				return ""
			}
			return fmt.Sprint(r.Group, "/", r.State)
		}},
		Expires: "until",
	}
}

// newName is the name of a table that no other test has.
func newName() string { return "t" + strings.ToLower(rand.Text()) }

// world is one case's table.
type world[Raw any] struct {
	Harness[Raw]
	table.Store[Record, Raw]
	name string
}

func open[Raw any](t testing.TB, h Harness[Raw]) *world[Raw] {
	t.Helper()
	w := &world[Raw]{Harness: h, name: newName()}
	w.Store = w.another(t)
	return w
}

// another is the same table, as another process would have it.
func (w *world[Raw]) another(t testing.TB) table.Store[Record, Raw] {
	t.Helper()
	s, err := w.Harness.Open(t.Context(), Spec(w.name))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

type testcase[Raw any] struct {
	name   string
	reason string
	do     func(t *testing.T, w *world[Raw])
}

// Run runs all cases, each on a table of its own.
func Run[Raw any](t *testing.T, harness func(t testing.TB) Harness[Raw]) {
	run := func(cases []testcase[Raw]) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("why it matters: %s", c.reason)
					}
				}()
				c.do(t, open(t, harness(t)))
			})
		}
	}
	run(slices.Concat(recordCases[Raw](), pageCases[Raw](), countCases[Raw](), sweepCases[Raw](), nextCases[Raw](),
		updateCases[Raw](), concurrentCases[Raw](), specCases[Raw]()))
	t.Run("behaves as its model over random histories", func(t *testing.T) { follows(t, harness(t)) })
	h := harness(t)
	if h.Crash != nil {
		run(durableCases[Raw]())
	}
	if h.Grows {
		run(growCases[Raw]())
	}
	if h.Effect != nil {
		run(effectCases[Raw]())
	}
	if h.In != nil {
		run(togetherCases[Raw]())
	}
}

// put puts records, in one transaction.
func (w *world[Raw]) put(t testing.TB, rows ...*Record) {
	t.Helper()
	if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return tx.Put(rows) }); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func (w *world[Raw]) remove(t testing.TB, keys ...string) {
	t.Helper()
	if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return tx.Delete(keys) }); err != nil {
		t.Fatalf("Delete: %v", err)
	}
}

// get reads one record; nil: it does not exist.
func (w *world[Raw]) get(t testing.TB, key string, only ...string) (r *Record) {
	t.Helper()
	if err := w.View(t.Context(), func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{key}, only...)
		r = found[key]
		return err
	}); err != nil {
		t.Fatalf("Get: %v", err)
	}
	return r
}

func (w *world[Raw]) page(t testing.TB, q table.Query[Record]) (page []*Record) {
	t.Helper()
	if err := w.View(t.Context(), func(tx table.Reader[Record]) (err error) {
		page, err = tx.Page(q)
		return err
	}); err != nil {
		t.Fatalf("Page %+v: %v", q, err)
	}
	return page
}

// keys are those of records, in their order.
func keys(rows []*Record) string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Key
	}
	return strings.Join(all, " ")
}

// day is a time of the suite: milliseconds of a plain day.
func day(ms int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}
