// Package tabledeadletter keeps dead letters in any table: its rules are package deadletter's, its
// storage is package table's.
//
//	t, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
//	letters, err := tabledeadletter.New(ctx, t, tabledeadletter.Options{})
//
// A pipeline's books are a record of the same table, changed with its dead letters in one
// transaction. The name of a pipeline has at most table.MaxKey bytes.
package tabledeadletter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	deadletter.Options
	// Look is how often a source that waits looks whether another process has asked for a
	// replay. 0 means that this process has the table for itself: what the one before had
	// handed out for replay is handed out again at once.
	Look time.Duration
}

// Store is a deadletter.Store.
type Store[Raw any] struct {
	t    table.Store[Record, Raw]
	o    Options
	bell bell.Bell // rings when a dead letter may be handed out
}

// New makes a store of a table of Spec.
func New[Raw any](ctx context.Context, t table.Store[Record, Raw], o Options) (*Store[Raw], error) {
	var err error
	if o.Options, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	if o.Look < 0 {
		return nil, fmt.Errorf("dead letters: look %v; want zero (never) or more", o.Look)
	}
	s := &Store[Raw]{t: t, o: o}
	if o.Look > 0 {
		return s, nil
	}
	s.o.Look = bell.Idle
	if err := s.release(ctx); err != nil {
		return nil, fmt.Errorf("open the dead letters: %w", err)
	}
	return s, nil
}

// Memory makes a store in memory: for tests, simulation, and what may be lost at a restart.
func Memory(o deadletter.Options) (*Store[*memorytable.Tx], error) {
	return New(context.Background(), memorytable.Alone(Spec()), Options{Options: o})
}

// release ends the leases of all dead letters that are handed out: their holder is dead. A
// settlement that comes before they are handed out again still counts.
func (s *Store[Raw]) release(ctx context.Context) error {
	over := time.UnixMilli(1)
	out, err := s.snapshot(ctx, deadletter.Filter{State: deadletter.Replaying}, table.Cond{Field: "until", Op: ">", Value: over})
	if err != nil {
		return err
	}
	_, err = s.change(ctx, out, func(tx table.Tx[Record], part []seen) (int, error) {
		rows := make([]*Record, len(part))
		for i, l := range part {
			rows[i] = &Record{key: l.key}
			rows[i].Until = over
		}
		return len(rows), tx.Put(rows, "until")
	})
	return err
}

// among are the conditions on the dead letters of a pipeline in a state.
func among(pipeline string, state uint8) []table.Cond {
	return []table.Cond{{Field: "pipeline", Op: "=", Value: pipeline}, {Field: "state", Op: "=", Value: state}}
}

// pipelinesIn are the pipelines that have books, of those that are meant; nil: of all.
func pipelinesIn(tx table.Reader[Record], only func(string) bool) (names []string, err error) {
	err = table.Each(tx, table.Query[Record]{Most: pageMax, Only: []string{"pipeline"}, Where: beginning(ofBooks)}, func(r *Record) bool {
		if only == nil || only(r.Pipeline) {
			names = append(names, r.Pipeline)
		}
		return true
	})
	return names, err
}

// beginning are the conditions on the keys that are a part longer than this.
func beginning(with string) []table.Cond {
	return []table.Cond{{Field: "key", Op: ">=", Value: with}, {Field: "key", Op: "<=", Value: with + strings.Repeat("\xff", 33)}}
}

// pageMax is how many records are read at once, without their messages.
const pageMax = 1000
