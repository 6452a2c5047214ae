package tabledeadletter

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
)

// changeMax is how many dead letters one transaction marks or discards: a few milliseconds, so
// that others hardly wait.
const changeMax = 1000

// change changes the dead letters of a snapshot, part by part, by a transaction that says how many
// it changed.
func (s *Store[Raw]) change(ctx context.Context, found []seen, do func(table.Tx[Record], []seen) (int, error)) (n int, err error) {
	for part := range slices.Chunk(found, changeMax) {
		changed := 0
		if err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) (err error) {
			changed, err = do(tx, part)
			return err
		}); err != nil {
			return n, err
		}
		n += changed
		s.bell.Ring() // what is marked may be handed out
	}
	return n, nil
}

// still are the dead letters of a part that are as they were seen. One that has died again is not
// the one that was seen.
func still(found map[string]*Record, part []seen) (rows []*Record) {
	for _, l := range part {
		if r := found[l.key]; r != nil && r.Seq == l.seq && r.Deaths == l.deaths && r.State == deadletter.Held {
			r.Pipeline = l.pipeline
			rows = append(rows, r)
		}
	}
	return rows
}

// Replay implements deadletter.Store: a snapshot, then part by part.
func (s *Store[Raw]) Replay(ctx context.Context, f deadletter.Filter) (n int, err error) {
	n, err = s.heldBy(ctx, f, s.replay, table.Cond{Field: "damaged", Op: "=", Value: false})
	if err != nil {
		return n, fmt.Errorf("replay dead letters, %d are marked: %w", n, err)
	}
	return n, nil
}

// Delete implements deadletter.Store, part by part like Replay.
func (s *Store[Raw]) Delete(ctx context.Context, f deadletter.Filter) (n int, err error) {
	if n, err = s.heldBy(ctx, f, s.discard); err != nil {
		return n, fmt.Errorf("discard dead letters, %d are gone: %w", n, err)
	}
	return n, nil
}

// heldBy calls do with a snapshot of the held dead letters that a filter chooses, and for which more
// holds.
func (s *Store[Raw]) heldBy(ctx context.Context, f deadletter.Filter, do func(context.Context, []seen) (int, error), more ...table.Cond) (int, error) {
	if f.State == deadletter.Replaying {
		return 0, ctx.Err()
	}
	f.State = deadletter.Held
	found, err := s.snapshot(ctx, f, more...)
	if err != nil {
		return 0, err
	}
	return do(ctx, found)
}

// replay marks the dead letters of a snapshot.
func (s *Store[Raw]) replay(ctx context.Context, found []seen) (n int, err error) {
	return s.change(ctx, found, func(tx table.Tx[Record], part []seen) (int, error) {
		found, _, err := read(tx, nil, keysOf(part), "state", "seq", "deaths", "asked")
		if err != nil {
			return 0, err
		}
		rows := still(found, part)
		for _, r := range rows {
			r.Replay()
			r.seal()
		}
		return len(rows), tx.Put(rows, "state", "asked", "handed", "burnt", "due", "until")
	})
}

// discard deletes the dead letters of a snapshot.
func (s *Store[Raw]) discard(ctx context.Context, found []seen) (n int, err error) {
	return s.change(ctx, found, func(tx table.Tx[Record], part []seen) (int, error) {
		pipelines := make([]string, len(part))
		for i, l := range part {
			pipelines[i] = l.pipeline
		}
		found, accounts, err := read(tx, pipelines, keysOf(part), "state", "seq", "deaths", "tenant", "apart", "grouped", "owned")
		if err != nil {
			return 0, err
		}
		rows := still(found, part)
		if len(rows) == 0 {
			return 0, nil
		}
		groups := newGrouping()
		for _, r := range rows {
			accounts[r.Pipeline].skipped++
			groups.leave(r)
		}
		if err := groups.write(tx, accounts); err != nil {
			return 0, err
		}
		if err := remove(tx, rows); err != nil {
			return 0, err
		}
		return len(rows), tx.Put(accounts.rows(), counts...)
	})
}

// Edit implements deadletter.Store: it reads and writes the dead letter in one transaction.
func (s *Store[Raw]) Edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) error {
	key := keyOf(n)
	return s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		found, _, err := read(tx, nil, []string{key})
		if err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		r := found[key]
		if r == nil {
			return deadletter.NotFound(n)
		}
		if err := whole(tx, r); err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		if changed, err := r.Edit(payload, seen, s.o.Now()); !changed {
			return err
		}
		r.message = encodeMessage(&r.Message, r.Row)
		return write(tx, []*Record{r})
	})
}
