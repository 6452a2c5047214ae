// Package postgresproject keeps projects in PostgreSQL, in the table projects of the product
// analytics system that one migrates from, whose programs may own it. Every look-up asks the server: put a cache in front if every request
// looks up a key.
package postgresproject

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/project"
)

// Projects implements project.Store.
type Projects struct{ db *postgresdb.DB }

var _ project.Store = (*Projects)(nil)

// New brings the tables of db to the newest version and opens the projects in it.
func New(ctx context.Context, db *postgresdb.DB) (*Projects, error) {
	if err := db.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the projects: %w", err)
	}
	return &Projects{db}, nil
}

// byKey finds the project of a key: by the keys that Ensure has stored, by a token that is
// the key's SHA-256 in hex, or by one that is the key itself. A hash that Ensure has stored
// is not accepted as a key: reading the table must not be enough to send.
const byKey = `SELECT id, name FROM projects p WHERE
		id IN (SELECT project_id FROM @tidemill_project_keys WHERE hash = $1)
		OR token = $2
		OR sha256(decode(replace(token, '\', '\\'), 'escape')) = $1
			AND NOT EXISTS (SELECT FROM @tidemill_project_keys k WHERE encode(k.hash, 'hex') = p.token AND k.project_id = p.id)
	ORDER BY id LIMIT 1`

// ensureLock is an advisory lock of this database, held while a project is ensured. It can
// be any number that nothing else uses.
const ensureLock = 7_203_115_942_066_317_002

// Ensure implements project.Projects. An existing project keeps its token.
func (s *Projects) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	if err := p.Check(); err != nil {
		return err
	}
	err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(ensureLock)); err != nil {
			return err
		}
		owner, err := one(tx.QueryRow(ctx, s.db.Own(byKey), key[:], hex.EncodeToString(key[:])))
		if err == nil && owner.ID != p.ID {
			return project.ErrKeyTaken
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var name string
		switch err := tx.QueryRow(ctx, "SELECT name FROM projects WHERE id = $1", p.ID).Scan(&name); {
		case errors.Is(err, pgx.ErrNoRows):
			if _, err := tx.Exec(ctx, "INSERT INTO projects(id, name, token) VALUES ($1, $2, $3)", p.ID, p.Name, hex.EncodeToString(key[:])); err != nil {
				return err
			}
		case err != nil:
			return err
		case name != p.Name:
			if _, err := tx.Exec(ctx, "UPDATE projects SET name = $2, updated_at = now() WHERE id = $1", p.ID, p.Name); err != nil {
				return err
			}
		}
		if owner.ID == p.ID {
			return nil
		}
		_, err = tx.Exec(ctx, s.db.Own("INSERT INTO @tidemill_project_keys(hash, project_id) VALUES ($1, $2)"), key[:], p.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("ensure project %s: %w", p.ID, err)
	}
	return nil
}

// ByKey implements project.Projects.
func (s *Projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	return s.find(ctx, s.db.Own(byKey), key[:], hex.EncodeToString(key[:]))
}

// Find implements project.Projects.
func (s *Projects) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	return s.find(ctx, "SELECT id, name FROM projects WHERE id = $1", id)
}

func (s *Projects) find(ctx context.Context, query string, args ...any) (p project.Project, err error) {
	err = s.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		p, err = one(c.QueryRow(ctx, query, args...))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return project.Project{}, project.ErrUnknown
	}
	if err != nil {
		return project.Project{}, fmt.Errorf("find a project: %w", err)
	}
	return p, nil
}

func one(r pgx.Row) (p project.Project, err error) {
	err = r.Scan(&p.ID, &p.Name)
	return p, err
}

// List implements project.Projects.
func (s *Projects) List(ctx context.Context) (ps []project.Project, err error) {
	err = s.db.Query(ctx, func(r pgx.Rows) error {
		p, err := one(r)
		ps = append(ps, p)
		return err
	}, `SELECT id, name FROM projects ORDER BY name COLLATE "C", id`)
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	return ps, nil
}

// standIn begins the hash that takes the place of the first key of a project where all were revoked:
// a project has a token in this table, and a token that is no stored hash would be a key. Nobody has
// a key with it.
const standIn = 8

// ours finds the keys of a project that Ensure has stored.
const ours = "SELECT hash FROM @tidemill_project_keys WHERE project_id = $1 AND substr(hash, 1, $2) <> decode(repeat('00', $2), 'hex')"

// Keys implements project.Keys: those that Ensure has stored. The token of another program's row is not
// among them.
func (s *Projects) Keys(ctx context.Context, id uuid.UUID) (keys []project.Hash, err error) {
	err = s.db.Query(ctx, func(r pgx.Rows) error {
		var b []byte
		err := r.Scan(&b)
		keys = append(keys, project.Hash(b))
		return err
	}, s.db.Own(ours+" ORDER BY hash"), id, standIn)
	if err != nil {
		return nil, fmt.Errorf("list keys of project %s: %w", id, err)
	}
	return keys, nil
}

// Revoke implements project.Keys. Where the project's token is the key's hash, another of its keys, or
// one that nobody has, takes its place. The token of another program's row is that program's to take
// away: ErrUnknown.
func (s *Projects) Revoke(ctx context.Context, id uuid.UUID, key project.Hash) error {
	err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(ensureLock)); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, s.db.Own("DELETE FROM @tidemill_project_keys WHERE hash = $1 AND project_id = $2"), key[:], id)
		if err != nil {
			return err
		}
		if done.RowsAffected() == 0 {
			return project.ErrUnknown
		}
		return s.retoken(ctx, tx, id, key)
	})
	if err != nil {
		return fmt.Errorf("revoke a key of project %s: %w", id, err)
	}
	return nil
}

// retoken takes a key's hash out of the project's token.
func (s *Projects) retoken(ctx context.Context, tx pgx.Tx, id uuid.UUID, key project.Hash) error {
	var its bool
	if err := tx.QueryRow(ctx, "SELECT token = $2 FROM projects WHERE id = $1", id, hex.EncodeToString(key[:])).Scan(&its); err != nil || !its {
		return err
	}
	var next []byte
	err := tx.QueryRow(ctx, s.db.Own("SELECT hash FROM @tidemill_project_keys WHERE project_id = $1 ORDER BY hash DESC LIMIT 1"), id).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		next = make([]byte, len(key))
		_, _ = rand.Read(next[standIn:]) // it does not fail
		_, err = tx.Exec(ctx, s.db.Own("INSERT INTO @tidemill_project_keys(hash, project_id) VALUES ($1, $2)"), next, id)
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE projects SET token = $2, updated_at = now() WHERE id = $1", id, hex.EncodeToString(next))
	return err
}
