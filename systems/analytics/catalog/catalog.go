// Package catalog finds out what events look like, for the people who build queries: it
// looks at each event that was stored, gathers the names of events and properties that
// are new this hour, with the types of their values, and upserts them now and then.
//
//	c, err := catalog.New(definitions, catalog.Options{})
//	c.See(e)         // for each event that was stored
//	err = c.Flush(ctx) // after them
//
// A failure here never fails events: what could not be upserted stays and is tried again
// at the next Flush.
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
	maxProperties = 10_000  // of an event; one that has more is not catalogued at all
	maxKnown      = 100_000 // names of each sort known this hour; then it is begun anew
	maxWaiting    = 20_000  // names that wait for Flush: about 60 ms of a SQLite writer
)

// Options tune a Catalog; the zero value is ready to use.
type Options struct {
	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil discards
}

// Catalog gathers definitions. Its methods may be called from several goroutines.
type Catalog struct {
	defs definition.Definitions
	o    Options
	seed maphash.Seed

	mu      sync.Mutex // guards what follows; held for work in memory only
	hour    time.Time
	known   known
	shapes  map[uint64]struct{} // of events of which all is known
	waiting names
	left    int // sightings that found no room in waiting since the last Flush
}

// known are the names of this hour that are upserted or wait to be.
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
	return &Catalog{defs: defs, o: o, seed: maphash.MakeSeed(), shapes: map[uint64]struct{}{}, waiting: newNames(),
		known: known{map[eventKey]struct{}{}, map[propertyKey]bool{}, map[pairKey]struct{}{}}}, nil
}

// See looks at an event. Mostly nothing of it is new: its shape, which is its name and
// the names and kinds of its properties in their order, was seen this hour. It keeps
// nothing of e.
func (c *Catalog) See(e *event.Event) {
	if e.Name == "" || long(e.Name) {
		return
	}
	now := c.o.Now()
	properties, user := bag{e.Properties, definition.OfEvent}, bag{e.UserProperties, definition.OfPerson}
	var room [1024]byte
	shape := append(append(append(room[:0], e.Project[:]...), e.Name...), '"')
	shape, n := properties.shape(shape)
	shape = append(shape, '}')
	shape, m := user.shape(shape)
	if n+m > maxProperties {
		return
	}
	h := maphash.Bytes(c.seed, shape)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(now)
	if _, ok := c.shapes[h]; ok {
		return
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
}

// long says whether a name is too long to be catalogued.
func long[T string | []byte](name T) bool {
	return len(name) > maxName && utf8.RuneCountInString(string(name)) > maxName
}

// turn forgets what was known when a new hour begins: then all is upserted again, for the
// time of its last sighting.
func (c *Catalog) turn(now time.Time) {
	if hour := now.Truncate(time.Hour).UTC(); !hour.Equal(c.hour) {
		c.hour = hour
		clear(c.shapes)
		clear(c.known.events)
		clear(c.known.properties)
		clear(c.known.pairs)
	}
}

// Flush upserts what is new, in one stroke. After an error all of it waits for the next
// Flush, so calling it again is the retry.
func (c *Catalog) Flush(ctx context.Context) error {
	c.mu.Lock()
	ns, left := c.waiting, c.left
	c.waiting, c.left = newNames(), 0
	c.mu.Unlock()
	if left > 0 {
		c.o.Log.WarnContext(ctx, "definitions: too many new names at once, some are left for their next sighting", "names", left)
	}
	b := ns.batch()
	if ns.size() == 0 {
		return nil
	}
	if err := c.defs.Upsert(ctx, b); err != nil {
		c.mu.Lock()
		c.putBack(ns)
		c.mu.Unlock()
		return fmt.Errorf("catalogue %d new names: %w", ns.size(), err)
	}
	return nil
}
