package postgresperson

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/state/person"
)

// Overrides is person.Outbox.
func (s *Store) Overrides(ctx context.Context, most int) (all []person.Override, err error) {
	err = s.db.Query(ctx, func(r pgx.Rows) error {
		var o person.Override
		var distinct []byte
		var version int64
		err := r.Scan(&o.Seq, &o.Project, &distinct, &o.Person, &version)
		o.Distinct, o.Version = string(distinct), uint64(version)
		all = append(all, o)
		return err
	}, s.db.Own("SELECT seq, project_id, distinct_id, person_id, version FROM @tidemill_person_overrides ORDER BY seq LIMIT $1"), max(most, 0))
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	return all, nil
}

// Relayed is person.Outbox.
func (s *Store) Relayed(ctx context.Context, seq int64) error {
	if _, err := s.db.Exec(ctx, s.db.Own("DELETE FROM @tidemill_person_overrides WHERE seq <= $1"), seq); err != nil {
		return fmt.Errorf("remove relayed overrides: %w", err)
	}
	return nil
}

// Keep is person.Kept. Callers of Keep wait for each other, so that the list never exceeds
// its limit.
func (s *Store) Keep(ctx context.Context, merges []person.Merge) error {
	var claims, distinct, others [][]byte
	var projects, events []uuid.UUID
	var force []bool
	var at []int64
	for i := range merges {
		m := &merges[i]
		claims, distinct, others = append(claims, claim(m)), append(distinct, []byte(m.Distinct)), append(others, []byte(m.Other))
		projects, events = append(projects, m.Project), append(events, m.Event)
		force, at = append(force, m.Force), append(at, m.At.UnixMilli())
	}
	err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.db.Own("LOCK TABLE @tidemill_kept_merges IN SHARE ROW EXCLUSIVE MODE")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.db.Own(`INSERT INTO @tidemill_kept_merges(claim, project_id, distinct_id, other, event, force, at_milli)
			SELECT k.* FROM unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bytea[], $5::uuid[], $6::bool[], $7::bigint[]) k
			ON CONFLICT DO NOTHING`), claims, projects, distinct, others, events, force, at); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, s.db.Own("SELECT count(*) FROM @tidemill_kept_merges")).Scan(&n); err != nil {
			return err
		}
		if n > person.MaxKept {
			return person.ErrKeptFull // undoes the rows added above
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep %d failed merges: %w", len(merges), err)
	}
	return nil
}

// Oldest is person.Kept.
func (s *Store) Oldest(ctx context.Context, most int) (all []person.Merge, err error) {
	err = s.db.Query(ctx, func(r pgx.Rows) error {
		var m person.Merge
		var distinct, other []byte
		var at int64
		err := r.Scan(&m.Project, &distinct, &other, &m.Event, &m.Force, &at)
		m.Distinct, m.Other, m.At = string(distinct), string(other), time.UnixMilli(at).UTC()
		all = append(all, m)
		return err
	}, s.db.Own("SELECT project_id, distinct_id, other, event, force, at_milli FROM @tidemill_kept_merges ORDER BY seq LIMIT $1"), max(most, 0))
	if err != nil {
		return nil, fmt.Errorf("read failed merges: %w", err)
	}
	return all, nil
}

// Done is person.Kept.
func (s *Store) Done(ctx context.Context, merges []person.Merge) error {
	claims := make([][]byte, len(merges))
	for i := range merges {
		claims[i] = claim(&merges[i])
	}
	if _, err := s.db.Exec(ctx, s.db.Own("DELETE FROM @tidemill_kept_merges WHERE claim = ANY($1)"), claims); err != nil {
		return fmt.Errorf("remove %d failed merges: %w", len(merges), err)
	}
	return nil
}

// claim is a hash of the fields that make two kept merges one (person.Merge.Claims).
func claim(m *person.Merge) []byte {
	b := append(append([]byte(nil), m.Project[:]...), m.Event[:]...)
	b = append(b, 0)
	if m.Force {
		b[len(b)-1] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(m.Distinct)))
	b = append(append(b, m.Distinct...), m.Other...)
	h := sha256.Sum256(b)
	return h[:]
}
