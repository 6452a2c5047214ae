// Package postgresdefinition keeps definitions in the PostgreSQL tables of the product analytics
// system that one migrates from. Its programs and people read and edit them too: it never touches
// their descriptions, tags and verdicts, and writes only what changes.
package postgresdefinition

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/definition"
)

// maxName is how many characters the columns of names hold. The catalogue takes names of up
// to 200; a name longer than the column is stored by its hash (see postgresdb.Key).
const maxName = 500

// Definitions implements definition.Definitions.
type Definitions struct{ db *postgresdb.DB }

var _ definition.Definitions = (*Definitions)(nil)

// New brings the tables of db to the newest version and opens the catalogue in it.
func New(ctx context.Context, db *postgresdb.DB) (*Definitions, error) {
	if err := db.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the definitions: %w", err)
	}
	return &Definitions{db}, nil
}

// Rows go in sorted, so that two processes cannot wait for each other; rows of a missing
// project are left out. Rows that would change nothing are left out before the conflict,
// which would lock and rewrite their heads.
const (
	upsertEvents = `INSERT INTO event_definitions AS d (project_id, event_name, event_bytes, last_seen_at, created_at, updated_at)
		SELECT k.project, k.name, k.whole, k.seen, now(), now()
		FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) k(project, name, whole, seen)
		WHERE EXISTS (SELECT FROM projects p WHERE p.id = k.project)
			AND NOT EXISTS (SELECT FROM event_definitions o WHERE o.project_id = k.project AND o.event_name = k.name AND o.last_seen_at >= k.seen)
		ORDER BY k.project, k.name COLLATE "C"
		ON CONFLICT (project_id, event_name) DO UPDATE SET last_seen_at = excluded.last_seen_at, updated_at = now()
		WHERE excluded.last_seen_at > d.last_seen_at OR d.last_seen_at IS NULL`

	upsertProperties = `INSERT INTO property_definitions AS d
			(project_id, property_name, property_bytes, property_type, value_type, is_numerical, last_seen_at, created_at, updated_at)
		SELECT k.project, k.name, k.whole, k.of, nullif(k.type, ''), k.type = 'Numeric', k.seen, now(), now()
		FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::timestamptz[]) k(project, name, whole, of, type, seen)
		WHERE EXISTS (SELECT FROM projects p WHERE p.id = k.project)
			AND NOT EXISTS (SELECT FROM property_definitions o WHERE o.project_id = k.project AND o.property_name = k.name
				AND o.property_type = k.of AND o.last_seen_at >= k.seen AND (o.value_type IS NOT NULL OR k.type = ''))
		ORDER BY k.project, k.name COLLATE "C", k.of COLLATE "C"
		ON CONFLICT (project_id, property_name, property_type) DO UPDATE SET
			last_seen_at = greatest(d.last_seen_at, excluded.last_seen_at),
			value_type = coalesce(d.value_type, excluded.value_type),
			is_numerical = coalesce(d.value_type, excluded.value_type, '') = 'Numeric', updated_at = now()
		WHERE excluded.last_seen_at > d.last_seen_at OR d.last_seen_at IS NULL OR d.value_type IS NULL AND excluded.value_type IS NOT NULL`

	upsertEventProperties = `INSERT INTO event_properties AS d
			(project_id, event_name, event_bytes, property_name, property_bytes, property_type, last_seen_at)
		SELECT k.project, k.event, k.event_whole, k.name, k.whole, k.of, k.seen
		FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::timestamptz[])
			k(project, event, event_whole, name, whole, of, seen)
		WHERE EXISTS (SELECT FROM projects p WHERE p.id = k.project)
			AND NOT EXISTS (SELECT FROM event_properties o WHERE o.project_id = k.project AND o.event_name = k.event
				AND o.property_name = k.name AND o.property_type = k.of AND o.last_seen_at >= k.seen)
		ORDER BY k.project, k.event COLLATE "C", k.name COLLATE "C", k.of COLLATE "C"
		ON CONFLICT (project_id, event_name, property_name, property_type) DO UPDATE SET last_seen_at = excluded.last_seen_at
		WHERE excluded.last_seen_at > d.last_seen_at OR d.last_seen_at IS NULL`
)

// columns of definitions, one slice each.
type columns struct {
	projects            []uuid.UUID
	events, names       []string
	eventWholes, wholes [][]byte
	ofs, types          []string
	seen                []time.Time
}

func (c *columns) add(project uuid.UUID, event, name string, of definition.Of, typ definition.Type, seen time.Time) {
	c.projects = append(c.projects, project)
	key, whole := postgresdb.Key(event, maxName)
	c.events, c.eventWholes = append(c.events, key), append(c.eventWholes, whole)
	key, whole = postgresdb.Key(name, maxName)
	c.names, c.wholes = append(c.names, key), append(c.wholes, whole)
	c.ofs, c.types = append(c.ofs, string(of)), append(c.types, string(typ))
	c.seen = append(c.seen, seen.UTC().Truncate(time.Hour))
}

// Upsert implements definition.Definitions.
func (s *Definitions) Upsert(ctx context.Context, b *definition.Batch) error {
	var events, properties, pairs columns
	for _, e := range b.Events {
		events.add(e.Project, e.Name, "", "", "", e.LastSeen)
	}
	for _, p := range b.Properties {
		properties.add(p.Project, "", p.Name, p.Of, p.Type, p.LastSeen)
	}
	for _, p := range b.EventProperties {
		pairs.add(p.Project, p.Event, p.Property, p.Of, "", p.LastSeen)
	}
	todo := &pgx.Batch{}
	if c := &events; len(c.seen) > 0 {
		todo.Queue(upsertEvents, c.projects, c.events, c.eventWholes, c.seen)
	}
	if c := &properties; len(c.seen) > 0 {
		todo.Queue(upsertProperties, c.projects, c.names, c.wholes, c.ofs, c.types, c.seen)
	}
	if c := &pairs; len(c.seen) > 0 {
		todo.Queue(upsertEventProperties, c.projects, c.events, c.eventWholes, c.names, c.wholes, c.ofs, c.seen)
	}
	if todo.Len() == 0 {
		return ctx.Err()
	}
	err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, todo).Close() })
	if err != nil {
		return fmt.Errorf("upsert definitions of %d events, %d properties and %d event properties: %w", len(b.Events), len(b.Properties), len(b.EventProperties), err)
	}
	return nil
}

// List implements definition.Definitions.
func (s *Definitions) List(ctx context.Context, project uuid.UUID) (*definition.Batch, error) {
	b := &definition.Batch{}
	err := s.db.TxAs(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(ctx context.Context, tx pgx.Tx) error {
		return list(ctx, tx, project, b)
	})
	if err != nil {
		return nil, fmt.Errorf("list definitions of project %s: %w", project, err)
	}
	b.Sort()
	return b, nil
}

// list reads all of a project. This product never saw a row without a time.
func list(ctx context.Context, tx pgx.Tx, project uuid.UUID, b *definition.Batch) error {
	var event, name, of, typ string
	var eventWhole, whole []byte
	var seen time.Time
	rows, err := tx.Query(ctx, "SELECT event_name, event_bytes, coalesce(last_seen_at, 'epoch') FROM event_definitions WHERE project_id = $1", project)
	if err := postgresdb.Each(rows, err, func(r pgx.Rows) error {
		err := r.Scan(&event, &eventWhole, &seen)
		b.Events = append(b.Events, definition.Event{Project: project, Name: postgresdb.Name(event, eventWhole), LastSeen: seen.UTC()})
		return err
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT property_name, property_bytes, property_type, coalesce(value_type, ''), coalesce(last_seen_at, 'epoch')
		FROM property_definitions WHERE project_id = $1`, project)
	if err := postgresdb.Each(rows, err, func(r pgx.Rows) error {
		err := r.Scan(&name, &whole, &of, &typ, &seen)
		b.Properties = append(b.Properties, definition.Property{Project: project, Name: postgresdb.Name(name, whole),
			Of: definition.Of(of), Type: definition.Type(typ), LastSeen: seen.UTC()})
		return err
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT event_name, event_bytes, property_name, property_bytes, property_type, coalesce(last_seen_at, 'epoch')
		FROM event_properties WHERE project_id = $1`, project)
	return postgresdb.Each(rows, err, func(r pgx.Rows) error {
		err := r.Scan(&event, &eventWhole, &name, &whole, &of, &seen)
		b.EventProperties = append(b.EventProperties, definition.EventProperty{Project: project, Event: postgresdb.Name(event, eventWhole),
			Property: postgresdb.Name(name, whole), Of: definition.Of(of), LastSeen: seen.UTC()})
		return err
	})
}
