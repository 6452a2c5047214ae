// Package sqlitedefinition keeps definitions in the one SQLite file. It writes only what
// changes.
package sqlitedefinition

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/definition"
)

// Definitions implements definition.Definitions.
type Definitions struct{ db *sqlitedb.DB }

var _ definition.Definitions = (*Definitions)(nil)

var schema = []string{`
CREATE TABLE definition_event(
	project BLOB NOT NULL,
	name TEXT NOT NULL,
	last_seen INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY(project, name)
) WITHOUT ROWID;
CREATE TABLE definition_property(
	project BLOB NOT NULL,
	name TEXT NOT NULL,
	of TEXT NOT NULL,
	type TEXT NOT NULL, -- '': not known
	last_seen INTEGER NOT NULL,
	PRIMARY KEY(project, name, of)
) WITHOUT ROWID;
CREATE TABLE definition_event_property(
	project BLOB NOT NULL,
	event TEXT NOT NULL,
	property TEXT NOT NULL,
	of TEXT NOT NULL,
	last_seen INTEGER NOT NULL,
	PRIMARY KEY(project, event, property, of)
) WITHOUT ROWID;
`}

// New opens the catalogue in db and makes its tables.
func New(ctx context.Context, db *sqlitedb.DB) (*Definitions, error) {
	if err := db.Migrate(ctx, "definition", schema); err != nil {
		return nil, fmt.Errorf("open the definitions: %w", err)
	}
	return &Definitions{db}, nil
}

// Upsert implements definition.Definitions.
func (s *Definitions) Upsert(ctx context.Context, b *definition.Batch) error {
	events := make([]any, 0, 3*len(b.Events))
	for _, e := range b.Events {
		events = append(events, e.Project[:], e.Name, e.LastSeen.UnixMilli())
	}
	properties := make([]any, 0, 5*len(b.Properties))
	for _, p := range b.Properties {
		properties = append(properties, p.Project[:], p.Name, string(p.Of), string(p.Type), p.LastSeen.UnixMilli())
	}
	pairs := make([]any, 0, 5*len(b.EventProperties))
	for _, p := range b.EventProperties {
		pairs = append(pairs, p.Project[:], p.Event, p.Property, string(p.Of), p.LastSeen.UnixMilli())
	}
	const seen = " ON CONFLICT DO UPDATE SET last_seen=excluded.last_seen WHERE excluded.last_seen > last_seen"
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Bulk("INSERT INTO definition_event(project,name,last_seen) VALUES ", "(?,?,?)", seen, events); err != nil {
			return err
		}
		if _, err := tx.Bulk("INSERT INTO definition_property(project,name,of,type,last_seen) VALUES ", "(?,?,?,?,?)",
			" ON CONFLICT DO UPDATE SET last_seen=max(last_seen, excluded.last_seen), type=iif(type='', excluded.type, type)"+
				" WHERE excluded.last_seen > last_seen OR type='' AND excluded.type<>''", properties); err != nil {
			return err
		}
		_, err := tx.Bulk("INSERT INTO definition_event_property(project,event,property,of,last_seen) VALUES ", "(?,?,?,?,?)", seen, pairs)
		return err
	})
	if err != nil {
		return fmt.Errorf("upsert definitions of %d events, %d properties and %d event properties: %w", len(b.Events), len(b.Properties), len(b.EventProperties), err)
	}
	return nil
}

// List implements definition.Definitions.
func (s *Definitions) List(ctx context.Context, project uuid.UUID) (*definition.Batch, error) {
	b := &definition.Batch{}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := each(tx, "SELECT name, last_seen FROM definition_event WHERE project=? ORDER BY name", project, func(rows *sql.Rows) error {
			e := definition.Event{Project: project}
			var at int64
			err := rows.Scan(&e.Name, &at)
			e.LastSeen = time.UnixMilli(at).UTC()
			b.Events = append(b.Events, e)
			return err
		}); err != nil {
			return err
		}
		if err := each(tx, "SELECT name, of, type, last_seen FROM definition_property WHERE project=? ORDER BY name, of", project, func(rows *sql.Rows) error {
			p := definition.Property{Project: project}
			var at int64
			err := rows.Scan(&p.Name, &p.Of, &p.Type, &at)
			p.LastSeen = time.UnixMilli(at).UTC()
			b.Properties = append(b.Properties, p)
			return err
		}); err != nil {
			return err
		}
		return each(tx, "SELECT event, property, of, last_seen FROM definition_event_property WHERE project=? ORDER BY event, property, of", project, func(rows *sql.Rows) error {
			p := definition.EventProperty{Project: project}
			var at int64
			err := rows.Scan(&p.Event, &p.Property, &p.Of, &at)
			p.LastSeen = time.UnixMilli(at).UTC()
			b.EventProperties = append(b.EventProperties, p)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list definitions of project %s: %w", project, err)
	}
	return b, nil
}

// each runs a query about a project and reads every row.
func each(tx *sqlitedb.Tx, query string, project uuid.UUID, read func(*sql.Rows) error) error {
	rows, err := tx.Query(query, project[:])
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
