// Package sqliteaccept accepts requests of delivery's ingest API in one transaction, where the
// ledger and the queues are in one SQLite file: one transaction for all concurrent requests,
// instead of three for each.
package sqliteaccept

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

type transaction struct {
	queue *sqlitequeue.Beside[*ledger.Entry]
}

// New makes the Transaction of queues and a ledger, which stands on table t, in one file. It is
// nil if they are in two.
func New(l *tableledger.Ledger[*sqlitetable.Tx], t *sqlitetable.Store[ledger.Record], q *sqlitequeue.Store) accept.Transaction {
	b := sqlitequeue.NewBeside(q, sqlitequeue.Part[*ledger.Entry]{
		Name: func(e *ledger.Entry) string { return e.Key },
		Known: func(tx *sqlitetable.Tx, es []*ledger.Entry) ([]bool, error) {
			return l.Known(t.In(context.Background(), tx), es)
		},
		Keep: func(tx *sqlitetable.Tx, es []*ledger.Entry) error { return l.Keep(t.In(context.Background(), tx), es) },
		In:   t.Of})
	if b == nil {
		return nil
	}
	return transaction{b}
}

// Take implements accept.Transaction.
func (s transaction) Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error) {
	if err := ledger.CheckBegin(es); err != nil {
		return false, err
	}
	return s.queue.Add(ctx, es, jobs)
}
