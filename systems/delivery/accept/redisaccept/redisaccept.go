// Package redisaccept accepts requests of delivery's ingest API in one transaction, where the
// ledger and the queues are in one Redis: one script for all concurrent requests, instead of
// three calls for each.
package redisaccept

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

type transaction struct{ queue *redisqueue.Beside }

// New makes the Transaction of a ledger and queues in one Redis. It is nil where the queues are in a
// cluster or in several shards: no script reaches keys on several nodes.
func New(l *redisledger.Ledger, q *redisqueue.Store) accept.Transaction {
	if b := q.Beside(l.Done()); b != nil {
		return transaction{b}
	}
	return nil
}

// Take implements accept.Transaction.
func (s transaction) Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error) {
	room := make([]string, 2*len(es))
	names, texts, err := redisledger.AppendDone(room[:0:len(es)], room[len(es):len(es)], es)
	if err != nil {
		return false, err
	}
	return s.queue.Add(ctx, names, texts, jobs)
}
