package sqliteledger

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
)

// End implements ledger.Ledger: one lookup and one statement for many entries.
func (l *Ledger) End(ctx context.Context, es []*ledger.Entry) error {
	if err := cmp.Or(ctx.Err(), ledger.CheckEnd(es)); err != nil || len(es) == 0 {
		return err
	}
	ended := copies(es)
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := l.lookupState(tx, es)
		if err != nil {
			return err
		}
		return l.end(tx, ended, found)
	})
	if err != nil {
		return fmt.Errorf("end %d ledger entries: %w", len(es), err)
	}
	for i, e := range es {
		e.Stale, e.Ended = ended[i].Stale, ended[i].Ended
	}
	return nil
}

// copies returns copies to work on until the entries are known to be written.
func copies(es []*ledger.Entry) []ledger.Entry {
	cs := make([]ledger.Entry, len(es))
	for i, e := range es {
		cs[i] = *e
	}
	return cs
}

// end ends entries by their stored records, and writes what changed.
func (l *Ledger) end(tx *sqlitedb.Tx, ended []ledger.Entry, found map[string]*stored) error {
	now := ledger.Instant(l.now())
	changed := make([]*stored, 0, len(ended))
	for i := range ended {
		r := found[ended[i].Key]
		if r == nil {
			r = new(stored)
		}
		if r.End(&ended[i], now) {
			changed = append(changed, r) // twice, if it changed twice: each row is written in its last state
		}
	}
	args := make([]any, 0, 6*len(changed))
	var dropped []any
	for _, r := range changed {
		if r.State == ledger.Dropped {
			dropped = append(dropped, r.id)
		} else {
			args = append(args, r.id, r.Token, uint8(r.State), r.Result, []byte(r.Err), r.Ended.UnixMilli())
		}
	}
	if _, err := tx.Bulk(l.sql.end, "(?,?,?,?,?,?)", ") AS v WHERE id=v.column1 AND token=v.column2", args); err != nil {
		return fmt.Errorf("write ends: %w", err)
	}
	if _, err := tx.Bulk(l.sql.drop, "?", ")", dropped); err != nil {
		return fmt.Errorf("drop entries: %w", err)
	}
	return nil
}

// Within implements ledger.Transactor. The whole file has one writer: do must be short,
// wait for nothing, and keep nothing in memory before Within has returned nil. It is called
// at most once.
func (l *Ledger) Within(ctx context.Context, es []*ledger.Entry, do func(context.Context, *sqlitedb.Tx) error) error {
	ended := copies(es)
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := l.lookupState(tx, es)
		if err != nil {
			return err
		}
		records := make([]*ledger.Record, len(es))
		for i, e := range es {
			if r := found[e.Key]; r != nil {
				records[i] = &r.Record
			}
		}
		switch before, err := ledger.Admit(ended, records); {
		case err != nil || before:
			return err
		}
		if err := do(ctx, tx); err != nil {
			return err
		}
		if err := ledger.CheckEnd(es); err != nil {
			return err
		}
		ended = copies(es) // do has said how they end
		return l.end(tx, ended, found)
	})
	for i, e := range es {
		e.Stale, e.Ended = ended[i].Stale, ended[i].Ended
	}
	if err != nil {
		return fmt.Errorf("end %d ledger entries with their effects: %w", len(es), err)
	}
	return nil
}
