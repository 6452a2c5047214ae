package event

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// GivenTimestamp is the property that keeps the sender's time, as it was written, if the event
// is stored with another because its own lay beyond the bounds.
const GivenTimestamp = "$given_timestamp"

// Types of the warnings about times beyond the bounds.
const (
	TooOld = "event_timestamp_too_old"
	TooNew = "event_timestamp_in_future"
)

const (
	eventsBehind = 1826 * 24 * time.Hour // five years
	eventsAhead  = 24 * time.Hour
)

// Bounds are the earliest and the latest time that an event received at our time now may have.
// Months are partitions of a warehouse, and a sender that could date events freely could fill
// it with them. The earliest is the start of a month (UTC): an old event that is sent again
// within a month is the same row.
func (c Clock) Bounds(now time.Time) (earliest, latest time.Time) {
	behind, ahead := c.EventsBehind, c.EventsAhead
	if behind <= 0 {
		behind = eventsBehind
	}
	if ahead <= 0 {
		ahead = eventsAhead
	}
	from := now.UTC().Add(-behind)
	return time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC), rounded(now.Add(ahead))
}

// bound moves a time beyond the bounds to the nearer bound.
func (t *Timing) bound(earliest, latest time.Time) {
	switch {
	case t.At.Before(earliest):
		t.At, t.beyond, t.Beyond = earliest, t.At, TooOld
	case t.At.After(latest):
		t.At, t.beyond, t.Beyond = latest, t.At, TooNew
	}
}

// Warning says in words what became of a time beyond the bounds.
func (t *Timing) Warning() string {
	side, setting := "before", "events_behind"
	if t.Beyond == TooNew {
		side, setting = "after", "events_ahead"
	}
	return fmt.Sprintf("its time, %s, lies %s what is taken (analytics.%s): it is stored with %s, and what was given is the property %s",
		t.beyond.Format(time.RFC3339), side, setting, t.At.Format(time.RFC3339), GivenTimestamp)
}

// keepGiven adds the property of an event whose time lay beyond the bounds: the bytes that
// the sender wrote.
func (e *Event) keepGiven(beyond bool) {
	if beyond && e.given != nil {
		e.Properties = extend(e.Properties, []member{named(GivenTimestamp, e.given)})
	}
	e.given = nil
}

// quoted is text as JSON.
func quoted(text []byte) []byte {
	b, _ := jsontext.AppendQuote(nil, text) // U+FFFD for what is not UTF-8
	return b
}
