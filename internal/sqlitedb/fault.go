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
	Refused       // the statement does nothing and says ErrFault
	Broken        // its rows end before the first with an error; of a statement without rows: Refused
)

// ErrFault is what a statement says that a test let fail. Where database/sql speaks it is
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

// broken asks and lets the rows end before the first.
func broken(query func(context.Context, ...any) (*sql.Rows, error), args []any) (*sql.Rows, error) {
	ctx, cancel := context.WithCancel(context.Background())
	rows, err := query(ctx, args...)
	cancel()
	for err == nil && rows.Err() == nil {
		runtime.Gosched()
	}
	return rows, said(err)
}
