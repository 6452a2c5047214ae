package redisperson

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/person"
)

// cache is the part of Redis that is used here.
type cache interface {
	// get returns the values of the keys that exist.
	get(ctx context.Context, keys []string) (map[string]string, error)
	// add sets keys that do not exist, and says which it has set.
	add(ctx context.Context, keys, values []string) ([]bool, error)
	// set sets keys.
	set(ctx context.Context, keys, values []string) error
}

// redisCache is the cache in Redis. Everything is one round trip, on a cluster one for each
// node at the same time.
type redisCache struct {
	client rueidis.Client
	ttl    time.Duration
}

func (c redisCache) get(ctx context.Context, keys []string) (map[string]string, error) {
	answers, err := rueidis.MGet(c.client, ctx, keys)
	if err != nil {
		return nil, redisconn.Error(err, "read %d person ids", len(keys))
	}
	values := make(map[string]string, len(answers))
	for key, a := range answers {
		if a.IsNil() {
			continue
		}
		if values[key], err = a.ToString(); err != nil {
			return nil, redisconn.Error(err, "read %d person ids", len(keys))
		}
	}
	return values, nil
}

func (c redisCache) add(ctx context.Context, keys, values []string) ([]bool, error) {
	cmds := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		cmds[i] = c.client.B().Set().Key(key).Value(values[i]).Nx().Ex(c.ttl).Build()
	}
	added := make([]bool, len(keys))
	for i, answer := range c.client.DoMulti(ctx, cmds...) {
		err := answer.Error()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, redisconn.Error(err, "add %d person ids", len(keys))
		}
		added[i] = err == nil
	}
	return added, nil
}

func (c redisCache) set(ctx context.Context, keys, values []string) error {
	cmds := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		cmds[i] = c.client.B().Set().Key(key).Value(values[i]).Ex(c.ttl).Build()
	}
	for _, answer := range c.client.DoMulti(ctx, cmds...) {
		if err := answer.Error(); err != nil {
			return redisconn.Error(err, "write %d person ids", len(keys))
		}
	}
	return nil
}

// atOnce is how many keys are read or written in one round trip.
const atOnce = 10_000

// read returns what the cache knows; uuid.Nil stands for a value that is not a person id.
func (s *Store) read(ctx context.Context, refs []person.Ref) (map[person.Ref]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	found := make(map[person.Ref]uuid.UUID, len(refs))
	for len(refs) > 0 {
		part := refs[:min(len(refs), atOnce)]
		refs = refs[len(part):]
		keys := make([]string, len(part))
		for i, r := range part {
			keys[i] = s.key(r)
		}
		values, err := s.cache.get(ctx, keys)
		if err != nil {
			return nil, err
		}
		for i, r := range part {
			if v, ok := values[keys[i]]; ok {
				found[r], _ = uuid.Parse(v)
			}
		}
	}
	return found, nil
}

// peek returns what the cache knows, or nothing if it does not answer.
func (s *Store) peek(ctx context.Context, refs []person.Ref) map[person.Ref]uuid.UUID {
	if !s.there() {
		return nil
	}
	found, err := s.read(ctx, refs)
	s.answered(ctx, err)
	return found
}

// pairs are the keys and values of refs.
func (s *Store) pairs(refs []person.Ref, ids map[person.Ref]uuid.UUID) (keys, values []string) {
	keys, values = make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		keys[i], values[i] = s.key(r), ids[r].String()
	}
	return keys, values
}

// fill adds the store's answers where the cache has nothing, and corrects ids where the
// store's answer has changed since.
func (s *Store) fill(ctx context.Context, refs []person.Ref, ids map[person.Ref]uuid.UUID) {
	for len(refs) > 0 {
		part := refs[:min(len(refs), atOnce)]
		refs = refs[len(part):]
		keys, values := s.pairs(part, ids)
		bounded, cancel := context.WithTimeout(ctx, s.o.Timeout)
		added, err := s.cache.add(bounded, keys, values)
		cancel()
		s.answered(ctx, err)
		if err != nil {
			s.suspects(part...) // it may be done later, when it is wrong
			continue
		}
		var new []person.Ref
		for i, r := range part {
			if added[i] { // else another instance has added it, and asks
				new = append(new, r)
			}
		}
		s.settle(ctx, new, ids)
	}
}

// settle asks the store again about the written ids, until it answers the same.
func (s *Store) settle(ctx context.Context, written []person.Ref, ids map[person.Ref]uuid.UUID) {
	if len(written) == 0 {
		return
	}
	now, err := s.ask(ctx, written)
	if err != nil {
		s.suspects(written...)
		return
	}
	var late []person.Ref
	for _, r := range written {
		if now[r] != ids[r] {
			late = append(late, r)
			ids[r] = now[r]
		}
	}
	s.write(ctx, late, ids)
}

// maxRounds is how often a key is written because it was merged meanwhile. No person is
// merged that often; the rest is repaired later.
const maxRounds = 8

// write writes ids until the store answers the same after the write.
func (s *Store) write(ctx context.Context, refs []person.Ref, ids map[person.Ref]uuid.UUID) {
	for range maxRounds {
		if len(refs) == 0 {
			return
		}
		if !s.there() {
			break
		}
		if err := s.put(ctx, refs, ids); err != nil {
			break
		}
		now, err := s.ask(ctx, refs)
		if err != nil {
			break
		}
		var same, late []person.Ref
		for _, r := range refs {
			if now[r] == ids[r] {
				same = append(same, r)
				continue
			}
			late = append(late, r)
			ids[r] = now[r]
		}
		s.trusted(same...)
		refs = late
	}
	s.suspects(refs...)
}

func (s *Store) put(ctx context.Context, refs []person.Ref, ids map[person.Ref]uuid.UUID) error {
	for len(refs) > 0 {
		part := refs[:min(len(refs), atOnce)]
		refs = refs[len(part):]
		keys, values := s.pairs(part, ids)
		bounded, cancel := context.WithTimeout(ctx, s.o.Timeout)
		err := s.cache.set(bounded, keys, values)
		cancel()
		if s.answered(ctx, err); err != nil {
			return err
		}
	}
	return nil
}
