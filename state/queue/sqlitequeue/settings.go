package sqlitequeue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Settings implements queue.Tuner.
func (s *Store) Settings(ctx context.Context, name string) (queue.Settings, error) {
	l := s.find(name)
	if l == nil {
		return queue.Settings{}, ctx.Err()
	}
	return l.is.Load().Clone(), ctx.Err()
}

// Set implements queue.Tuner.
func (s *Store) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	l, err := s.line(ctx, name)
	if err != nil {
		return queue.Settings{}, err
	}
	for {
		l.mu.Lock()
		was, version := l.settings, l.version
		l.mu.Unlock()
		to := was.Clone()
		change(&to) // an outside call: without any turn
		if err := to.Check(); err != nil {
			return was.Clone(), err
		}
		kept := to.Clone() // the caller may change its own
		done, err := l.set(ctx, s, &kept, version)
		if err != nil {
			return was.Clone(), fmt.Errorf("set queue %q: %w", name, err)
		}
		if done {
			return to, nil
		}
	}
}

// set replaces the settings of the queue, unless they were set since that version; -1: in
// any case.
func (l *line) set(ctx context.Context, s *Store, to *queue.Settings, version int) (done bool, err error) {
	if err := l.handing.Acquire(ctx, 1); err != nil { // nobody takes a turn under the old ones meanwhile
		return false, err
	}
	defer l.handing.Release(1)
	return l.setInTurn(ctx, s, to, version)
}

// setInTurn is set for the holder of the turn "handing".
func (l *line) setInTurn(ctx context.Context, s *Store, to *queue.Settings, version int) (done bool, err error) {
	if err := l.ending.Acquire(ctx, 1); err != nil { // ended jobs are kept under the old ones
		return false, err
	}
	defer l.ending.Release(1)
	text, err := json.Marshal(to)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	other, order := l.version != version, to.Ordered != l.settings.Ordered
	e := l.ends(s.o.Now())
	l.mu.Unlock()
	if other {
		return false, nil
	}
	e.settings = to
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if order {
			var pending int64
			if err := tx.QueryRow(pendingSQL, l.pendingArgs()...).Scan(&pending); err != nil {
				return err
			}
			if pending > 0 {
				return queue.NotEmpty(l.name)
			}
		}
		if _, err := tx.Exec("UPDATE queue SET settings=?, ordered=? WHERE no=?", text, to.Ordered, l.no); err != nil {
			return err
		}
		return e.apply(tx, l)
	})
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	e.happened(l)
	rekey := to.Keyed() && !l.apart.keyed
	l.obeys(to)
	l.signal()
	l.mu.Unlock()
	if rekey {
		return true, l.rekey(ctx, s)
	}
	return true, nil
}

// rekey lets handed-out jobs come back to their keys, which are kept apart from now on. Its
// caller has the turns "handing" and "ending".
func (l *line) rekey(ctx context.Context, s *Store) error {
	var outs []item
	l.mu.Lock()
	for _, o := range l.outs { // in any order: each on its own
		if o.strand.key == "" {
			outs = append(outs, o.item)
		}
	}
	l.mu.Unlock()
	if err := l.load(ctx, s, outs); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range outs {
		it := &outs[i]
		h, _ := readHead(it.rec)
		if o := l.outs[it.n]; o != nil {
			o.strand = l.keyed(o.strand, []byte(h.key))
		} else if w := l.backs[it.n]; w != nil { // it came back meanwhile
			again := *w
			l.unwait(w)
			again.strand = l.keyed(again.strand, []byte(h.key))
			l.push(again)
		}
	}
	return nil
}

// readSettings reads stored settings; nil: none were set.
func readSettings(text []byte) (*queue.Settings, error) {
	if len(text) == 0 {
		return nil, nil
	}
	to := new(queue.Settings)
	if err := json.Unmarshal(text, to); err != nil {
		return nil, err
	}
	return to, nil
}

// order makes the order of the queue strict for a source that needs it; the queue has to be
// empty. Its caller has the turn "handing".
func (s *source) order(ctx context.Context, l *line) error {
	for s.ordered {
		l.mu.Lock()
		to, version := l.settings.Clone(), l.version
		l.mu.Unlock()
		if to.Ordered {
			return nil
		}
		if l.held.Load() > 0 {
			return queue.NotEmpty(l.name)
		}
		to.Ordered = true
		if _, err := l.setInTurn(ctx, s.store, &to, version); err != nil {
			return err
		}
	}
	return nil
}
