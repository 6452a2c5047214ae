package sqlitewarehouse

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// idTables are those of the set that tells which events are stored, and in which row each is.
const idTables = "warehouse_id"

// hasher makes ids of events.
type hasher func(project, id uuid.UUID) idset.ID

// seeded hashes with a file's own seed, so that nobody can make two events of one id.
func seeded(seed uint64) hasher {
	return func(project, id uuid.UUID) idset.ID {
		var b [40]byte
		binary.LittleEndian.PutUint64(b[:], seed)
		copy(b[8:], project[:])
		copy(b[24:], id[:])
		sum := sha256.Sum256(b[:])
		return idset.ID{Hash: binary.LittleEndian.Uint64(sum[:]), Check: binary.LittleEndian.Uint64(sum[8:])}
	}
}

// SweepEvery is how often to call Sweep.
const SweepEvery = idset.SweepEvery

// Sweep does the housekeeping that no caller should wait for. Call it every SweepEvery; without it
// inserting becomes slower with every 128 Ki events, and listing too.
func (s *Store) Sweep(ctx context.Context) error {
	return errors.Join(s.ids.Sweep(ctx, idset.Forget{}), s.index.Sweep(ctx))
}

// fill takes the events into the set that were stored before there was one, from the newest on.
func (s *Store) fill(ctx context.Context) error {
	for {
		var entries []idset.Entry
		if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query("SELECT id, project, event_id FROM warehouse_event WHERE id <= (SELECT unread FROM warehouse_index) ORDER BY id DESC LIMIT ?", fillRows)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var row int64
				var project, id []byte
				if err := rows.Scan(&row, &project, &id); err != nil {
					return err
				}
				entries = append(entries, idset.Entry{ID: s.idOf(uuidOf(project), uuidOf(id)), Pos: row})
			}
			return rows.Err()
		}); err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		unread := entries[len(entries)-1].Pos - 1
		if err := s.ids.Add(ctx, entries, func(tx *sqlitedb.Tx) error {
			_, err := tx.Exec("UPDATE warehouse_index SET unread=?", unread)
			return err
		}); err != nil {
			return fmt.Errorf("take in the ids of %d events: %w", len(entries), err)
		}
	}
}

const fillRows = 128 << 10
