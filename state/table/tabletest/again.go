package tabletest

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill/state/table"
)

// Again is a table whose views are begun again, as where others change what they read: after each of
// the verbs of do, and once more after all of them.
type Again[T, Raw any] struct{ table.Store[T, Raw] }

// View implements table.Store.
func (a Again[T, Raw]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return a.Store.View(ctx, func(r table.Reader[T]) error {
		for verbs := 0; ; verbs++ {
			some := &some[T]{r, verbs, false}
			if err := do(some); !some.over && err != nil {
				return err
			}
			if !some.over {
				return do(r)
			}
		}
	})
}

var errAgain = errors.New("others changed what was read")

// some is a reader with some verbs left.
type some[T any] struct {
	table.Reader[T]
	left int
	over bool // one was called that was not left
}

func (s *some[T]) verb() error {
	if s.over = s.over || s.left == 0; s.over {
		return errAgain
	}
	s.left--
	return nil
}

func (s *some[T]) Get(keys []string, only ...string) (map[string]*T, error) {
	if err := s.verb(); err != nil {
		return nil, err
	}
	return s.Reader.Get(keys, only...)
}

func (s *some[T]) Page(q table.Query[T]) ([]*T, error) {
	if err := s.verb(); err != nil {
		return nil, err
	}
	return s.Reader.Page(q)
}
