package sqlitedeadletter

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// changeRows is how many dead letters one transaction marks or discards: a few
// milliseconds, so that other writers hardly wait.
const changeRows = 1000

// Replay implements deadletter.Store: a snapshot, then part by part. A dead letter that has
// died again since the snapshot is not the one that was seen.
func (s *Store) Replay(ctx context.Context, f deadletter.Filter) (n int, err error) {
	found, err := s.snapshot(ctx, f, " AND state=0 AND damaged=0")
	if err != nil {
		return 0, fmt.Errorf("replay dead letters: %w", err)
	}
	return s.replay(ctx, found)
}

// replay marks the dead letters of a snapshot.
func (s *Store) replay(ctx context.Context, found []seen) (n int, err error) {
	for part := range slices.Chunk(found, changeRows) {
		k, err := s.change(ctx, part, "UPDATE deadletter SET state=1, asked=asked+1, handed=0, burnt=0, due=0, until=0 FROM (VALUES ",
			") AS v WHERE seq=v.column1 AND deaths=v.column2 AND state=0 AND damaged=0", 0)
		n += k
		if k > 0 {
			s.bell.Ring()
		}
		if err != nil {
			return n, fmt.Errorf("replay dead letters, %d are marked: %w", n, err)
		}
	}
	return n, nil
}

// Delete implements deadletter.Store, part by part like Replay.
func (s *Store) Delete(ctx context.Context, f deadletter.Filter) (n int, err error) {
	found, err := s.snapshot(ctx, f, " AND state=0")
	if err != nil {
		return 0, fmt.Errorf("discard dead letters: %w", err)
	}
	return s.discard(ctx, found)
}

// discard deletes the dead letters of a snapshot.
func (s *Store) discard(ctx context.Context, found []seen) (n int, err error) {
	slices.SortStableFunc(found, func(a, b seen) int { // a transaction for each pipeline's books
		return strings.Compare(a.pipeline, b.pipeline)
	})
	for len(found) > 0 {
		k := 1
		for k < min(len(found), changeRows) && found[k].pipeline == found[0].pipeline {
			k++
		}
		gone, err := s.change(ctx, found[:k], "DELETE FROM deadletter WHERE state=0 AND seq IN (SELECT d.seq FROM (VALUES ",
			") AS v JOIN deadletter d ON d.seq=v.column1 AND d.deaths=v.column2)", 1)
		n += gone
		if err != nil {
			return n, fmt.Errorf("discard dead letters, %d are gone: %w", n, err)
		}
		found = found[k:]
	}
	return n, nil
}

// change runs a statement over dead letters of a snapshot, and says how many it changed. If
// it discards them, they are of one pipeline, and it updates its books.
func (s *Store) change(ctx context.Context, part []seen, head, tail string, discarded int64) (int, error) {
	args := make([]any, 0, 2*len(part))
	for _, l := range part {
		args = append(args, l.seq, l.deaths)
	}
	var n int64
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
		if n, err = tx.Bulk(head, "(?,?)", tail, args); err != nil {
			return err
		}
		return books{skipped: discarded * n}.add(tx, part[0].pipeline)
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// Edit implements deadletter.Store: it reads and writes the dead letter in one transaction.
func (s *Store) Edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) error {
	return s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		var r *deadletter.Record
		err := each(tx, whole+"WHERE d.pipeline=? AND d.id=? AND d.tenant=?", []any{[]byte(n.Pipeline), []byte(n.ID), []byte(n.Tenant)}, func(rows *sql.Rows) (err error) {
			r, err = scan(rows, true)
			return err
		})
		if err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		if r == nil {
			return deadletter.NotFound(n)
		}
		if changed, err := r.Edit(payload, seen, s.o.Now()); !changed {
			return err
		}
		message := encodeMessage(&r.Message)
		if err := writeBodies(tx, []any{r.Seq, message, r.Payload, r.Row, r.Original, rules.SumOf(&r.Letter, message)}); err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		if _, err := tx.Exec("UPDATE deadletter SET edited=? WHERE seq=?", wire.Millis(r.Edited), r.Seq); err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		return nil
	})
}
