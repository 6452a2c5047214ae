// Package route finds the value of a type of events: by its exact name, or by a pattern that
// ends in a star. Use it wherever a configuration names types.
//
//	member.created   that type
//	member.*         every type that begins with "member."
//	*                every type
//
// An exact name goes before a pattern, a longer pattern before a shorter one.
package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/systems/crm/event"
)

// Table maps types to values. The zero value is empty. It is safe for concurrent reading.
type Table[T any] struct {
	exact map[string]T
	stars []star[T] // the longest first
}

type star[T any] struct {
	prefix string
	value  T
}

// Add adds a name or a pattern. It refuses a duplicate, and one that no type can match.
func (t *Table[T]) Add(pattern string, v T) error {
	prefix, isStar := strings.CutSuffix(pattern, "*")
	if prefix != "" && !event.ValidType(prefix) || prefix == "" && !isStar {
		return fmt.Errorf("type %.100q: want a name of 1 to %d of A-Z a-z 0-9 . _ : -, with or without a * at its end", pattern, event.MaxType)
	}
	if !isStar {
		if _, there := t.exact[pattern]; there {
			return twice(pattern)
		}
		if t.exact == nil {
			t.exact = map[string]T{}
		}
		t.exact[pattern] = v
		return nil
	}
	at := slices.IndexFunc(t.stars, func(s star[T]) bool { return len(s.prefix) <= len(prefix) })
	if at < 0 {
		at = len(t.stars)
	}
	if slices.ContainsFunc(t.stars, func(s star[T]) bool { return s.prefix == prefix }) {
		return twice(pattern)
	}
	t.stars = slices.Insert(t.stars, at, star[T]{prefix, v})
	return nil
}

func twice(pattern string) error { return fmt.Errorf("type %q is there twice", pattern) }

// Exact returns the value that was added under that very name.
func (t *Table[T]) Exact(typ string) (v T, ok bool) {
	v, ok = t.exact[typ]
	return v, ok
}

// Find returns the value of a type, and the name or pattern that matched.
func (t *Table[T]) Find(typ string) (v T, pattern string, ok bool) {
	if v, ok = t.exact[typ]; ok {
		return v, typ, true
	}
	return t.Star(typ)
}

// Star finds the value of a type by patterns alone.
func (t *Table[T]) Star(typ string) (v T, pattern string, ok bool) {
	for _, s := range t.stars {
		if strings.HasPrefix(typ, s.prefix) {
			return s.value, s.prefix + "*", true
		}
	}
	return v, "", false
}
