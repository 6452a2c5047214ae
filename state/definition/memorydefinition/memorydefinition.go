// Package memorydefinition keeps definitions in memory: the reference of their meaning,
// for tests and simulation.
package memorydefinition

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/definition"
)

// Definitions implements definition.Definitions.
type Definitions struct {
	mu         sync.Mutex // guards what follows; held for work in memory only
	events     map[eventKey]definition.Event
	properties map[propertyKey]definition.Property
	pairs      map[pairKey]definition.EventProperty
}

type (
	eventKey struct {
		project uuid.UUID
		name    string
	}
	propertyKey struct {
		project uuid.UUID
		name    string
		of      definition.Of
	}
	pairKey struct {
		project         uuid.UUID
		event, property string
		of              definition.Of
	}
)

var _ definition.Definitions = (*Definitions)(nil)

// New makes an empty catalogue.
func New() *Definitions {
	return &Definitions{events: map[eventKey]definition.Event{}, properties: map[propertyKey]definition.Property{}, pairs: map[pairKey]definition.EventProperty{}}
}

// Upsert implements definition.Definitions.
func (s *Definitions) Upsert(ctx context.Context, b *definition.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.Events {
		k := eventKey{e.Project, e.Name}
		e.LastSeen = later(s.events[k].LastSeen, e.LastSeen)
		s.events[k] = e
	}
	for _, p := range b.Properties {
		k := propertyKey{p.Project, p.Name, p.Of}
		p.LastSeen = later(s.properties[k].LastSeen, p.LastSeen)
		p.Type = cmp.Or(s.properties[k].Type, p.Type)
		s.properties[k] = p
	}
	for _, p := range b.EventProperties {
		k := pairKey{p.Project, p.Event, p.Property, p.Of}
		p.LastSeen = later(s.pairs[k].LastSeen, p.LastSeen)
		s.pairs[k] = p
	}
	return nil
}

// later is the later of two times.
func later(old, t time.Time) time.Time {
	if old.After(t) {
		return old
	}
	return t.UTC()
}

// List implements definition.Definitions.
func (s *Definitions) List(ctx context.Context, project uuid.UUID) (*definition.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &definition.Batch{}
	for k, e := range s.events {
		if k.project == project {
			b.Events = append(b.Events, e)
		}
	}
	for k, p := range s.properties {
		if k.project == project {
			b.Properties = append(b.Properties, p)
		}
	}
	for k, p := range s.pairs {
		if k.project == project {
			b.EventProperties = append(b.EventProperties, p)
		}
	}
	slices.SortFunc(b.Events, func(a, b definition.Event) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(b.Properties, func(a, b definition.Property) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Of, b.Of))
	})
	slices.SortFunc(b.EventProperties, func(a, b definition.EventProperty) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Property, b.Property), cmp.Compare(a.Of, b.Of))
	})
	return b, nil
}
