package tabletest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/table"
)

// history drives a table with random transactions and compares every answer with a model.
type history[Raw any] struct {
	t    *testing.T
	w    *world[Raw]
	rows map[string]*Record
	last uint64 // of Next
}

func follows[Raw any](t *testing.T, h Harness[Raw]) {
	rapid.Check(t, func(r *rapid.T) {
		m := &history[Raw]{t: t, w: open(t, h), rows: map[string]*Record{}}
		r.Repeat(map[string]func(*rapid.T){
			"update": m.update,
			"page":   m.page,
			"sweep":  m.sweep,
			"restart": func(r *rapid.T) {
				if h.Crash == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					r.Skip()
				}
				h.Crash(t)
				m.w.Store = m.w.another(t)
			},
			"": m.check,
		})
	})
}

var (
	someKey  = rapid.SampledFrom([]string{"a", "b", "c", "\x00", "d\xff"})
	someOnly = rapid.SampledFrom([][]string{nil, {"state"}, {"group", "at"}, {"until", "tries", "body"}, {"tries"}, {"key", "no", "flag"}})
)

func someRecord(r *rapid.T) *Record {
	x := &Record{Key: someKey.Draw(r, "key"), Group: rapid.SampledFrom([]string{"", "g", "h\xff"}).Draw(r, "group"), State: uint8(rapid.IntRange(0, 2).Draw(r, "state")),
		At: day(rapid.IntRange(0, 3).Draw(r, "at")), No: uint64(rapid.IntRange(0, 2).Draw(r, "no")), Tries: rapid.IntRange(-1, 1).Draw(r, "tries"),
		Flag: rapid.Bool().Draw(r, "flag"), Call: rapid.Uint64().Draw(r, "call")}
	if rapid.Bool().Draw(r, "expires") {
		x.Until = day(rapid.IntRange(0, 5).Draw(r, "until"))
	}
	if n := rapid.IntRange(0, 2).Draw(r, "size"); n > 0 {
		x.Body = []byte("\xff\x00")[:n]
	}
	return x
}

// step is one verb, for the table and for the model. A table may call do again: so the steps are
// drawn before.
type step struct {
	verb string
	rows []*Record
	keys []string
	only []string
	n    int
}

func someStep(r *rapid.T) step {
	return step{verb: rapid.SampledFrom([]string{"put", "put", "delete", "get", "next"}).Draw(r, "verb"), rows: rapid.SliceOfN(rapid.Custom(someRecord), 1, 4).Draw(r, "rows"),
		keys: rapid.SliceOfN(someKey, 0, 3).Draw(r, "keys"), only: someOnly.Draw(r, "only"), n: rapid.IntRange(1, 3).Draw(r, "n")}
}

func (m *history[Raw]) update(r *rapid.T) {
	steps := rapid.SliceOfN(rapid.Custom(someStep), 1, 4).Draw(r, "steps")
	fails := rapid.IntRange(0, 4).Draw(r, "fails") == 0
	var rows map[string]*Record
	var last uint64
	err := m.w.Update(m.t.Context(), func(tx table.Tx[Record], _ Raw) error {
		rows, last = maps.Clone(m.rows), m.last
		for _, s := range steps {
			if err := s.take(tx, rows, &last); err != nil {
				return err
			}
		}
		if fails {
			return errWrong
		}
		return nil
	})
	switch {
	case fails && errors.Is(err, errWrong):
	case err != nil || fails:
		r.Fatalf("Update: %v", err)
	default:
		m.rows, m.last = rows, last
	}
}

func (s step) take(tx table.Tx[Record], rows map[string]*Record, last *uint64) error {
	switch s.verb {
	case "put":
		for _, x := range s.rows {
			if kept := rows[x.Key]; kept != nil || len(s.only) == 0 {
				rows[x.Key] = merged(kept, x, s.only)
			}
		}
		return tx.Put(s.lastOfEach(), s.only...)
	case "delete":
		for _, k := range s.keys {
			delete(rows, k)
		}
		return tx.Delete(s.keys)
	case "next":
		n, err := tx.Next(s.n)
		if err == nil && n < *last+uint64(s.n) {
			err = fmt.Errorf("the last of %d numbers after %d is %d", s.n, *last, n)
		}
		*last = n
		return err
	}
	found, err := tx.Get(s.keys, s.only...)
	want := map[string]*Record{}
	for _, k := range s.keys {
		if rows[k] != nil {
			want[k] = merged(&Record{Key: k}, rows[k], s.only)
		}
	}
	if err == nil && !maps.EqualFunc(found, want, equal) {
		err = fmt.Errorf("got of %q only %v: %v, want %v", s.keys, s.only, found, want)
	}
	return err
}

// lastOfEach leaves out what Put ignores, half of the time: both must mean the same.
func (s step) lastOfEach() []*Record {
	if s.n == 1 {
		return s.rows
	}
	var rows []*Record
	for i, x := range s.rows {
		if !slices.ContainsFunc(s.rows[i+1:], func(y *Record) bool { return y.Key == x.Key }) {
			rows = append(rows, x)
		}
	}
	return rows
}

// merged is a record with these fields of another; without names: the other.
func merged(kept, x *Record, only []string) *Record {
	if len(only) == 0 {
		c := *x
		return &c
	}
	c := *kept
	for _, name := range only {
		switch name {
		case "group":
			c.Group = x.Group
		case "state":
			c.State = x.State
		case "at":
			c.At = x.At
		case "until":
			c.Until = x.Until
		case "tries":
			c.Tries = x.Tries
		case "body":
			c.Body = x.Body
		case "no":
			c.No = x.No
		case "flag":
			c.Flag = x.Flag
		}
	}
	return &c
}

func equal(a, b *Record) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

func (m *history[Raw]) page(r *rapid.T) {
	q := query{By: rapid.SampledFrom(slices.Sorted(maps.Keys(orders))).Draw(r, "by"), Back: rapid.Bool().Draw(r, "back"), Most: rapid.IntRange(1, 4).Draw(r, "most")}
	if rapid.Bool().Draw(r, "goes on") {
		q.After = someRecord(r)
	}
	x := someRecord(r) // what the conditions compare with
	if q.After != nil && rapid.Bool().Draw(r, "of the position") {
		x = q.After
	}
	conds := map[string]func(op func(d int) bool) func(*Record) bool{}
	values := map[string]any{"key": x.Key, "group": x.Group, "state": x.State, "at": x.At, "until": x.Until, "no": x.No, "tries": x.Tries, "body": x.Body}
	for name := range values {
		conds[name] = func(op func(d int) bool) func(*Record) bool {
			return func(y *Record) bool { return op(compared(name, y, x)) }
		}
	}
	var fits []func(*Record) bool
	for range rapid.IntRange(0, 3).Draw(r, "conditions") {
		names := slices.Sorted(maps.Keys(values))
		if values[q.By] != nil && rapid.Bool().Draw(r, "of the order") {
			names = []string{q.By}
		}
		name := rapid.SampledFrom(names).Draw(r, "field")
		op := rapid.SampledFrom([]string{"=", "<", "<=", ">", ">="}).Draw(r, "operator")
		q.Where = append(q.Where, table.Cond{Field: name, Op: op, Value: values[name]})
		fits = append(fits, conds[name](operators[op]))
	}
	var want []*Record
	for _, y := range m.rows {
		if !slices.ContainsFunc(fits, func(f func(*Record) bool) bool { return !f(y) }) {
			want = append(want, y)
		}
	}
	if n, err := m.w.Count(m.t.Context(), q.Most, q.Where...); err != nil || n != min(q.Most, len(want)) {
		r.Fatalf("Count up to %d where %v: %d, %v; want %d", q.Most, q.Where, n, err, min(q.Most, len(want)))
	}
	order := orders[q.By]
	if q.Back {
		order = func(a, b *Record) int { return orders[q.By](b, a) }
	}
	want = slices.DeleteFunc(want, func(y *Record) bool { return q.After != nil && order(y, q.After) <= 0 })
	slices.SortFunc(want, order)
	want = want[:min(len(want), q.Most)]
	var got []*Record
	err := m.w.View(context.WithoutCancel(m.t.Context()), func(tx table.Reader[Record]) (err error) { got, err = tx.Page(q); return err })
	if err != nil || !slices.EqualFunc(got, want, equal) {
		r.Fatalf("Page %+v after %+v: %q, %v; want %q", q, q.After, keys(got), err, keys(want))
	}
}

var operators = map[string]func(d int) bool{
	"=": func(d int) bool { return d == 0 }, "<": func(d int) bool { return d < 0 }, "<=": func(d int) bool { return d <= 0 },
	">": func(d int) bool { return d > 0 }, ">=": func(d int) bool { return d >= 0 },
}

// compared compares one field of two records, by an order that begins with it.
func compared(name string, a, b *Record) int {
	one := func(r *Record) *Record {
		switch name {
		case "group":
			return &Record{Group: r.Group}
		case "state":
			return &Record{State: r.State}
		case "at":
			return &Record{At: r.At}
		case "until":
			return &Record{At: milli(r.Until)}
		case "no":
			return &Record{No: r.No}
		case "tries":
			return &Record{Tries: r.Tries}
		case "body":
			return &Record{Body: r.Body}
		}
		return &Record{Key: r.Key}
	}
	by := map[string]string{"key": "", "no": "group", "until": "at"}
	order, other := by[name]
	if !other {
		order = name
	}
	return orders[order](one(a), one(b))
}

// milli is a time as it is compared: the zero time is the beginning of 1970.
func milli(t time.Time) time.Time {
	if t.IsZero() {
		return time.UnixMilli(0)
	}
	return t
}

func (m *history[Raw]) sweep(r *rapid.T) {
	now, most := day(rapid.IntRange(0, 5).Draw(r, "now")), rapid.IntRange(1, 3).Draw(r, "most")
	var gone []*Record
	for _, x := range m.rows {
		if !x.Until.IsZero() && !x.Until.After(now) {
			gone = append(gone, x)
		}
	}
	slices.SortFunc(gone, orders["until"])
	gone = gone[:min(len(gone), most)]
	for _, x := range gone {
		delete(m.rows, x.Key)
	}
	if n, err := m.w.Sweep(m.t.Context(), now, most); err != nil || n != len(gone) {
		r.Fatalf("Sweep: %d, %v; want %d", n, err, len(gone))
	}
}

func (m *history[Raw]) check(r *rapid.T) {
	want := slices.SortedFunc(maps.Values(m.rows), orders[""])
	var got []*Record
	err := m.w.View(m.t.Context(), func(tx table.Reader[Record]) (err error) { got, err = tx.Page(query{Most: 99}); return err })
	if err != nil || !slices.EqualFunc(got, want, equal) {
		r.Fatalf("there are %+v, %v; want %+v", got, err, want)
	}
	counts := map[string]int{}
	for _, x := range want {
		if x.State > 0 {
			counts[fmt.Sprint(x.Group, "/", x.State)]++
		}
	}
	if got, err := m.w.Counts(m.t.Context()); err != nil || !maps.Equal(got, counts) {
		r.Fatalf("the counts are %v, %v; want %v", got, err, counts)
	}
}
