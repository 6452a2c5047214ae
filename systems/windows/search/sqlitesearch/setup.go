package sqlitesearch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Setup implements search.Store. If the tables were made for other fields, it moves documents
// to new ones, a few at a time. The next start continues a move that was interrupted.
func (s *Store) Setup(ctx context.Context) error {
	select {
	case s.setting <- struct{}{}:
		defer func() { <-s.setting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.db.Migrate(ctx, "search", migrations); err != nil {
		return fmt.Errorf("set up the search index: %w", err)
	}
	for _, name := range s.names {
		if err := s.setup(ctx, s.schemas[name]); err != nil {
			return fmt.Errorf("set up the search index of %s: %w", name, err)
		}
	}
	return nil
}

func (s *Store) setup(ctx context.Context, schema *search.Schema) error {
	var generation, old int64
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		var made string
		err := tx.QueryRow("SELECT fields, generation, old FROM search_family WHERE name = ?", schema.Name).Scan(&made, &generation, &old)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if made == fields(schema) {
			return nil
		}
		if old != 0 {
			return fmt.Errorf("its documents are still moving to an earlier form; start once more with the version before")
		}
		old = generation
		generation++
		for _, statement := range tableOf(schema, generation).create() {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		_, err = tx.Exec("INSERT INTO search_family(name, fields, generation, old) VALUES(?,?,?,?) ON CONFLICT(name) DO UPDATE SET fields=excluded.fields, generation=excluded.generation, old=excluded.old",
			schema.Name, fields(schema), generation, old)
		return err
	})
	if err != nil {
		return err
	}
	t := tableOf(schema, generation)
	if old != 0 {
		if err := s.move(ctx, tableOf(schema, old), t); err != nil {
			return fmt.Errorf("move its documents to new tables: %w", err)
		}
	}
	s.ready(t)
	return nil
}

// move moves the documents of old tables to new ones. A document that no longer fits its fields
// is kept without values: only a query for all finds it.
func (s *Store) move(ctx context.Context, from, to *table) error {
	read := "SELECT d.id, d.day, d.key, d.version, b.body FROM " + from.name + "_doc d JOIN " + from.name + "_body b ON b.id = d.id ORDER BY d.id LIMIT ?"
	for {
		var rows []row
		var ids []int64
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			found, err := tx.Query(read, chunk)
			if err != nil {
				return err
			}
			defer found.Close()
			for found.Next() {
				var id int64
				d := search.Doc{Schema: to.schema.Name}
				if err := found.Scan(&id, &d.Day, &d.ID, &d.Version, &d.Body); err != nil {
					return err
				}
				r, err := to.prepare(&d)
				if tidemill.KindOf(err) == tidemill.Validation && err != nil {
					r, err = to.of(&d, make([]search.Value, len(to.schema.Fields))), nil
				}
				if err != nil {
					return err
				}
				rows, ids = append(rows, r), append(ids, id)
			}
			return found.Err()
		})
		if err != nil {
			return err
		}
		err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			grown, err := to.put(tx, rows)
			if err != nil {
				return err
			}
			for i, id := range ids {
				if err := from.remove(tx, id, false); err != nil {
					return err
				}
				grown[rows[i].at.Day] -= int64(len(rows[i].body))
			}
			if err := to.grow(tx, grown); err != nil {
				return err
			}
			if len(ids) > 0 {
				return nil
			}
			for _, statement := range from.drop() {
				if _, err := tx.Exec(statement); err != nil {
					return err
				}
			}
			_, err = tx.Exec("UPDATE search_family SET old = 0 WHERE name = ?", to.schema.Name)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
	}
}
