package layout

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
)

func (l *Layout[T]) invalid(format string, args ...any) error {
	return tidemill.Fail(tidemill.Validation, "table %s: "+format, append([]any{l.Name}, args...)...)
}

// typeOf names the type that a pointer to a field has; empty: it can be no field.
func typeOf(at any) string {
	switch at.(type) {
	case *string:
		return "string"
	case *[]byte:
		return "[]byte"
	case *time.Time:
		return "time.Time"
	case *uint64:
		return "uint64"
	case *int:
		return "int"
	case *uint8:
		return "uint8"
	case *bool:
		return "bool"
	}
	return ""
}

// pointer makes a value of a condition what At returns.
func pointer(v any) any {
	switch v := v.(type) {
	case string:
		return &v
	case []byte:
		return &v
	case time.Time:
		return &v
	case uint64:
		return &v
	case int:
		return &v
	case uint8:
		return &v
	case bool:
		return &v
	}
	return nil
}

// The first and the last time that is kept.
var (
	first = time.Date(1, 1, 1, 0, 0, 0, int(time.Millisecond), time.UTC)
	last  = time.Date(9999, 12, 31, 23, 59, 59, 999*int(time.Millisecond), time.UTC)
)

// Millis is how a time is kept: 0 is none.
func Millis(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(first):
		return first.UnixMilli()
	case t.After(last):
		return last.UnixMilli()
	}
	return t.UnixMilli()
}

// Time is the inverse of Millis.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Compare compares two fields of the same type, each as At returns it.
func Compare(a, b any) int {
	switch a := a.(type) {
	case *string:
		return cmp.Compare(*a, *b.(*string))
	case *[]byte:
		return bytes.Compare(*a, *b.(*[]byte))
	case *time.Time:
		return cmp.Compare(Millis(*a), Millis(*b.(*time.Time)))
	case *uint64:
		return cmp.Compare(*a, *b.(*uint64))
	case *int:
		return cmp.Compare(*a, *b.(*int))
	case *uint8:
		return cmp.Compare(*a, *b.(*uint8))
	case *bool:
		return cmp.Compare(number(*a), number(*b.(*bool)))
	}
	panic(fmt.Sprintf("no field can be a %T", a))
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Copy sets these fields of a record as they are kept of another.
func Copy[T any](to, from *T, fields []table.Field[T]) {
	for _, f := range fields {
		switch p := f.At(from).(type) {
		case *string:
			*f.At(to).(*string) = *p
		case *[]byte:
			*f.At(to).(*[]byte) = append([]byte(nil), *p...)
		case *time.Time:
			*f.At(to).(*time.Time) = Time(Millis(*p))
		case *uint64:
			*f.At(to).(*uint64) = *p
		case *int:
			*f.At(to).(*int) = *p
		case *uint8:
			*f.At(to).(*uint8) = *p
		case *bool:
			*f.At(to).(*bool) = *p
		}
	}
}

// Rows checks records that are to be written, and keeps the last of each key, in order of keys.
func (l *Layout[T]) Rows(rows []*T, fields []table.Field[T]) ([]*T, error) {
	for _, r := range rows {
		if err := l.row(r, fields); err != nil {
			return nil, err
		}
	}
	byKey := func(a, b *T) int { return cmp.Compare(l.Key(a), l.Key(b)) }
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, byKey)
	n := 0
	for i, r := range sorted {
		if i+1 == len(sorted) || byKey(r, sorted[i+1]) != 0 {
			sorted[n] = r
			n++
		}
	}
	return sorted[:n], nil
}

func (l *Layout[T]) row(r *T, fields []table.Field[T]) error {
	if r == nil {
		return l.invalid("a record is nil")
	}
	for i, f := range fields {
		size := 0
		switch p := f.At(r).(type) {
		case *string:
			size = len(*p)
		case *[]byte:
			size = len(*p)
		case *uint64:
			if *p > math.MaxInt64 && l.Ordered(f.Name) {
				return l.invalid("%s is %d; a number in an order is at most %d", f.Name, *p, math.MaxInt64)
			}
		}
		if size > table.MaxKey && l.Ordered(f.Name) {
			return l.invalid("%s has %d bytes; want at most %d", f.Name, size, table.MaxKey)
		}
		if i == 0 && size == 0 {
			return l.invalid("%s is empty", f.Name)
		}
	}
	return nil
}

// CheckNext checks how many numbers are asked for.
func (l *Layout[T]) CheckNext(n int) error {
	if n < 1 || n > table.MaxNext {
		return l.invalid("%d numbers; want 1 to %d", n, table.MaxNext)
	}
	return nil
}
