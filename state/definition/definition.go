// Package definition is the role that catalogues the shape of events: which event names and
// property names a project has seen, and the type of each property's values. It helps people who
// build queries; its failures never fail events.
//
// Backends: tabledefinition, on any table, and postgresdefinition, in the tables of another
// program. redisdefinition drops the caches of that program. Promises are cases of definitiontest.
package definition

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Of says what a property belongs to.
type Of string

const (
	OfEvent  Of = "event"
	OfPerson Of = "person"
)

// Name is the name of the property with that key in the catalogue: properties.<key> for a
// property of an event, user_properties.<key> for one of a person. Queries, and the tables
// shared with other programs, use these names.
func (o Of) Name(key string) string {
	if o == OfPerson {
		return "user_properties." + key
	}
	return "properties." + key
}

// Type is the detected type of a property's values; empty: not known.
type Type string

const (
	String   Type = "String"
	Numeric  Type = "Numeric"
	Boolean  Type = "Boolean"
	DateTime Type = "DateTime"
)

// Event is the definition of an event name.
type Event struct {
	Project  uuid.UUID
	Name     string
	LastSeen time.Time // floored to the hour
}

// Property is the definition of a property name.
type Property struct {
	Project  uuid.UUID
	Name     string // with its prefix, see Of.Name
	Of       Of
	Type     Type // once set it stays; an empty one is filled by the first known
	LastSeen time.Time
}

// EventProperty says that a named event had a named property.
type EventProperty struct {
	Project  uuid.UUID
	Event    string
	Property string // its Name
	Of       Of
	LastSeen time.Time
}

// Batch is upserted together; it has each definition at most once.
type Batch struct {
	Events          []Event
	Properties      []Property
	EventProperties []EventProperty
}

// Sort sorts it as List does.
func (b *Batch) Sort() {
	slices.SortFunc(b.Events, func(x, y Event) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(b.Properties, func(x, y Property) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Of, y.Of))
	})
	slices.SortFunc(b.EventProperties, func(x, y EventProperty) int {
		return cmp.Or(cmp.Compare(x.Event, y.Event), cmp.Compare(x.Property, y.Property), cmp.Compare(x.Of, y.Of))
	})
}

// Definitions is the role.
type Definitions interface {
	// Upsert creates or renews the definitions in one transaction. An earlier LastSeen
	// never replaces a later one; a Type that is set stays.
	Upsert(ctx context.Context, b *Batch) error
	// List returns a project's definitions, sorted by name; event properties by the name of
	// the event, then of the property.
	List(ctx context.Context, project uuid.UUID) (*Batch, error)
}
