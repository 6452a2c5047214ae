package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
)

// A Fault is how a test lets a statement fail.
type Fault uint8

const (
	None    Fault = iota
	Refused       // the statement does nothing and returns ErrFault
	Broken        // its rows end before the first with an error; of a statement without rows: Refused
)

// ErrFault is the error of a statement that a test makes fail. Where database/sql answers it is
// context.Canceled.
var ErrFault = errors.New("a test let this statement fail")

func (tx *Tx) next() Fault {
	if tx.fault == nil {
		return None
	}
	return tx.fault(tx)
}

func (tx *Tx) refused() error {
	if tx.next() != None {
		return ErrFault
	}
	return nil
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// broken runs the query and ends its rows before the first.
func broken(query func(context.Context, ...any) (*sql.Rows, error), args []any) (*sql.Rows, error) {
	ctx, cancel := context.WithCancel(context.Background())
	rows, err := query(ctx, args...)
	cancel()
	for err == nil && rows.Err() == nil {
		runtime.Gosched()
	}
	return rows, said(err)
}
