package sqlitewarehouse

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Override implements warehouse.Warehouse.
func (s *Store) Override(ctx context.Context, os []person.Override) error {
	if len(os) == 0 {
		return ctx.Err()
	}
	args := make([]any, 0, 4*len(os))
	for _, o := range os {
		args = append(args, o.Project[:], o.Distinct, o.Person[:], int64(o.Version))
	}
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Bulk("INSERT INTO warehouse_override(project,distinct_id,person,version) VALUES ", "(?,?,?,?)",
			" ON CONFLICT DO UPDATE SET person=excluded.person, version=excluded.version WHERE excluded.version > version", args)
		return err
	})
	if err != nil {
		return fmt.Errorf("override the person of %d distinct ids: %w", len(os), err)
	}
	return nil
}

// Warn implements warehouse.Warehouse.
func (s *Store) Warn(ctx context.Context, ws []warehouse.Warning) error {
	if len(ws) == 0 {
		return ctx.Err()
	}
	args := make([]any, 0, 6*len(ws))
	for _, w := range ws {
		args = append(args, w.Project[:], w.Type, w.Event, w.Distinct, w.Reason, w.At.UnixMilli())
	}
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Bulk("INSERT INTO warehouse_warning(project,type,event,distinct_id,reason,at) VALUES ", "(?,?,?,?,?,?)", "", args)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep %d warnings: %w", len(ws), err)
	}
	return nil
}

// Warnings implements warehouse.Reader.
func (s *Store) Warnings(ctx context.Context, f warehouse.WarningFilter) (ws []warehouse.Warning, err error) {
	from, err := f.Place()
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query(warningsQuery(f.Oldest), f.Project[:], from.At, from.Tie, f.Most())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			w := warehouse.Warning{Project: f.Project}
			var at warehouse.Place
			if err := rows.Scan(&w.Type, &w.Event, &w.Distinct, &w.Reason, &at.At, &at.Tie); err != nil {
				return err
			}
			w.At, w.Key = time.UnixMilli(at.At).UTC(), at.Key()
			ws = append(ws, w)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list warnings of project %s: %w", f.Project, err)
	}
	return ws, nil
}

func warningsQuery(oldest bool) string {
	after, direction := "<", " DESC"
	if oldest {
		after, direction = ">", ""
	}
	return "SELECT type, event, distinct_id, reason, at, id FROM warehouse_warning WHERE project = ? AND (at, id) " + after + " (?, ?) ORDER BY at" + direction + ", id" + direction + " LIMIT ?"
}

// expireRows is how many warnings one write removes: a few milliseconds of the writer.
const expireRows = 1000

// Expire implements warehouse.Expirer.
func (s *Store) Expire(ctx context.Context, before time.Time) (n int64, more bool, err error) {
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
		n, err = tx.Exec("DELETE FROM warehouse_warning WHERE id IN (SELECT id FROM warehouse_warning WHERE at < ? ORDER BY at LIMIT ?)", ceilMilli(before), expireRows)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("remove warnings from before %s: %w", before.Format(time.RFC3339), err)
	}
	return n, n == expireRows, nil
}

// BoundWarnings implements warehouse.WarningBounder.
func (s *Store) BoundWarnings(ctx context.Context, most int) (n int64, more bool, err error) {
	var over int64 // no more than one write removes
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM (SELECT 1 FROM warehouse_warning ORDER BY at DESC LIMIT ? OFFSET ?)", expireRows, most).Scan(&over)
	})
	if err == nil && over > 0 {
		err = s.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
			n, err = tx.Exec("DELETE FROM warehouse_warning WHERE id IN (SELECT id FROM warehouse_warning ORDER BY at LIMIT ?)", over)
			return err
		})
	}
	if err != nil {
		return 0, false, fmt.Errorf("remove warnings beyond %d: %w", most, err)
	}
	return n, n == expireRows, nil
}
