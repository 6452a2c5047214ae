package progress

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// Span is the numbers from From to below To.
type Span struct{ From, To uint64 }

// Spans is a set of numbers, as sorted spans that do not touch. Rows that end in order make one
// span.
type Spans []Span

// Has says whether n is in the set.
func (s Spans) Has(n uint64) bool {
	i := s.behind(n)
	return i > 0 && n < s[i-1].To
}

// behind is the index of the first span that begins behind n.
func (s Spans) behind(n uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].From > n })
}

// Add puts n into the set, and reports whether it was new.
func (s *Spans) Add(n uint64) bool {
	all := *s
	i := all.behind(n)
	if i > 0 && n < all[i-1].To {
		return false
	}
	before := i > 0 && all[i-1].To == n
	after := i < len(all) && all[i].From == n+1
	switch {
	case before && after:
		all[i-1].To = all[i].To
		*s = slices.Delete(all, i, i+1)
	case before:
		all[i-1].To = n + 1
	case after:
		all[i].From = n
	default:
		*s = slices.Insert(all, i, Span{n, n + 1})
	}
	return true
}

// Len is how many numbers are in the set.
func (s Spans) Len() (n uint64) {
	for _, span := range s {
		n += span.To - span.From
	}
	return n
}

// First is the lowest number that is not in the set.
func (s Spans) First() uint64 {
	if len(s) > 0 && s[0].From == 0 {
		return s[0].To
	}
	return 0
}

// Append appends the set in a compact form: lengths of gaps and spans in turn.
func (s Spans) Append(dst []byte) []byte {
	at := uint64(0)
	for _, span := range s {
		dst = binary.AppendUvarint(dst, span.From-at)
		dst = binary.AppendUvarint(dst, span.To-span.From)
		at = span.To
	}
	return dst
}

// ParseSpans is the inverse of Append.
func ParseSpans(b []byte) (Spans, error) {
	var s Spans
	at := uint64(0)
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errSpans
		}
		length, m := binary.Uvarint(b[n:])
		from := at + gap
		to := from + length
		if m <= 0 || length == 0 || from < at || to < from || gap == 0 && at > 0 {
			return nil, errSpans
		}
		s = append(s, Span{from, to})
		at, b = to, b[n+m:]
	}
	return s, nil
}

var errSpans = errors.New("the stored spans are damaged")
