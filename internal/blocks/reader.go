package blocks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Reader reads the entries of a run from its beginning. All its fields are to be given.
type Reader[E any] struct {
	DB     *sqlitedb.DB
	Query  string // selects blocks in order, from one id up to another
	Name   string // of the store, for errors
	Run    int64  // its number
	Blocks int    // that it has
	AtOnce int    // blocks that are read at once
	Unpack func(to []E, block []byte) ([]E, error)

	next  int // the next block
	chunk []E
	at    int // in chunk
}

// Peek returns the next entry without taking it; io.EOF: there is none.
func (r *Reader[E]) Peek(ctx context.Context) (e E, err error) {
	if r.at == len(r.chunk) && r.next < r.Blocks {
		if err := r.DB.Read(ctx, r.fill); err != nil {
			return e, err
		}
	}
	if r.at == len(r.chunk) {
		return e, io.EOF
	}
	return r.chunk[r.at], nil
}

// Take takes the entry that Peek returned.
func (r *Reader[E]) Take() { r.at++ }

func (r *Reader[E]) fill(tx *sqlitedb.Tx) error {
	to := min(r.next+r.AtOnce, r.Blocks)
	rows, err := tx.Query(r.Query, ID(r.Run, r.next), ID(r.Run, to))
	if err != nil {
		return err
	}
	defer rows.Close()
	var block sql.RawBytes
	for r.chunk, r.at = r.chunk[:0], 0; rows.Next(); r.next++ {
		if err := rows.Scan(&block); err != nil {
			return err
		}
		if r.chunk, err = r.Unpack(r.chunk, block); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if r.next < to {
		return fmt.Errorf("run %d of %s has no block %d", r.Run, r.Name, r.next)
	}
	return nil
}

// Least takes the first entry of all, in the order of compare; io.EOF: there is none.
func Least[E any](ctx context.Context, all []*Reader[E], compare func(a, b E) int) (first E, err error) {
	var from *Reader[E]
	for _, r := range all {
		e, err := r.Peek(ctx)
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return e, err
		}
		if from == nil || compare(e, first) < 0 {
			from, first = r, e
		}
	}
	if from == nil {
		return first, io.EOF
	}
	from.Take()
	return first, nil
}
