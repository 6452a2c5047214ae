// Package warehouse is the role, for the analytics system alone, that keeps one row per event
// and returns each event once, under the person it belongs to now.
package warehouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// ErrUnknown says that a warehouse has no event of that id.
var ErrUnknown = errors.New("the warehouse has no such event")

// Outcome is what became of one row.
type Outcome uint8

const (
	Stored    Outcome = iota + 1 // durable now
	Again                        // already stored from the same Origin: a redelivery
	Duplicate                    // already stored from another Origin: an event sent twice
)

// Warning is a note for the project's owner: an event refused, a merge refused.
type Warning struct {
	Project  uuid.UUID
	Type     string // invalid_event, illegal_distinct_id, cannot_merge_already_identified, cannot_merge_with_illegal_distinct_id
	Event    string // name
	Distinct string
	Reason   string
	At       time.Time
	Key      string // where it is in a listing, for WarningFilter.After; Warn ignores it
}

// WarningFilter chooses warnings.
type WarningFilter struct {
	Project uuid.UUID
	Oldest  bool   // the oldest first, not the newest
	After   string // the listing begins after the warning of this Key, the way that Oldest says; empty: at its beginning
	Max     int    // 0 means 1,000
}

// Most is how many warnings are read at most.
func (f *WarningFilter) Most() int { return cmp.Or(max(f.Max, 0), 1000) }

// Place is where a warning or an event is, for backends: its time as they keep it, and what tells those
// of one time apart, in the order of storing.
type Place struct{ At, Tie int64 }

// PlaceOf reads a Key.
func PlaceOf(key string) (p Place, ok bool) {
	n, err := fmt.Sscanf(key, "%d.%d", &p.At, &p.Tie)
	return p, n == 2 && err == nil && p.Key() == key
}

// Key is the place as Warning and Listed have it.
func (p Place) Key() string { return fmt.Sprintf("%d.%d", p.At, p.Tie) }

// Place is that of After; where there is none, the one that all come after.
func (f *WarningFilter) Place() (p Place, err error) {
	switch {
	case f.After != "":
		var ok bool
		if p, ok = PlaceOf(f.After); !ok {
			return p, tidemill.Fail(tidemill.Validation, "list warnings: there is no key %.50q; want that of a warning", f.After)
		}
	case f.Oldest:
		p = Place{math.MinInt64, math.MinInt64}
	default:
		p = Place{math.MaxInt64, math.MaxInt64}
	}
	return p, nil
}

// Warehouse is what the pipeline needs.
type Warehouse interface {
	// Insert makes all rows durable before it returns nil, each (project, event id) once ever,
	// and says what became of each: took is as long as rows, and means nothing after an error.
	// Inserting the same batch again changes nothing. A row keeps what a table of events has
	// columns for: not Changes, Profile, Merge, Other and NoGeo; times in milliseconds. A
	// warehouse that cannot cheaply say what it has (clickhousewarehouse) may report Stored for
	// rows of earlier batches; they are still stored once.
	Insert(ctx context.Context, rows []*event.Event, took []Outcome) error
	// Override makes events of the given distinct ids belong to other persons; the higher
	// version of a distinct id wins, in any order.
	Override(ctx context.Context, os []person.Override) error
	// Warn keeps warnings (KeepWarnings).
	Warn(ctx context.Context, ws []Warning) error
}

// KeepWarnings is how long warnings are kept, and MostWarnings how many, of all projects: who has an
// ingest key can cause thousands a second.
const (
	KeepWarnings = 30 * 24 * time.Hour
	MostWarnings = 1_000_000
)

// An Expirer is a warehouse that does not forget old warnings by itself: call it now and
// then with the time KeepWarnings ago.
type Expirer interface {
	// Expire removes warnings from before then, about a thousand, and says how many, and whether there
	// are more.
	Expire(ctx context.Context, before time.Time) (n int64, more bool, err error)
}

// A WarningBounder is a warehouse whose warnings can be kept from growing: call it now and then with
// MostWarnings.
type WarningBounder interface {
	// BoundWarnings removes the oldest warnings beyond that number, some or all, and says how many, and
	// whether there are more. Warnings of one time may stay or go together.
	BoundWarnings(ctx context.Context, most int) (n int64, more bool, err error)
}

// A Trimmer is a warehouse that removes old events when it is told to. An event that was removed is
// still known: sent again, it is a duplicate. Whatever waits or is in work is not in the warehouse
// yet.
type Trimmer interface {
	// Trim removes events of before a time, by their timestamps, whatever project they are of. The one
	// that was stored last stays. A call removes some hundred events, or tidies as much, and says how
	// many and whether there is more to do.
	Trim(ctx context.Context, before time.Time) (n int64, more bool, err error)
	// Removed is how many events Trim and Bound have ever removed. Count does not have them.
	Removed(ctx context.Context) (int64, error)
}

// A Bounder is a warehouse that can be kept from growing. Whatever waits or is in work is not in the
// warehouse yet, and counts for nothing.
type Bounder interface {
	// Bound removes old events as long as all have more than so many bytes together: as the backend
	// says, those that were stored first, or those of the oldest month. It removes none of young or
	// later, by its timestamp; if no other could go, and there is too much, the error says so (Over).
	// A call removes some hundred events, or one month, and says how many and whether there may be
	// more to do. Several instances may call it at a time.
	Bound(ctx context.Context, most int64, young time.Time) (n int64, more bool, err error)
}

// Over is the error of a Bounder that has too much, all of it young.
func Over(have, most int64, young time.Time) error {
	return tidemill.Fail(tidemill.Business, "events have %d bytes, more than the %d that are to be kept, and those of before %s are gone: raise analytics.keep_most, or lower analytics.keep_least", have, most, young.UTC().Format(time.DateOnly))
}

// A Forgetter is a warehouse that may have fewer rows than were delivered to it: old rows
// expire, and an event that was delivered twice counts once. Its count proves nothing in an
// audit.
type Forgetter interface {
	// Forgets reports whether it does.
	Forgets() bool
}

// Filter chooses events; zero fields match all.
type Filter struct {
	Project  uuid.UUID // required
	Distinct string
	Name     string
	Person   uuid.UUID // resolved
	From, To time.Time // by timestamp: from inclusive, to exclusive
	Max      int       // 0: no limit

	// Newest chooses the last Max matching events, not the first, without reading what was
	// stored before them. Max is required.
	Newest bool
	// Follow makes a listing that does not end with the stored events: each event stored later
	// follows, until ctx ends. Those do not count for Max.
	Follow bool
}

// Check refuses a filter that names no project.
func (f *Filter) Check() error {
	if f.Project == uuid.Nil {
		return errors.New("list events: the filter names no project; set Filter.Project")
	}
	if f.Newest && f.Max <= 0 {
		return errors.New("list events: of the newest a number is wanted; set Filter.Max")
	}
	return nil
}

// Match reports whether an event, its Person resolved, is chosen.
func (f *Filter) Match(e *event.Event) bool {
	return e.Project == f.Project &&
		(f.Distinct == "" || f.Distinct == e.DistinctID) &&
		(f.Name == "" || f.Name == e.Name) &&
		(f.Person == uuid.Nil || f.Person == e.Person) &&
		(f.From.IsZero() || !e.Timestamp.Before(f.From)) &&
		(f.To.IsZero() || e.Timestamp.Before(f.To))
}

// Listing chooses a page of events. They are in the order of their timestamps; those of one timestamp
// are in an order that does not change.
type Listing struct {
	Filter // Newest and Follow mean nothing here
	// Oldest makes the oldest come first, not the newest.
	Oldest bool
	// After is the key of an event, which may be gone: the page begins after it, the way that Oldest
	// says. Empty: at the beginning.
	After string
}

// Most is how many events a page has at most: Max, or 1,000 where that is 0.
func (l *Listing) Most() int { return cmp.Or(max(l.Max, 0), 1000) }

// NoKey refuses an After that is no key of the warehouse.
func (l *Listing) NoKey() error {
	return tidemill.Fail(tidemill.Validation, "list events: there is no key %.50q; want that of an event", l.After)
}

// Listed is a page of events.
type Listed struct {
	Events []*event.Event
	Keys   []string // of each: where it is, for Listing.After
	// Rest is the key that the listing goes on after, where it ended before the page was full:
	// so many events that do not match all of the filter were looked at. Empty: the page is full, or
	// has all.
	Rest string
}

// Reader answers queries.
type Reader interface {
	// List returns a page of events, with overrides applied to Person. What a page costs does not
	// depend on how many events there are, nor on where in the listing it is. What is stored or removed
	// between two pages changes neither's other events: each that is there all the time is on one page.
	List(ctx context.Context, l Listing) (Listed, error)
	// Events yields each event once, with overrides applied to Person, in order of storing.
	// Events stored after the listing began are not in it, unless Follow is set. The event is
	// valid until the next one is requested.
	Events(ctx context.Context, f Filter) iter.Seq2[*event.Event, error]
	// Find returns an event of a project by its id, with overrides applied to Person, or ErrUnknown.
	// It does not look through the project's events.
	Find(ctx context.Context, project, id uuid.UUID) (*event.Event, error)
	// Warnings returns a project's warnings, by time, those of one time in the order of storing.
	Warnings(ctx context.Context, f WarningFilter) ([]Warning, error)
	// Count is how many events a project has; the zero id: all projects.
	Count(ctx context.Context, project uuid.UUID) (int64, error)
}

// Store is the whole role.
type Store interface {
	Warehouse
	Reader
}
