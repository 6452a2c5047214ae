package handler

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

// ErrTaken says that the event was taken over while it was worked on: its lease had ended,
// and somebody else works on it. Nothing was changed.
var ErrTaken = errors.New("the event was taken over by another worker")

// InTransaction is a handler whose effects and the event's COMPLETED are committed together,
// or not at all: whatever dies when, they happen once. log is the system's sync log, and do
// writes to its database by the transaction that it is given, and to nothing else. On
// SQLite do holds up every other write of the file: it is to be short and wait for nothing.
//
// With several calls all are committed, or none: an error of do is one for all, and the
// calls are repeated in halves where its kind says something about events.
func InTransaction[Tx any](log ledger.Transactor[Tx], do func(ctx context.Context, tx Tx, calls []*Call) error) Handler {
	return inTransaction[Tx]{log, do}
}

type inTransaction[Tx any] struct {
	log ledger.Transactor[Tx]
	do  func(context.Context, Tx, []*Call) error
}

// Handle implements Handler.
func (h inTransaction[Tx]) Handle(ctx context.Context, calls []*Call) error {
	es := make([]*ledger.Entry, len(calls))
	for i, c := range calls {
		if c.Entry == nil {
			return tidemill.Fail(tidemill.Internal, "a handler in a transaction has no entry to end: it needs a system with a sync log")
		}
		e := *c.Entry
		e.State, e.Err = ledger.Done, ""
		es[i] = &e
	}
	for again := false; ; again = true {
		var own error
		err := h.log.Within(ctx, es, func(ctx context.Context, tx Tx) error {
			own = whole(h.do(ctx, tx, calls))
			return own
		})
		switch {
		case err == nil:
			for _, c := range calls {
				c.Committed = true
			}
			return nil
		case own != nil:
			return own
		case errors.Is(err, ledger.ErrStale):
			return &tidemill.Error{Kind: tidemill.Transient, Err: ErrTaken}
		case again || ctx.Err() != nil:
			return err
		}
		// The answer of the commit may have been lost: the same again finds out.
	}
}

// whole makes one failure of a Partial: nothing was done, for all is rolled back.
func whole(err error) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(partly.Failed) == 0 {
		return err
	}
	return partly.Failed[0].Err
}
