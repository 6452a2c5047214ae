package sqlitesearch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// expireDocs is how many documents one write of Expire removes.
const expireDocs = 200

// Expire implements search.Store.
func (s *Store) Expire(ctx context.Context, now time.Time) (gone []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, name := range s.names {
		schema := s.schemas[name]
		t, err := s.table(name)
		if errors.Is(err, errSetup) {
			return gone, nil // the next time
		} else if err != nil {
			return gone, err
		}
		if schema.Keep == 0 {
			continue
		}
		days, err := s.old(ctx, schema, now.Add(-schema.Keep))
		if err != nil {
			return gone, fmt.Errorf("look for old days of %s: %w", name, err)
		}
		for _, day := range days {
			if err := s.removeDay(ctx, t, day); err != nil {
				return gone, fmt.Errorf("remove the old day %s of %s: %w", day, name, err)
			}
			gone = append(gone, schema.Index(day))
		}
	}
	return gone, nil
}

// old are a family's days that were made at or before a time.
func (s *Store) old(ctx context.Context, schema *search.Schema, then time.Time) (days []string, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		days = nil
		rows, err := tx.Query("SELECT day FROM search_day WHERE family = ? AND made <= ? ORDER BY day", schema.Name, then.UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var day string
			if err := rows.Scan(&day); err != nil {
				return err
			}
			days = append(days, day)
		}
		return rows.Err()
	})
	return days, err
}

// removeDay removes a day a few documents at a time, so that other writers get their turn.
func (s *Store) removeDay(ctx context.Context, t *table, day string) error {
	list := "SELECT id FROM " + t.name + "_doc WHERE day = ? ORDER BY key LIMIT ?"
	for {
		var left int
		err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query(list, day, expireDocs)
			if err != nil {
				return err
			}
			var ids []int64
			for rows.Next() {
				var id int64
				if err := rows.Scan(&id); err != nil {
					_ = rows.Close()
					return err
				}
				ids = append(ids, id)
			}
			if err := rows.Err(); err != nil {
				return err
			}
			if left = len(ids); left == 0 {
				_, err := tx.Exec("DELETE FROM search_day WHERE family = ? AND day = ?", t.schema.Name, day)
				return err
			}
			for _, id := range ids {
				if err := t.remove(tx, id, true); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || left == 0 {
			return err
		}
	}
}
