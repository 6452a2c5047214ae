// Package sqliteproject keeps projects in the one SQLite file. Every look-up reads the
// file: put a cache in front if every request looks up a key.
package sqliteproject

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/project"
)

// Projects implements project.Projects.
type Projects struct{ db *sqlitedb.DB }

var _ project.Projects = (*Projects)(nil)

var schema = []string{`
CREATE TABLE project(id BLOB PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE project_key(
	hash BLOB PRIMARY KEY, -- SHA-256 of the key, which is kept nowhere
	project BLOB NOT NULL REFERENCES project(id)
) WITHOUT ROWID;
`}

// New opens the projects in db and makes their tables.
func New(ctx context.Context, db *sqlitedb.DB) (*Projects, error) {
	if err := db.Migrate(ctx, "project", schema); err != nil {
		return nil, fmt.Errorf("open the projects: %w", err)
	}
	return &Projects{db}, nil
}

// Ensure implements project.Projects.
func (s *Projects) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	if err := p.Check(); err != nil {
		return err
	}
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Exec("INSERT INTO project(id,name) VALUES(?,?) ON CONFLICT DO UPDATE SET name=excluded.name WHERE name<>excluded.name", p.ID[:], p.Name); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO project_key(hash,project) VALUES(?,?) ON CONFLICT DO NOTHING", key[:], p.ID[:]); err != nil {
			return err
		}
		var of []byte
		if err := tx.QueryRow("SELECT project FROM project_key WHERE hash=?", key[:]).Scan(&of); err != nil {
			return err
		}
		if uuid.UUID(of) != p.ID {
			return project.ErrKeyTaken
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ensure project %s: %w", p.ID, err)
	}
	return nil
}

// ByKey implements project.Projects.
func (s *Projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	return s.one(ctx, "SELECT p.id, p.name FROM project_key k JOIN project p ON p.id = k.project WHERE k.hash=?", key[:])
}

// Find implements project.Projects.
func (s *Projects) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	return s.one(ctx, "SELECT id, name FROM project WHERE id=?", id[:])
}

func (s *Projects) one(ctx context.Context, query string, arg []byte) (p project.Project, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var id []byte
		err := tx.QueryRow(query, arg).Scan(&id, &p.Name)
		copy(p.ID[:], id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return project.Project{}, project.ErrUnknown
	}
	if err != nil {
		return project.Project{}, fmt.Errorf("find a project: %w", err)
	}
	return p, nil
}

// List implements project.Projects.
func (s *Projects) List(ctx context.Context) (ps []project.Project, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT id, name FROM project ORDER BY name, id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id []byte
			var p project.Project
			if err := rows.Scan(&id, &p.Name); err != nil {
				return err
			}
			copy(p.ID[:], id)
			ps = append(ps, p)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	return ps, nil
}
