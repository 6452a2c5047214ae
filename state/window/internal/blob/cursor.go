package blob

import (
	"fmt"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// Cursor is where a reading goes on: in which blob, the first is 1, after how many of its
// records, and how many were read before.
type Cursor struct{ Blob, Skip, Read int64 }

func (c Cursor) String() string { return fmt.Sprintf("%d:%d:%d", c.Blob, c.Skip, c.Read) }

// maxSkip bounds how many records of a blob were read before: no Put has more.
const maxSkip = window.MaxPut

// ParseCursor is the inverse of String; of an empty text it is the beginning.
func ParseCursor(from string) (c Cursor, err error) {
	if from == "" {
		return Cursor{Blob: 1}, nil
	}
	if n, err := fmt.Sscanf(from, "%d:%d:%d", &c.Blob, &c.Skip, &c.Read); n != 3 || err != nil || c.Blob < 1 || c.Skip < 0 || c.Skip > maxSkip || c.Read < 0 || c.String() != from {
		return c, entry.BadCursor(from)
	}
	return c, nil
}
