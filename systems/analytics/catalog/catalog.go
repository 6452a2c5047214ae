// Package catalog finds out what events look like, for the people who build queries. It looks
// at each stored event, gathers the names of events and properties that are new this hour, with
// the types of their values, and upserts them now and then.
//
//	c, err := catalog.New(definitions, catalog.Options{})
//	for !c.See(e) { // for each stored event
//		err = c.Flush(ctx) // no more names may wait
//	}
//	err = c.Flush(ctx) // after them
//
// A failure here never fails events: names that could not be upserted stay and are tried again
// at the next Flush. No name is dropped, however many are new at once. The number of waiting
// names is bounded: the caller has to flush before it sees more.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// What is catalogued, and how much is remembered.
const (
	maxName       = 200     // characters of a name; longer ones are not catalogued
	maxProperties = 10_000  // of an event; one with more is not catalogued at all
	maxKnown      = 100_000 // names of each sort known this hour; then the memory begins anew
	maxWaiting    = 20_000  // names not upserted yet: about 60 ms of a SQLite writer
)

// Options tune a Catalog; the zero value is ready to use.
type Options struct {
	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil discards
}

// Catalog gathers definitions. It is safe for concurrent use.
type Catalog struct {
	defs definition.Definitions
	o    Options
	seed maphash.Seed

	turn chan struct{} // holds one token: its owner is the one Flush that runs

	mu       sync.Mutex // guards what follows; held for work in memory only
	hour     time.Time
	known    known
	shapes   map[uint64]struct{} // of events whose names are all known
	waiting  names
	flushing int // names that the running Flush removed from waiting
}

// known are this hour's names that are upserted or wait to be.
type known struct {
	events     map[eventKey]struct{}
	properties map[propertyKey]bool // true: its type too
	pairs      map[pairKey]struct{}
}

type (
	eventKey struct {
		project uuid.UUID
		name    string
	}
	propertyKey struct {
		project uuid.UUID
		of      definition.Of
		name    string
	}
	pairKey struct {
		project     uuid.UUID
		of          definition.Of
		event, name string
	}
)

// New makes a catalogue that upserts into defs.
func New(defs definition.Definitions, o Options) (*Catalog, error) {
	if defs == nil {
		return nil, errors.New("a catalogue needs definitions to write to")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Catalog{defs: defs, o: o, seed: maphash.MakeSeed(), turn: make(chan struct{}, 1), shapes: map[uint64]struct{}{}, waiting: newNames(),
		known: known{map[eventKey]struct{}{}, map[propertyKey]bool{}, map[pairKey]struct{}{}}}
	c.turn <- struct{}{}
	return c, nil
}

// See looks at an event, and reports whether all of its names are known or wait for Flush. If
// not, there was no room for all: Flush, then see the same event again. Usually nothing of it
// is new: its shape, which is its name and the names and kinds of its properties in their
// order, was seen this hour. See keeps nothing of e.
func (c *Catalog) See(e *event.Event) (all bool) {
	if e.Name == "" || long(e.Name) {
		return true
	}
	now := c.o.Now()
	properties, user := bag{e.Properties, definition.OfEvent}, bag{e.UserProperties, definition.OfPerson}
	var room [1024]byte
	shape := append(append(append(room[:0], e.Project[:]...), e.Name...), '"')
	shape, n := properties.shape(shape)
	shape = append(shape, '}')
	shape, m := user.shape(shape)
	if n+m > maxProperties {
		return true
	}
	h := maphash.Bytes(c.seed, shape)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(now)
	if _, ok := c.shapes[h]; ok {
		return true
	}
	s := sighting{c: c, e: e, now: now, all: true}
	s.event()
	properties.each(&s)
	user.each(&s)
	if s.all {
		if len(c.shapes) >= maxKnown {
			clear(c.shapes)
		}
		c.shapes[h] = struct{}{}
	}
	return s.all
}

// long says whether a name is too long to be catalogued.
func long[T string | []byte](name T) bool {
	return len(name) > maxName && utf8.RuneCountInString(string(name)) > maxName
}

// begin forgets the known names when a new hour begins. Then all are upserted again, with the
// time of their last sighting.
func (c *Catalog) begin(now time.Time) {
	if hour := now.Truncate(time.Hour).UTC(); !hour.Equal(c.hour) {
		c.hour = hour
		clear(c.shapes)
		clear(c.known.events)
		clear(c.known.properties)
		clear(c.known.pairs)
	}
}

// Flush upserts the new names, in one transaction. One Flush runs at a time. Others wait for it
// and then upsert the names that came meanwhile. After an error all names wait for the next
// Flush, so calling it again is the retry.
func (c *Catalog) Flush(ctx context.Context) error {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	ns, n := c.waiting, c.waiting.size()
	if n == 0 {
		c.mu.Unlock()
		return nil
	}
	c.waiting, c.flushing = newNames(), n
	c.mu.Unlock()
	err := c.defs.Upsert(ctx, ns.batch())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing = 0
	if err != nil {
		c.putBack(ns)
		return fmt.Errorf("catalogue %d new names: %w", n, err)
	}
	return nil
}
