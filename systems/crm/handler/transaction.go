package handler

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

// ErrTaken says that another worker took over the event during the work on it: its lease had
// ended. Nothing was changed.
var ErrTaken = errors.New("the event was taken over by another worker")

// InTransaction is a handler whose effects and the event's COMPLETED are committed together, or
// not at all: after any crash, they happen once. log is the system's sync log. do writes to its
// database by the given transaction, and to nothing else. On SQLite do delays every other write
// of the file: it has to be short and wait for nothing.
//
// Several calls are all committed, or none: an error of do concerns all, and the calls are
// repeated in halves if its kind says something about events.
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
		// The answer of the commit may have been lost: repeating it finds out.
	}
}

// whole turns a Partial into a failure of all: nothing was done, as all is rolled back.
func whole(err error) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(partly.Failed) == 0 {
		return err
	}
	return partly.Failed[0].Err
}
