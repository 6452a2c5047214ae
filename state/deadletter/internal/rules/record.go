package rules

import (
	"fmt"

	"github.com/tidemill/tidemill"
)

// CheckPut refuses dead letters that could not be found again.
func CheckPut(letters []tidemill.DeadLetter) error {
	for i := range letters {
		if l := &letters[i]; l.Pipeline == "" || l.Message == nil {
			return fmt.Errorf("put dead letter %d of %d: it has no pipeline or no message", i+1, len(letters))
		}
	}
	return nil
}

// Ended is what a dead letter that is gone adds to the books: one, by Records where they
// name one, else by its fate.
func Ended(s *tidemill.Settlement) tidemill.Count {
	if row := s.Row(); row.Total() == 1 && row.Dead == 0 {
		return row
	}
	if s.Fate == tidemill.Delivered {
		return tidemill.Count{Delivered: 1}
	}
	return tidemill.Count{Skipped: 1}
}
