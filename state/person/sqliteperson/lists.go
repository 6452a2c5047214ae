package sqliteperson

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
)

// Overrides is person.Outbox.
func (s *Store) Overrides(ctx context.Context, most int) (all []person.Override, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT seq, project, distinct_id, person, version FROM person_override ORDER BY seq LIMIT ?", max(most, 0))
		if err != nil {
			return err
		}
		defer rows.Close()
		var project, id sql.RawBytes
		for rows.Next() {
			var o person.Override
			var version int64
			if err := rows.Scan(&o.Seq, &project, &o.Distinct, &id, &version); err != nil {
				return err
			}
			copy(o.Project[:], project)
			copy(o.Person[:], id)
			o.Version = uint64(version)
			all = append(all, o)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	return all, nil
}

// Relayed is person.Outbox.
func (s *Store) Relayed(ctx context.Context, seq int64) error {
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("DELETE FROM person_override WHERE seq<=?", seq)
		return err
	}); err != nil {
		return fmt.Errorf("remove relayed overrides: %w", err)
	}
	return nil
}

// Keep is person.Kept.
func (s *Store) Keep(ctx context.Context, merges []person.Merge) error {
	args := make([]any, 0, 6*len(merges))
	for i := range merges {
		m := &merges[i]
		args = append(args, m.Project[:], key(m.Distinct), key(m.Other), m.Event[:], m.Force, m.At.UnixMilli())
	}
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Bulk("INSERT INTO person_kept_merge(project,distinct_id,other,event,force,at) VALUES ", "(?,?,?,?,?,?)", " ON CONFLICT DO NOTHING", args); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM person_kept_merge").Scan(&n); err != nil {
			return err
		}
		if n > person.MaxKept {
			return person.ErrKeptFull // undoes the rows added above
		}
		return nil
	}); err != nil {
		return fmt.Errorf("keep %d failed merges: %w", len(merges), err)
	}
	return nil
}

// Oldest is person.Kept.
func (s *Store) Oldest(ctx context.Context, most int) (all []person.Merge, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT project, distinct_id, other, event, force, at FROM person_kept_merge ORDER BY seq LIMIT ?", max(most, 0))
		if err != nil {
			return err
		}
		defer rows.Close()
		var project, event sql.RawBytes
		for rows.Next() {
			var m person.Merge
			var at int64
			if err := rows.Scan(&project, &m.Distinct, &m.Other, &event, &m.Force, &at); err != nil {
				return err
			}
			copy(m.Project[:], project)
			copy(m.Event[:], event)
			m.At = time.UnixMilli(at).UTC()
			all = append(all, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read failed merges: %w", err)
	}
	return all, nil
}

// Done is person.Kept.
func (s *Store) Done(ctx context.Context, merges []person.Merge) error {
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		for i := range merges {
			m := &merges[i]
			if _, err := tx.Exec("DELETE FROM person_kept_merge WHERE project=? AND distinct_id=? AND other=? AND event=? AND force=?",
				m.Project[:], key(m.Distinct), key(m.Other), m.Event[:], m.Force); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("remove %d failed merges: %w", len(merges), err)
	}
	return nil
}
