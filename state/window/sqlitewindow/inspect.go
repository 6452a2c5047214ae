package sqlitewindow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// listPage is how many windows are read at once, each page a snapshot.
const listPage = 100

// info is a window as it is shown.
func (s *Store) info(e *entry.Entry) *window.Info {
	if e.State == window.Active {
		e.Due = e.Opened.Add(s.o.Window)
	}
	return &e.Info
}

// List implements window.Inspector.
func (s *Store) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	return func(yield func(*window.Info, error) bool) {
		n := 0
		for after, before := f.Between(); ; {
			var es []*entry.Entry
			err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
				es, err = page(tx, f, after, before)
				return err
			})
			if err != nil {
				yield(nil, fmt.Errorf("list windows: %w", err))
				return
			}
			for _, e := range es {
				if f.Back {
					before = e.Revision
				} else {
					after = e.Revision
				}
				if i := s.info(e); f.Matches(i) {
					if n++; !yield(i, nil) || n == f.Max {
						return
					}
				}
			}
			if len(es) < listPage {
				return
			}
		}
	}
}

// page reads windows between two revisions, of the filter's state if it has one.
func page(tx *sqlitedb.Tx, f window.Filter, after, before uint64) ([]*entry.Entry, error) {
	order := "ASC"
	if f.Back {
		order = "DESC"
	}
	before = min(before, math.MaxInt64)
	if f.State == "" {
		return list(tx, "WHERE w.revision>? AND w.revision<? ORDER BY w.revision "+order+" LIMIT ?", after, before, listPage)
	}
	return list(tx, "WHERE w.state=? AND w.revision>? AND w.revision<? ORDER BY w.revision "+order+" LIMIT ?", stateNo(f.State), after, before, listPage)
}

// Look implements window.Inspector.
func (s *Store) Look(ctx context.Context, id string) (i *window.Info, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		e, err := byID(tx, id)
		if err != nil {
			return err
		}
		if e == nil {
			return window.NotFound(id)
		}
		i = s.info(e)
		return nil
	})
	return i, err
}

// CloseNow implements window.Inspector.
func (s *Store) CloseNow(ctx context.Context, batch string) (ok bool, err error) {
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		ok = false
		e, err := scan(tx.QueryRow(entries+"WHERE w.batch=? AND w.state=0", []byte(batch)))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var c change
		lost, err := s.closeAll(tx, []*entry.Entry{e}, s.o.Now(), &c, func(*entry.Entry) window.Why { return window.ByHand })
		ok = lost == 0
		if err != nil {
			return err
		}
		return c.write(tx)
	})
	if err != nil {
		return false, fmt.Errorf("close the window of batch %q: %w", batch, err)
	}
	if ok {
		s.bell.Ring()
	}
	return ok, nil
}

// Replay implements window.Inspector: in steps, so that others do not wait long.
func (s *Store) Replay(ctx context.Context, f window.Filter) (total int, err error) {
	if f.State != "" && f.State != window.Parked {
		return 0, ctx.Err()
	}
	f.State = window.Parked
	for after, more := uint64(0), true; more; {
		n := 0
		err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			n = 0
			es, err := page(tx, f, after, math.MaxUint64)
			if err != nil {
				return err
			}
			var c change
			for _, e := range es {
				if f.Max > 0 && total+n == f.Max {
					break
				}
				after = e.Revision
				if !f.Matches(&e.Info) {
					continue
				}
				if err := replay(tx, e, &c); err != nil {
					return err
				}
				n++
			}
			more = len(es) == listPage && (f.Max == 0 || total+n < f.Max)
			return c.write(tx)
		})
		if err != nil {
			return total, fmt.Errorf("replay windows: %w", err)
		}
		if total += n; n > 0 {
			s.bell.Ring()
		}
	}
	return total, nil
}

// replay makes one parked window ready again, or deletes it if nothing is left of it.
func replay(tx *sqlitedb.Tx, e *entry.Entry, c *change) error {
	c.count(e, -1)
	line, err := places(tx, 1)
	if err != nil {
		return err
	}
	e.Replay(line)
	if e.Records <= 0 {
		return remove(tx, e)
	}
	c.accepted += e.Records
	c.count(e, 1)
	return write(tx, e)
}

// Stats implements window.Inspector: from what was counted at every change.
func (s *Store) Stats(ctx context.Context) (t window.Stats, err error) {
	t.Now = entry.Instant(s.o.Now())
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		a, r, l, p := &t.Active, &t.Ready, &t.Leased, &t.Parked
		if err := tx.QueryRow("SELECT lost, windows0, records0, windows1, records1, windows2, records2, windows3, records3 FROM window_books").Scan(&t.Lost,
			&a.Windows, &a.Records, &r.Windows, &r.Records, &l.Windows, &l.Records, &p.Windows, &p.Records); err != nil {
			return err
		}
		for _, state := range window.States() {
			var opened int64
			err := tx.QueryRow("SELECT opened FROM window_batch WHERE state=? ORDER BY revision LIMIT 1", stateNo(state)).Scan(&opened)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			t.Of(state).Oldest = wire.Instant(opened)
		}
		return nil
	})
	if err != nil {
		return window.Stats{}, fmt.Errorf("read the stats of windows: %w", err)
	}
	return t, nil
}
