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
	q := s.find(name)
	if q == nil {
		return queue.Settings{}, ctx.Err()
	}
	return q.is.Load().Clone(), ctx.Err()
}

// Set implements queue.Tuner.
func (s *Store) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	q, err := s.state(ctx, name)
	if err != nil {
		return queue.Settings{}, err
	}
	for {
		mem := q.lock()
		was, version := mem.settings, mem.version
		q.unlock()
		to := was.Clone()
		change(&to) // an outside call: without any turn
		if err := to.Check(); err != nil {
			return was.Clone(), err
		}
		kept := to.Clone() // the caller may change its own
		done, err := q.set(ctx, s, &kept, version)
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
func (q *queueState) set(ctx context.Context, s *Store, to *queue.Settings, version int) (done bool, err error) {
	if err := q.handing.Acquire(ctx, 1); err != nil { // no turn is taken under the old ones meanwhile
		return false, err
	}
	defer q.handing.Release(1)
	return q.setInTurn(ctx, s, to, version)
}

// setInTurn is set for the holder of the turn "handing".
func (q *queueState) setInTurn(ctx context.Context, s *Store, to *queue.Settings, version int) (done bool, err error) {
	if err := q.ending.Acquire(ctx, 1); err != nil { // ended jobs are kept under the old ones
		return false, err
	}
	defer q.ending.Release(1)
	text, err := json.Marshal(to)
	if err != nil {
		return false, err
	}
	mem := q.lock()
	other, order := mem.version != version, to.Ordered != mem.settings.Ordered
	e := mem.ends(s.o.Now())
	q.unlock()
	if other {
		return false, nil
	}
	e.settings = to
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if order {
			var pending int64
			if err := tx.QueryRow(pendingSQL, q.pendingArgs()...).Scan(&pending); err != nil {
				return err
			}
			if pending > 0 {
				return rules.NotEmpty(q.name)
			}
		}
		if _, err := tx.Exec("UPDATE queue SET settings=?, ordered=? WHERE no=?", text, to.Ordered, q.no); err != nil {
			return err
		}
		return e.apply(tx, q)
	})
	if err != nil {
		return false, err
	}
	mem = q.lock()
	mem.log.countKept(e)
	rekey := rules.Keyed(to) && !mem.waiting.apart.keyed
	q.setSettings(mem, to)
	q.wake.signal()
	q.unlock()
	if rekey {
		return true, q.rekey(ctx, s)
	}
	return true, nil
}

// rekey lets handed-out jobs come back to their keys, which are kept apart from now on. Its
// caller has the turns "handing" and "ending".
func (q *queueState) rekey(ctx context.Context, s *Store) error {
	var outs []item
	mem := q.lock()
	for _, o := range mem.leases.outs { // in any order: each on its own
		if o.group.key == "" {
			outs = append(outs, o.item)
		}
	}
	q.unlock()
	if err := q.load(ctx, s, outs); err != nil {
		return err
	}
	mem = q.lock()
	defer q.unlock()
	for i := range outs {
		it := &outs[i]
		h, _ := readHead(it.rec)
		if o := mem.leases.outs[it.n]; o != nil {
			o.group = mem.waiting.apart.withKey(o.group, []byte(h.key))
		} else if w := mem.waiting.backs[it.n]; w != nil { // it came back meanwhile
			again := *w
			mem.waiting.unwait(w)
			again.group = mem.waiting.apart.withKey(again.group, []byte(h.key))
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
func (s *source) order(ctx context.Context, q *queueState) error {
	for s.ordered {
		mem := q.lock()
		to, version := mem.settings.Clone(), mem.version
		q.unlock()
		if to.Ordered {
			return nil
		}
		if q.held.Load() > 0 {
			return rules.NotEmpty(q.name)
		}
		to.Ordered = true
		if _, err := q.setInTurn(ctx, s.store, &to, version); err != nil {
			return err
		}
	}
	return nil
}
