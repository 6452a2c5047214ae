package sqlitewindow

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// sweepMost is how many windows one sweep closes. Settled records are deleted in steps, so
// that others do not wait long: clearRows records in a step, clearSteps in a sweep.
const (
	sweepMost  = 1000
	clearRows  = 4000
	clearSteps = 100
)

const (
	fullSQL  = "INDEXED BY window_full WHERE w.state=0 AND w.expect>0 AND w.records>=w.expect ORDER BY w.revision LIMIT ?"
	overSQL  = "INDEXED BY window_opened WHERE w.state=0 AND w.opened<=? ORDER BY w.opened, w.revision LIMIT ?"
	firstSQL = "SELECT min(opened) FROM window_batch INDEXED BY window_opened WHERE state=0"
	clearSQL = "DELETE FROM window_record WHERE revision=? AND key<(SELECT key FROM window_record WHERE revision=? ORDER BY key LIMIT 1 OFFSET ?)"
)

// Sweep implements window.Store.
func (s *Store) Sweep(ctx context.Context) (done window.Swept, err error) {
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		done = window.Swept{}
		return s.close(tx, &done)
	})
	if err != nil {
		return window.Swept{}, fmt.Errorf("sweep windows: %w", err)
	}
	if done.Closed > 0 {
		s.bell.Ring()
	}
	for range clearSteps {
		if more, err := s.clear(ctx); err != nil || !more {
			return done, err
		}
	}
	return done, nil
}

// close closes windows that are over.
func (s *Store) close(tx *sqlitedb.Tx, done *window.Swept) error {
	now := s.o.Now()
	over, err := list(tx, fullSQL, sweepMost)
	if err != nil {
		return err
	}
	if left := sweepMost - len(over); left > 0 {
		timed, err := list(tx, overSQL, now.Add(-s.o.Window).UnixMilli(), left)
		if err != nil {
			return err
		}
		full := map[uint64]bool{}
		for _, e := range over {
			full[e.Revision] = true
		}
		over = append(over, slices.DeleteFunc(timed, func(e *entry.Entry) bool { return full[e.Revision] })...)
	}
	slices.SortFunc(over, func(a, b *entry.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	var c change
	lost, err := s.closeAll(tx, over, now, &c, func(e *entry.Entry) window.Why { why, _ := e.Over(now, s.o.Window); return why })
	if err != nil {
		return err
	}
	done.Closed, done.Lost, done.Next = len(over)-lost, int(c.lost), -1
	if len(over) < sweepMost {
		var first sql.NullInt64
		if err := tx.QueryRow(firstSQL).Scan(&first); err != nil {
			return err
		}
		if first.Valid {
			done.Next = max(time.UnixMilli(first.Int64).Add(s.o.Window).Sub(now), time.Millisecond)
		}
	} else {
		done.Next = 0
	}
	return c.write(tx)
}

// closeAll freezes active windows, and says how many had no records.
func (s *Store) closeAll(tx *sqlitedb.Tx, es []*entry.Entry, now time.Time, c *change, why func(*entry.Entry) window.Why) (lost int, err error) {
	if len(es) == 0 {
		return 0, nil
	}
	line, err := places(tx, len(es))
	if err != nil {
		return 0, err
	}
	for i, e := range es {
		var there bool
		if err := tx.QueryRow("SELECT EXISTS(SELECT 1 FROM window_record WHERE revision=?)", e.Revision).Scan(&there); err != nil {
			return 0, err
		}
		if !there {
			if err := c.gone(tx, e); err != nil {
				return 0, err
			}
			lost++
			continue
		}
		c.count(e, -1)
		e.Close(now, why(e), line+uint64(i))
		c.count(e, 1)
		if err := write(tx, e); err != nil {
			return 0, err
		}
	}
	return lost, nil
}

// clear deletes some settled records, and says whether more may be left.
func (s *Store) clear(ctx context.Context) (more bool, err error) {
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT EXISTS(SELECT 1 FROM window_trash)").Scan(&more)
	}); err != nil || !more {
		return false, err
	}
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		var revision uint64
		if err := tx.QueryRow("SELECT revision FROM window_trash ORDER BY revision LIMIT 1").Scan(&revision); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		n, err := tx.Exec(clearSQL, revision, revision, clearRows)
		if err != nil || n > 0 {
			return err
		}
		if _, err := tx.Exec("DELETE FROM window_record WHERE revision=?", revision); err != nil { // the rest of it
			return err
		}
		_, err = tx.Exec("DELETE FROM window_trash WHERE revision=?", revision)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("clear settled windows away: %w", err)
	}
	return more, nil
}
