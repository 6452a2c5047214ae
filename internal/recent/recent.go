// Package recent remembers something of those who came lately, and bounds of how many.
package recent

import lru "github.com/hashicorp/golang-lru/v2"

// Cache has a V of each of the latest keys.
type Cache[K comparable, V any] struct{ *lru.Cache[K, *V] }

// New remembers so many keys, 1 or more; it forgets the one that was used longest ago.
func New[K comparable, V any](most int) Cache[K, V] {
	c, err := lru.New[K, *V](most)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return Cache[K, V]{c}
}

// Of is what is remembered of a key: a new V where it is nothing. Callers lock out each other, for two at
// once may be given one each.
func (c Cache[K, V]) Of(key K) *V {
	v, known := c.Get(key)
	if !known {
		v = new(V)
		c.Add(key, v)
	}
	return v
}
