// Package definitiontest holds the promises of every backend of definitions as cases: call
// Run from the backend's one test.
package definitiontest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/definition"
)

// Harness is an empty catalogue.
type Harness struct {
	Definitions definition.Definitions
	Reopen      func() definition.Definitions // closes and opens the same data again; nil: nothing survives
}

// Run runs every case on its own harness.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.do(t, h(t))
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*testing.T, Harness)
}{
	{"what was upserted is listed by name", "people look names up", listed},
	{"upserting again makes nothing twice", "instances see the same names", again},
	{"the later time of seeing stays", "instances do not upsert in order", lastSeen},
	{"a type that is set stays", "a chart must not change its meaning", typeStays},
	{"an empty type is filled by the first known", "the first value may be null", typeFilled},
	{"a property of an event is not one of a person", "both may have a plan", ofs},
	{"projects have catalogues of their own", "names of tenants must not meet", projects},
	{"names differ by case and accents", "events are what their senders call them", spelling},
	{"a batch may be larger than a statement", "a new product brings its names at once", large},
	{"an empty batch is nothing", "most flushes bring nothing new", empty},
	{"concurrent upserts come to the same", "several instances flush at once", concurrent},
	{"concurrent upserts of many names do not stop each other", "instances find names in any order", manyAtOnce},
	{"names may be of any length", "events are what their senders call them", long},
	{"an ended context changes nothing", "a stop must not be held up", endedContext},
	{"definitions outlive a restart", "they are found out once", restart},
}

var (
	projectA = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	projectB = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	noon     = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	one      = noon.Add(time.Hour)
)

func event(name string, at time.Time) definition.Event {
	return definition.Event{Project: projectA, Name: name, LastSeen: at}
}

func property(name string, of definition.Of, typ definition.Type, at time.Time) definition.Property {
	return definition.Property{Project: projectA, Name: name, Of: of, Type: typ, LastSeen: at}
}

func pair(event, name string, of definition.Of, at time.Time) definition.EventProperty {
	return definition.EventProperty{Project: projectA, Event: event, Property: name, Of: of, LastSeen: at}
}

func upsert(t *testing.T, s definition.Definitions, b definition.Batch) {
	t.Helper()
	if err := s.Upsert(t.Context(), &b); err != nil {
		t.Fatalf("Upsert: %v", err)
	}
}

func want(t *testing.T, s definition.Definitions, project uuid.UUID, want definition.Batch) {
	t.Helper()
	got, err := s.List(t.Context(), project)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if !reflect.DeepEqual(*got, want) {
		t.Fatalf("List =\n%+v\nwant\n%+v", *got, want)
	}
}

func listed(t *testing.T, h Harness) {
	upsert(t, h.Definitions, definition.Batch{
		Events:          []definition.Event{event("view", noon), event("buy", one)},
		Properties:      []definition.Property{property("plan", definition.OfPerson, definition.String, noon), property("price", definition.OfEvent, definition.Numeric, noon), property("plan", definition.OfEvent, "", one)},
		EventProperties: []definition.EventProperty{pair("view", "plan", definition.OfPerson, noon), pair("buy", "price", definition.OfEvent, noon), pair("view", "plan", definition.OfEvent, noon)},
	})
	want(t, h.Definitions, projectA, definition.Batch{
		Events:          []definition.Event{event("buy", one), event("view", noon)},
		Properties:      []definition.Property{property("plan", definition.OfEvent, "", one), property("plan", definition.OfPerson, definition.String, noon), property("price", definition.OfEvent, definition.Numeric, noon)},
		EventProperties: []definition.EventProperty{pair("buy", "price", definition.OfEvent, noon), pair("view", "plan", definition.OfEvent, noon), pair("view", "plan", definition.OfPerson, noon)},
	})
}

// small is a batch with one definition of each kind.
func small(typ definition.Type, at time.Time) definition.Batch {
	return definition.Batch{
		Events:          []definition.Event{event("buy", at)},
		Properties:      []definition.Property{property("price", definition.OfEvent, typ, at)},
		EventProperties: []definition.EventProperty{pair("buy", "price", definition.OfEvent, at)},
	}
}

func again(t *testing.T, h Harness) {
	for range 3 {
		upsert(t, h.Definitions, small(definition.Numeric, noon))
	}
	want(t, h.Definitions, projectA, small(definition.Numeric, noon))
}

func lastSeen(t *testing.T, h Harness) {
	upsert(t, h.Definitions, small(definition.Numeric, noon))
	upsert(t, h.Definitions, small(definition.Numeric, one))
	upsert(t, h.Definitions, small(definition.Numeric, noon.Add(-time.Hour)))
	want(t, h.Definitions, projectA, small(definition.Numeric, one))
}

func typeStays(t *testing.T, h Harness) {
	upsert(t, h.Definitions, small(definition.Numeric, noon))
	upsert(t, h.Definitions, small(definition.String, one))
	upsert(t, h.Definitions, small("", one))
	want(t, h.Definitions, projectA, small(definition.Numeric, one))
}

func typeFilled(t *testing.T, h Harness) {
	upsert(t, h.Definitions, small("", one))
	upsert(t, h.Definitions, small(definition.Boolean, noon)) // also by one that was seen before
	want(t, h.Definitions, projectA, small(definition.Boolean, one))
	upsert(t, h.Definitions, small(definition.String, one))
	want(t, h.Definitions, projectA, small(definition.Boolean, one))
}

func ofs(t *testing.T, h Harness) {
	b := definition.Batch{
		Properties:      []definition.Property{property("plan", definition.OfEvent, definition.Numeric, noon), property("plan", definition.OfPerson, definition.String, one)},
		EventProperties: []definition.EventProperty{pair("buy", "plan", definition.OfEvent, noon), pair("buy", "plan", definition.OfPerson, one)},
	}
	upsert(t, h.Definitions, b)
	want(t, h.Definitions, projectA, b)
}

func projects(t *testing.T, h Harness) {
	upsert(t, h.Definitions, small(definition.Numeric, noon))
	want(t, h.Definitions, projectB, definition.Batch{})
	b := small(definition.String, one)
	b.Events[0].Project, b.Properties[0].Project, b.EventProperties[0].Project = projectB, projectB, projectB
	upsert(t, h.Definitions, b)
	want(t, h.Definitions, projectA, small(definition.Numeric, noon))
	want(t, h.Definitions, projectB, b)
}

func spelling(t *testing.T, h Harness) {
	b := definition.Batch{Events: []definition.Event{event("", noon), event("A", noon), event("B\x00\"", noon), event("a", noon), event("ä", noon), event("日", noon)}}
	upsert(t, h.Definitions, b)
	want(t, h.Definitions, projectA, b)
}

func large(t *testing.T, h Harness) {
	var b definition.Batch
	for i := range 12_000 { // 5 arguments each: more than the 32,766 of SQLite and, with their pairs, the 65,535 of PostgreSQL
		name := fmt.Sprintf("p%05d", i)
		b.Properties = append(b.Properties, property(name, definition.OfEvent, definition.Numeric, noon))
		b.EventProperties = append(b.EventProperties, pair("buy", name, definition.OfEvent, noon))
	}
	upsert(t, h.Definitions, b)
	want(t, h.Definitions, projectA, b)
}

func empty(t *testing.T, h Harness) {
	upsert(t, h.Definitions, definition.Batch{})
	want(t, h.Definitions, projectA, definition.Batch{})
}

func concurrent(t *testing.T, h Harness) {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				b := small("", noon.Add(time.Duration((j*7+i*3)%10)*time.Hour))
				if i == 2 {
					b.Properties[0].Type = definition.Numeric
				}
				if err := h.Definitions.Upsert(t.Context(), &b); err != nil {
					t.Errorf("Upsert: %v", err)
				}
			}
		})
	}
	wg.Wait()
	want(t, h.Definitions, projectA, small(definition.Numeric, noon.Add(9*time.Hour)))
}

func manyAtOnce(t *testing.T, h Harness) {
	many := func(at time.Time) (b definition.Batch) {
		b.Events = []definition.Event{event("buy", at)}
		for i := range 60 {
			name := fmt.Sprintf("p%03d", i)
			b.Properties = append(b.Properties, property(name, definition.OfEvent, definition.Numeric, at))
			b.EventProperties = append(b.EventProperties, pair("buy", name, definition.OfEvent, at))
		}
		return b
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 5 {
				b := many(noon.Add(time.Duration(j) * time.Hour))
				if i%2 == 1 {
					slices.Reverse(b.Properties)
					slices.Reverse(b.EventProperties)
				}
				if err := h.Definitions.Upsert(t.Context(), &b); err != nil {
					t.Errorf("Upsert: %v", err)
				}
			}
		})
	}
	wg.Wait()
	want(t, h.Definitions, projectA, many(noon.Add(4*time.Hour)))
}

func long(t *testing.T, h Harness) {
	a, b := strings.Repeat("é", 3000), strings.Repeat("é", 3001)
	batch := definition.Batch{
		Events:          []definition.Event{event(a, noon), event(b, one)},
		Properties:      []definition.Property{property(a, definition.OfEvent, definition.String, noon), property(b, definition.OfEvent, definition.Numeric, noon)},
		EventProperties: []definition.EventProperty{pair("a", "bc", definition.OfEvent, noon), pair("ab", "c", definition.OfEvent, noon), pair(a, b, definition.OfEvent, one)},
	}
	for range 2 {
		upsert(t, h.Definitions, batch)
		want(t, h.Definitions, projectA, batch)
	}
}

func endedContext(t *testing.T, h Harness) {
	ctx, end := context.WithCancel(t.Context())
	end()
	b := small(definition.Numeric, noon)
	if err := h.Definitions.Upsert(ctx, &b); err == nil {
		t.Fatal("Upsert with an ended context returned nil")
	}
	if b, err := h.Definitions.List(ctx, projectA); err == nil {
		t.Fatalf("List with an ended context returned %+v", b)
	}
	want(t, h.Definitions, projectA, definition.Batch{})
}

func restart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		return // nothing survives, nothing is promised
	}
	upsert(t, h.Definitions, small("", noon))
	s := h.Reopen()
	want(t, s, projectA, small("", noon))
	upsert(t, s, small(definition.Numeric, noon))
	want(t, h.Reopen(), projectA, small(definition.Numeric, noon))
}
