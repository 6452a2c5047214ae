package window

import (
	"github.com/tidemill/tidemill"
)

// PageBytes is about how large a page is: a page ends with the record that makes it this
// large, even if there is room for more records.
const PageBytes = 2 << 20

// Matches says whether the filter chooses a window; the caller applies Max.
func (f *Filter) Matches(i *Info) bool {
	if f.State != "" && f.State != i.State || f.Batch != "" && f.Batch != i.Batch {
		return false
	}
	if len(f.IDs) == 0 {
		return true
	}
	for _, id := range f.IDs {
		if id == i.ID {
			return true
		}
	}
	return false
}

// NotFound is the error for a window that does not exist.
func NotFound(id string) error {
	return tidemill.Fail(tidemill.NotFound, "window %q: %w", id, ErrNotFound)
}

// Mixed is the damage of a record whose stored bytes differ from those that were put.
const Mixed = "the stored bytes are not what was put"
