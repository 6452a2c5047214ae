package sqlitequeue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
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
		mem := l.lock()
		was, version := mem.settings, mem.version
		l.unlock()
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
	mem := l.lock()
	other, order := mem.version != version, to.Ordered != mem.settings.Ordered
	e := mem.ends(s.o.Now())
	l.unlock()
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
				return rules.NotEmpty(l.name)
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
	mem = l.lock()
	mem.log.keeps(e)
	rekey := rules.Keyed(to) && !mem.waiting.apart.keyed
	l.obeys(mem, to)
	l.wake.signal()
	l.unlock()
	if rekey {
		return true, l.rekey(ctx, s)
	}
	return true, nil
}

// rekey lets handed-out jobs come back to their keys, which are kept apart from now on. Its
// caller has the turns "handing" and "ending".
func (l *line) rekey(ctx context.Context, s *Store) error {
	var outs []item
	mem := l.lock()
	for _, o := range mem.leases.outs { // in any order: each on its own
		if o.strand.key == "" {
			outs = append(outs, o.item)
		}
	}
	l.unlock()
	if err := l.load(ctx, s, outs); err != nil {
		return err
	}
	mem = l.lock()
	defer l.unlock()
	for i := range outs {
		it := &outs[i]
		h, _ := readHead(it.rec)
		if o := mem.leases.outs[it.n]; o != nil {
			o.strand = mem.waiting.apart.withKey(o.strand, []byte(h.key))
		} else if w := mem.waiting.backs[it.n]; w != nil { // it came back meanwhile
			again := *w
			mem.waiting.unwait(w)
			again.strand = mem.waiting.apart.withKey(again.strand, []byte(h.key))
			mem.waiting.push(again)
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
		mem := l.lock()
		to, version := mem.settings.Clone(), mem.version
		l.unlock()
		if to.Ordered {
			return nil
		}
		if l.held.Load() > 0 {
			return rules.NotEmpty(l.name)
		}
		to.Ordered = true
		if _, err := l.setInTurn(ctx, s.store, &to, version); err != nil {
			return err
		}
	}
	return nil
}
