package figures

import "sync"

// Keyed are the latest values of what somebody looks at, each by its key.
type Keyed[K comparable, T any] struct {
	Make func(K) *Latest[T] // of a key that nobody has looked at
	Kept int                // how many are kept: with one more, all are forgotten

	mu  sync.Mutex // guards all
	all map[K]*Latest[T]
}

// Of is the value of a key.
func (k *Keyed[K, T]) Of(key K) *Latest[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.all[key]; l != nil {
		return l
	}
	if k.all == nil || len(k.all) >= k.Kept {
		k.all = map[K]*Latest[T]{}
	}
	l := k.Make(key)
	k.all[key] = l
	return l
}

// Forget forgets all of them: who asks from now on has them read.
func (k *Keyed[K, T]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
}
