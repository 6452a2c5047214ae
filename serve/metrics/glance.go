package metrics

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// How a system is asked how it stands. An answer is fresh for lookFresh, for every scrape.
const (
	lookFresh = time.Second

	// LookTimeout is how long an answer is waited for.
	LookTimeout = 5 * time.Second // Prometheus waits 10 s
)

// Glance is how a system stands; it is at most lookFresh old. However many scrape at once,
// it is asked once.
type Glance[T any] struct {
	looks singleflight.Group

	mu   sync.Mutex // guards what follows; held for short work in memory only
	last *T
	at   time.Time // when it was found
}

// Look asks the system where the last answer is too old.
func (g *Glance[T]) Look(ask func(context.Context) (*T, error)) (*T, error) {
	g.mu.Lock()
	st, age := g.last, time.Since(g.at)
	g.mu.Unlock()
	if st != nil && age < lookFresh {
		return st, nil
	}
	found, err, _ := g.looks.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
		defer cancel()
		return ask(ctx)
	})
	if err != nil {
		return nil, err
	}
	st = found.(*T)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.at = st, time.Now()
	return st, nil
}
