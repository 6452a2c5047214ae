// Package redisproject is a cache of ingest keys in Redis in front of any store of
// projects. Use it where several instances look up keys in one database.
//
// The key itself is never written. The cache key is project_token:<SHA-256 of the ingest
// key in hex>, the only form of a key in this role. Programs that cache project_token:<key>
// beside it are not disturbed, and not read. A key that is revoked is taken out of the cache; one
// that another program removes is refused after five minutes.
package redisproject

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/state/project"
)

const (
	prefix  = "project_token:"
	ttl     = 300 * time.Second
	timeout = 500 * time.Millisecond // of the cache; after that the store is asked
)

// Projects is another project.Store with a cache in front of ByKey.
type Projects struct {
	project.Store
	client rueidis.Client
	log    *slog.Logger
}

var _ project.Store = (*Projects)(nil)

// cached is the value of a key. Readers know the first field.
type cached struct {
	ID   uuid.UUID `json:"project_id"`
	Name string    `json:"name,omitempty"`
}

// New puts the cache in front of a store. A nil log discards.
func New(client rueidis.Client, of project.Store, log *slog.Logger) (*Projects, error) {
	if client == nil || of == nil {
		return nil, errors.New("a cache of projects needs a connection and a store")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Projects{of, client, log}, nil
}

func keyOf(h project.Hash) string { return prefix + hex.EncodeToString(h[:]) }

// ByKey implements project.Projects. It skips a cache that does not answer, and does not
// cache unknown keys.
func (p *Projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	if err := ctx.Err(); err != nil {
		return project.Project{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	value, err := p.client.Do(bounded, p.client.B().Get().Key(keyOf(key)).Build()).AsBytes()
	cancel()
	var c cached
	if err == nil && json.Unmarshal(value, &c) == nil && c.ID != uuid.Nil {
		return project.Project{ID: c.ID, Name: c.Name}, nil
	}
	away := err != nil && !rueidis.IsRedisNil(err)
	p.trouble(ctx, away, err)
	found, err := p.Store.ByKey(ctx, key)
	if err == nil && !away {
		p.set(ctx, key, found)
	}
	return found, err
}

// Ensure implements project.Projects: the store first, then the cache.
func (p *Projects) Ensure(ctx context.Context, of project.Project, key project.Hash) error {
	if err := p.Store.Ensure(ctx, of, key); err != nil {
		return err
	}
	p.set(ctx, key, of)
	return nil
}

// Revoke implements project.Keys: the store first, then the cache, also when ctx has ended meanwhile. An
// error may mean that the cache takes the key for five minutes more.
func (p *Projects) Revoke(ctx context.Context, id uuid.UUID, key project.Hash) error {
	if err := p.Store.Revoke(ctx, id, key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := p.client.Do(ctx, p.client.B().Del().Key(keyOf(key)).Build()).Error(); err != nil {
		return fmt.Errorf("the key is revoked, and may be taken for five minutes more: the cache does not answer: %w", err)
	}
	return nil
}

func (p *Projects) set(ctx context.Context, key project.Hash, of project.Project) {
	value, err := json.Marshal(cached{of.ID, of.Name})
	if err != nil {
		return // a name that is not text: the store is asked each time
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = p.client.Do(ctx, p.client.B().Set().Key(keyOf(key)).Value(rueidis.BinaryString(value)).Ex(ttl).Build()).Error()
	p.trouble(ctx, err != nil, err)
}

func (p *Projects) trouble(ctx context.Context, away bool, err error) {
	if away {
		// Logged when the Redis in front of the store of projects fails.
		// To do: see whether that Redis is well; each new key asks the store meanwhile.
		p.log.WarnContext(ctx, "the cache of ingest keys does not answer; the store is asked", "error", err)
	}
}
