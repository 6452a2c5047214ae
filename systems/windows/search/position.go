package search

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
)

// Position is a document's position in the order of hits, for backends that sort by themselves:
// by time, Schema.Order, day and id.
type Position struct {
	Time int64  // milliseconds
	Tie  []byte // the values of Schema.Order, in a form whose bytes sort as they do
	Day  string
	ID   string
}

// Position of a document with these values.
func (s *Schema) Position(d *Doc, values []Value) Position {
	p := Position{Time: s.At(values), Day: d.Day, ID: d.ID}
	for _, i := range s.order {
		v, f := values[i], &s.Fields[i]
		if f.Type == Keyword {
			term, _ := f.Term(v, false)
			p.Tie = append(append(p.Tie, term...), 0)
			continue
		}
		n := int64(-1 << 63) // missing
		if v.Has {
			n = v.Int
		}
		p.Tie = binary.BigEndian.AppendUint64(p.Tie, uint64(n)^1<<63)
	}
	return p
}

// Compare orders positions, the oldest first.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Time, o.Time), bytes.Compare(p.Tie, o.Tie), cmp.Compare(p.Day, o.Day), cmp.Compare(p.ID, o.ID))
}

// Cursor writes a position for Page.Next.
func (p Position) Cursor() string {
	b := wire.AppendTime(nil, time.UnixMilli(p.Time))
	return base64.RawURLEncoding.EncodeToString(wire.AppendString(wire.AppendString(wire.AppendString(b, p.Tie), p.Day), p.ID))
}

// ParsePosition is the inverse of Cursor.
func ParsePosition(cursor string) (Position, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	r := wire.NewReader(b)
	p := Position{Time: r.Time().UnixMilli(), Tie: r.Bytes(), Day: string(r.Bytes()), ID: string(r.Bytes())}
	if err != nil || r.End() != nil {
		return Position{}, BadCursor()
	}
	return p, nil
}

// BadCursor is the error of an invalid Query.After or Query.Before.
func BadCursor() error {
	return tidemill.Fail(tidemill.Validation, "the page asked for is none: After has to be the Next of the page before, and Before the Previous of the page after")
}

// Way is the cursor behind which a backend looks for the hits of a page (empty: from the beginning)
// and whether the oldest come first there: a page before another one is looked for backwards.
func (q *Query) Way() (cursor string, oldest bool) {
	return q.After + q.Before, q.Oldest != (q.Before != "")
}

// Paged makes a page of what a backend found behind the cursor of Way: one hit more than the page
// takes says that there are others. hit makes a hit of one, and cursor its cursor.
func Paged[T any](q *Query, found []T, hit func(T) Hit, cursor func(T) string) (p Page) {
	more := len(found) > q.Hits()
	if found = found[:min(len(found), q.Hits())]; len(found) == 0 {
		return p
	}
	if q.Before != "" {
		slices.Reverse(found)
	}
	if more || q.Before != "" {
		p.Next = cursor(found[len(found)-1])
	}
	if more && q.Before != "" || q.After != "" {
		p.Previous = cursor(found[0])
	}
	for _, one := range found {
		p.Hits = append(p.Hits, hit(one))
	}
	return p
}
