package route

import (
	"errors"
	"strings"
)

// Optional is a table whose types may have a prefix that names the application ("scl."), or
// not, on either side: payment.failed and scl.payment.failed are the same. If two entries
// differ by their prefixes alone, each is for its own spelling, and the first of them for all
// others. It is safe for concurrent reading.
type Optional[T any] struct {
	prefixes []string
	said     Table[T] // as written
	bare     Table[T] // without prefixes
	listed   map[string]bool
}

// NewOptional makes an empty table.
func NewOptional[T any](prefixes []string) (*Optional[T], error) {
	for _, p := range prefixes {
		if p == "" {
			return nil, errors.New("an empty prefix")
		}
	}
	return &Optional[T]{prefixes: prefixes, listed: map[string]bool{}}, nil
}

// Add adds a name or a pattern, as Table.Add does.
func (t *Optional[T]) Add(pattern string, v T) error {
	if err := t.said.Add(pattern, v); err != nil {
		return err
	}
	bare := t.Bare(pattern)
	if t.listed[bare] {
		return nil
	}
	t.listed[bare] = true
	return t.bare.Add(bare, v)
}

// Find returns the value of a type, and the name or pattern that matched: names go before
// patterns, and the type's own spelling before one that differs by a prefix.
func (t *Optional[T]) Find(typ string) (v T, pattern string, ok bool) {
	if v, ok = t.said.Exact(typ); ok {
		return v, typ, true
	}
	bare := t.Bare(typ)
	if v, ok = t.bare.Exact(bare); ok {
		return v, bare, true
	}
	if v, pattern, ok = t.said.Star(typ); ok {
		return v, pattern, true
	}
	return t.bare.Star(bare)
}

// Bare removes the prefix of a name or a pattern, if it has one. All of an application's types
// ("scl.*") are not all types.
func (t *Optional[T]) Bare(typ string) string {
	for _, p := range t.prefixes {
		if bare, ok := strings.CutPrefix(typ, p); ok && bare != "" && bare != "*" {
			return bare
		}
	}
	return typ
}
