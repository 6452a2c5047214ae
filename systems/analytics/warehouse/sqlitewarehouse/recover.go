package sqlitewarehouse

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// recover reads back the events that the index does not have yet. All but the last go into the
// table at once, so that memory holds no more than usual.
func (s *Store) recover(ctx context.Context) error {
	x := s.index
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT upto FROM warehouse_index").Scan(&x.newest)
	}); err != nil {
		return err
	}
	for {
		entries := make([]entry, 0, 1024)
		if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query("SELECT id, project, event_id FROM warehouse_event WHERE id > ? ORDER BY id LIMIT ?", x.newest, x.size)
			if err != nil {
				return err
			}
			defer rows.Close()
			var project, id []byte
			for rows.Next() {
				var e entry
				if err := rows.Scan(&e.id, &project, &id); err != nil {
					return err
				}
				e.hash = x.hash(uuidOf(project), uuidOf(id))
				entries = append(entries, e)
			}
			return rows.Err()
		}); err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		x.newest = entries[len(entries)-1].id
		if len(entries) < x.size {
			var twins []entry
			for _, e := range entries {
				if _, ok := x.young[e.hash]; ok {
					twins = append(twins, e)
				} else {
					x.young[e.hash] = e.id
					x.addKey(e.hash)
				}
			}
			return s.merge(ctx, twins, 0)
		}
		slices.SortFunc(entries, byHash)
		if err := s.merge(ctx, entries, x.newest); err != nil {
			return err
		}
	}
}

// mergeRows is how many entries one write of recover takes: about 10 ms of the writer.
const mergeRows = 5000

func (s *Store) merge(ctx context.Context, entries []entry, upto int64) error {
	for part := range slices.Chunk(entries, mergeRows) {
		if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return putKeys(tx, part) }); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return putUpto(tx, upto) })
}
