package main

import (
	"time"

	"github.com/tidemill/tidemill/internal/when"
)

// span are the flags of every command that chooses by time.
type span struct {
	Since string `help:"Only of this time or later: 2026-01-31T12:00:00Z, 2026-01-31 (UTC), or how long ago: 24h, 7d." placeholder:"TIME"`
	Until string `help:"Only of before this time; a day alone is all of it." placeholder:"TIME"`
}

func (s *span) since() string { return moment(s.Since, when.Start) }
func (s *span) until() string { return moment(s.Until, when.End) }

// moment is a time as the API reads it, the same however long a command asks. What is none is
// the instance's to refuse.
func moment(text string, read func(string, time.Time) (time.Time, error)) string {
	t, err := read(text, time.Now())
	if err != nil {
		return text
	}
	return t.Format(time.RFC3339Nano)
}
