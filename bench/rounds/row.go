package rounds

import (
	"context"

	"github.com/tidemill/tidemill/bench/figures"
)

// A Row is a measurement.
type Row[T any] struct {
	Name string
	Also string // a second result that Do fills; empty: there is none
	Once bool   // in the first round only
	Do   func(ctx context.Context, r, also *T) error

	Ratios func(round []*T, r *T) // fills those of r to the results before it in the round; nil: it has none
}

// One is a row of one result.
func One[T any](name string, do func(context.Context, *T) error) Row[T] {
	return Row[T]{Name: name, Do: func(ctx context.Context, r, _ *T) error { return do(ctx, r) }}
}

// InTurns is a round of rows that are measured one after the other. What fails is a problem of its
// row, and the others are measured.
func InTurns[T any, R Result[T]](rows []Row[T]) func(ctx context.Context, round int, tell func(R)) error {
	return func(ctx context.Context, round int, tell func(R)) error {
		var before []*T
		for _, row := range rows {
			if row.Once && round > 0 {
				continue
			}
			r, also := R(new(T)), R(new(T))
			r.common().Name, also.common().Name = row.Name, row.Also
			err := row.Do(ctx, r, also)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			figures.Note(&r.common().Problem, err)
			if row.Ratios != nil {
				row.Ratios(before, r)
			}
			before = append(before, r)
			tell(r)
			if row.Also != "" && err == nil {
				tell(also)
			}
		}
		return nil
	}
}
