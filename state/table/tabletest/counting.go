package tabletest

import (
	"context"

	"github.com/tidemill/tidemill/state/table"
)

// Counting is a store that counts the records of the pages that its views read.
type Counting[T, Raw any] struct {
	table.Store[T, Raw]
	Read int
}

// View implements table.Store.
func (c *Counting[T, Raw]) View(ctx context.Context, do func(table.Reader[T]) error) error {
	return c.Store.View(ctx, func(r table.Reader[T]) error { return do(counting[T]{r, &c.Read}) })
}

type counting[T any] struct {
	table.Reader[T]
	read *int
}

func (c counting[T]) Page(q table.Query[T]) ([]*T, error) {
	page, err := c.Reader.Page(q)
	*c.read += len(page)
	return page, err
}
