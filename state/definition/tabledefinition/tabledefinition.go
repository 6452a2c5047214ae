// Package tabledefinition keeps definitions in a table of any backend. It writes only what
// changes.
package tabledefinition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Record is the definition of an event name, of a property name, or of both together.
type Record struct {
	key             string // the project's id, /, and a fingerprint of the names, which may be of any length
	kind            uint8
	event, property string
	of, typ         string
	seen            time.Time
}

// The kinds of records. They are stored.
const (
	event    uint8 = 1
	property uint8 = 2
	pair     uint8 = 3 // a property of a named event
)

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "definition", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "kind", At: func(r *Record) any { return &r.kind }},
		{Name: "event", At: func(r *Record) any { return &r.event }},
		{Name: "property", At: func(r *Record) any { return &r.property }},
		{Name: "of", At: func(r *Record) any { return &r.of }},
		{Name: "type", At: func(r *Record) any { return &r.typ }},
		{Name: "last_seen", At: func(r *Record) any { return &r.seen }},
	}}
}

// Definitions implements definition.Definitions.
type Definitions[Raw any] struct{ t table.Store[Record, Raw] }

var _ definition.Definitions = (*Definitions[any])(nil)

// New makes a catalogue of a table.
func New[Raw any](t table.Store[Record, Raw]) *Definitions[Raw] { return &Definitions[Raw]{t} }

// Memory makes an empty catalogue in memory.
func Memory() *Definitions[*memorytable.Tx] {
	return New(memorytable.Alone(Spec()))
}

// records are a batch's, with their keys.
func records(b *definition.Batch) []*Record {
	all := make([]*Record, 0, len(b.Events)+len(b.Properties)+len(b.EventProperties))
	add := func(project uuid.UUID, r Record) {
		r.key = project.String() + "/" + wire.Fingerprint([]byte{r.kind}, []byte(r.of), []byte(r.event), []byte(r.property))
		all = append(all, &r)
	}
	for _, e := range b.Events {
		add(e.Project, Record{kind: event, event: e.Name, seen: e.LastSeen})
	}
	for _, p := range b.Properties {
		add(p.Project, Record{kind: property, property: p.Name, of: string(p.Of), typ: string(p.Type), seen: p.LastSeen})
	}
	for _, p := range b.EventProperties {
		add(p.Project, Record{kind: pair, event: p.Event, property: p.Property, of: string(p.Of), seen: p.LastSeen})
	}
	return all
}

// Upsert implements definition.Definitions.
func (d *Definitions[Raw]) Upsert(ctx context.Context, b *definition.Batch) error {
	all := records(b)
	if len(all) == 0 {
		return ctx.Err()
	}
	keys := make([]string, len(all))
	for i, r := range all {
		keys[i] = r.key
	}
	err := d.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		known, err := tx.Get(keys, "type", "last_seen")
		if err != nil {
			return err
		}
		var created, renewed []*Record
		for _, r := range all {
			if old := known[r.key]; old == nil {
				created = append(created, r)
			} else if old.renew(r) {
				renewed = append(renewed, old)
			}
		}
		return errors.Join(tx.Put(created), tx.Put(renewed, "type", "last_seen"))
	})
	if err != nil {
		return fmt.Errorf("upsert definitions of %d events, %d properties and %d event properties: %w", len(b.Events), len(b.Properties), len(b.EventProperties), err)
	}
	return nil
}

// renew adds to a known record what another says of the same names, and reports whether that
// changed it.
func (r *Record) renew(by *Record) bool {
	before := *r
	if r.typ = cmp.Or(r.typ, by.typ); by.seen.After(r.seen) {
		r.seen = by.seen
	}
	return r.typ != before.typ || !r.seen.Equal(before.seen)
}

// pageSize is how many records are read at once.
const pageSize = 1000

// List implements definition.Definitions.
func (d *Definitions[Raw]) List(ctx context.Context, project uuid.UUID) (*definition.Batch, error) {
	q := table.Query[Record]{Most: pageSize, Where: []table.Cond{ // 0 comes after /
		{Field: "key", Op: ">", Value: project.String() + "/"}, {Field: "key", Op: "<", Value: project.String() + "0"}}}
	var all []*Record
	err := d.t.View(ctx, func(tx table.Reader[Record]) (err error) {
		all, err = table.All(tx, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list definitions of project %s: %w", project, err)
	}
	b := &definition.Batch{}
	for _, r := range all {
		r.list(b, project)
	}
	b.Sort()
	return b, nil
}

// list adds the record to a batch.
func (r *Record) list(b *definition.Batch, project uuid.UUID) {
	switch of := definition.Of(r.of); r.kind {
	case event:
		b.Events = append(b.Events, definition.Event{Project: project, Name: r.event, LastSeen: r.seen})
	case property:
		b.Properties = append(b.Properties, definition.Property{Project: project, Name: r.property, Of: of, Type: definition.Type(r.typ), LastSeen: r.seen})
	default:
		b.EventProperties = append(b.EventProperties, definition.EventProperty{Project: project, Event: r.event, Property: r.property, Of: of, LastSeen: r.seen})
	}
}
