package sqlitesearch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Bound implements search.Store. Bytes are those of the documents: with its words the index needs more.
func (s *Store) Bound(ctx context.Context, most int64, young time.Time) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var all []search.Daily
	where := map[string]tableDay{} // by the names of the days
	for _, name := range s.names {
		t, err := s.table(name)
		if errors.Is(err, errSetup) {
			return "", nil // the next time
		} else if err != nil {
			return "", err
		}
		days, err := s.days(ctx, t)
		if err != nil {
			return "", fmt.Errorf("look how much the days of %s have: %w", name, err)
		}
		for day, d := range days {
			all, where[d.Name] = append(all, d), tableDay{t, day}
		}
	}
	old, err := search.Oldest(all, most, young)
	if old == nil {
		return "", err
	}
	at := where[old.Name]
	if err := s.removeDay(ctx, at.t, at.day); err != nil {
		return "", fmt.Errorf("remove %s to make room: %w", old.Name, err)
	}
	return old.Name, nil
}

// tableDay is a day of a table.
type tableDay struct {
	t   *table
	day string
}

// days are a family's days, by their names.
func (s *Store) days(ctx context.Context, t *table) (days map[string]search.Daily, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		days = map[string]search.Daily{}
		rows, err := tx.Query("SELECT day, made, bytes FROM search_day WHERE family = ?", t.schema.Name)
		if err != nil {
			return err
		}
		defer rows.Close()
		var uncounted []string
		for rows.Next() {
			var day string
			var made int64
			var bytes sql.NullInt64
			if err := rows.Scan(&day, &made, &bytes); err != nil {
				return err
			}
			if !bytes.Valid {
				uncounted = append(uncounted, day)
			}
			days[day] = search.Daily{Name: t.schema.Index(day), Made: time.UnixMilli(made), Bytes: bytes.Int64}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, day := range uncounted {
			d := days[day]
			if err := tx.QueryRow("SELECT coalesce(sum(octet_length(b.body)), 0) FROM "+t.name+"_doc d JOIN "+t.name+"_body b ON b.id = d.id WHERE d.day = ?", day).Scan(&d.Bytes); err != nil {
				return err
			}
			days[day] = d
		}
		return nil
	})
	return days, err
}
