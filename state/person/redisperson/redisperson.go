// Package redisperson is a cache of person ids in Redis in front of the store that knows
// persons, and the list of failed merges beside it: for analytics on Redis and PostgreSQL,
// where every event needs a person id and hardly any needs the database.
//
// # How the cache stays right
//
// person:<project>:<distinct id> holds a person id that the store has given, for 90 days. The
// store is right; the cache may only be late:
//
//   - A key that is not in the cache is looked up in the store first, and only the store's
//     answer is added (SET NX). The derived id is never added before an older one was looked
//     up, so no process can go on with an id that a look-up then replaces.
//   - A merge changes the store first and the cache last, for every distinct id that moved.
//   - A writer of the cache asks the store again. If the answer has changed by now, it writes
//     that, and asks again. So the last of several writers of a key has asked the store after
//     it wrote, in any order of arrival. A look-up that was overtaken by a merge, two merges
//     whose writes cross, and a look-up that finds the key of a merge gone (expired, evicted,
//     FLUSHALL) all end with the store's answer.
//   - The overrides of a merge lie in the store's outbox, written with the merge. Before they
//     leave it the cache is compared with them: that repairs what a process left behind that
//     died, or was cut off, between a merge and the cache.
//   - A failed write may have been done or be done later: until it is repaired, this process
//     asks the store for that key. It tries with every read of the outbox.
//
// One case is left: a process dies between its write and its question, and that write was
// overtaken. Like every event that was resolved a moment before a merge, events of that key
// then carry the old id, and are still right: the warehouse's override of the distinct id
// moves them, and changes of properties go by distinct id and not by person id.
//
// If the cache does not answer, that costs time and no event: the store is asked for
// everything. FLUSHALL does no harm.
package redisperson

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/state/person"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Prefix  string           // of keys; empty means "person:"
	Kept    string           // the list of failed merges; empty means processor:failed_merges
	TTL     time.Duration    // of keys, whole seconds; 0 means 90 days
	Timeout time.Duration    // how long the cache may take to answer; 0 means 1s
	Pause   time.Duration    // how long a cache that did not answer is left alone; 0 means 1s
	Log     *slog.Logger     // nil discards
	Now     func() time.Time // nil means time.Now
}

// Store is a person.Store: another one with a cache in front of it and the failed merges in
// Redis. Any number of Stores share a Redis.
type Store struct {
	person.Store
	kept  kept
	o     Options
	cache cache

	hits, misses, failures atomic.Uint64

	mu      sync.Mutex              // guards all below
	suspect map[person.Ref]struct{} // keys that may be wrong, because writing them failed
	lost    bool                    // there were more
	away    time.Time               // the cache is left alone until then; zero: it answers
	looked  map[int64]struct{}      // overrides that the cache was compared with in the last look
}

var (
	_ person.Store = (*Store)(nil)
	_ person.Mover = (*Store)(nil)
)

// maxSuspect is how many keys are remembered as suspect, about 20 MB of them.
const maxSuspect = 100_000

// New puts the cache in front of a store.
func New(client rueidis.Client, store person.Store, o Options) (*Store, error) {
	if client == nil || store == nil {
		return nil, errors.New("a cache of persons needs a connection and a store")
	}
	if o.TTL < 0 || o.Timeout < 0 || o.Pause < 0 {
		return nil, errors.New("a cache of persons: TTL, Timeout and Pause are zero (the default) or more")
	}
	o.Prefix, o.Kept = cmp.Or(o.Prefix, "person:"), cmp.Or(o.Kept, "processor:failed_merges")
	o.TTL, o.Timeout, o.Pause = cmp.Or(o.TTL, 90*24*time.Hour), cmp.Or(o.Timeout, time.Second), cmp.Or(o.Pause, time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return newStore(redisCache{client, max(o.TTL, time.Second)}, client, store, o), nil
}

func newStore(c cache, client rueidis.Client, store person.Store, o Options) *Store {
	s := &Store{Store: store, o: o, cache: c, suspect: map[person.Ref]struct{}{}, looked: map[int64]struct{}{}}
	s.kept = kept{client: client, o: o, ids: s.peek, known: knownBy(store)}
	return s
}

// Stats are the cache's counters since the start.
type Stats struct {
	Hits, Misses uint64 // distinct ids, each once a batch
	Failures     uint64 // times that it did not answer
	Suspect      int    // keys to be repaired
}

// Stats returns them.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{s.hits.Load(), s.misses.Load(), s.failures.Load(), len(s.suspect)}
}

func (s *Store) key(r person.Ref) string { return s.o.Prefix + r.Project.String() + ":" + r.Distinct }

// there says whether the cache is to be asked.
func (s *Store) there() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away.IsZero() || !s.o.Now().Before(s.away)
}

// answered notes whether the cache answered. The end of the caller's context says nothing
// about it.
func (s *Store) answered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	was := !s.away.IsZero()
	if s.away = (time.Time{}); err != nil {
		s.away = s.o.Now().Add(s.o.Pause)
	}
	s.mu.Unlock()
	if err != nil {
		s.failures.Add(1)
	}
	switch {
	case err != nil && !was:
		// Logged when the Redis in front of the store of persons fails; once for each outage.
		// To do: see whether that Redis is well; the store is slower meanwhile.
		s.o.Log.WarnContext(ctx, "the cache of persons does not answer; the store is asked for everything", "error", err)
	case err == nil && was:
		// Logged when the cache of persons answers after it did not.
		s.o.Log.InfoContext(ctx, "the cache of persons answers again")
	}
}

// suspects remembers keys that may be wrong.
func (s *Store) suspects(refs ...person.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		if len(s.suspect) >= maxSuspect {
			if !s.lost {
				// Logged once, when the cache was away for so long that not all keys are remembered
				// that it may have wrong.
				// To do: nothing: they run out by themselves. See why the cache was away.
				s.o.Log.Warn("more keys of the cache of persons may be late than are remembered; overrides in the warehouse cover them", "count", maxSuspect)
			}
			s.lost = true
			return
		}
		s.suspect[r] = struct{}{}
	}
}

func (s *Store) trusted(refs ...person.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		delete(s.suspect, r)
	}
}

// split separates refs that may be read from the cache from suspect ones.
func (s *Store) split(refs []person.Ref) (good, suspect []person.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.suspect) == 0 {
		return refs, nil
	}
	for _, r := range refs {
		if _, bad := s.suspect[r]; bad {
			suspect = append(suspect, r)
		} else {
			good = append(good, r)
		}
	}
	return good, suspect
}

// ask asks the store.
func (s *Store) ask(ctx context.Context, refs []person.Ref) (map[person.Ref]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(refs))
	if err := s.Store.Resolve(ctx, refs, ids); err != nil {
		return nil, err
	}
	of := make(map[person.Ref]uuid.UUID, len(refs))
	for i, r := range refs {
		of[r] = ids[i]
	}
	return of, nil
}

// Resolve is person.Persons: one MGET for a batch; the store is asked for unknown keys.
func (s *Store) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if len(into) < len(refs) {
		return fmt.Errorf("resolve %d distinct ids: there is room for %d", len(refs), len(into))
	}
	if err := ctx.Err(); err != nil || len(refs) == 0 {
		return err
	}
	ids := make(map[person.Ref]uuid.UUID, len(refs))
	unique := make([]person.Ref, 0, len(refs))
	for _, r := range refs {
		if _, twice := ids[r]; !twice {
			ids[r] = uuid.Nil
			unique = append(unique, r)
		}
	}
	unknown, fresh, damaged := unique, []person.Ref(nil), []person.Ref(nil)
	if s.there() {
		good, suspect := s.split(unique)
		found, err := s.read(ctx, good)
		if s.answered(ctx, err); err == nil {
			unknown = suspect
			for _, r := range good {
				id, ok := found[r]
				switch {
				case ok && id != uuid.Nil:
					ids[r] = id
					continue
				case ok:
					damaged = append(damaged, r)
				default:
					fresh = append(fresh, r)
				}
				unknown = append(unknown, r)
			}
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	s.hits.Add(uint64(len(unique) - len(unknown)))
	s.misses.Add(uint64(len(unknown)))
	if len(unknown) > 0 {
		answers, err := s.ask(ctx, unknown)
		if err != nil {
			return err
		}
		for r, id := range answers {
			ids[r] = id
		}
		s.fill(ctx, fresh, ids)
		s.write(ctx, damaged, ids)
	}
	for i, r := range refs {
		into[i] = ids[r]
	}
	return nil
}
