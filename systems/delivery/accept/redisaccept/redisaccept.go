// Package redisaccept takes requests of delivery's door in one stroke, where its ledger and
// its queues are in one Redis: a script for all who come together, in place of three calls
// for each.
package redisaccept

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

type stroke struct{ queue *redisqueue.Beside }

// New makes the stroke of a ledger and queues in one Redis. Nil: there is none where queues
// are in a cluster or in several shards. No script reaches keys on several nodes.
func New(l *redisledger.Ledger, q *redisqueue.Store) accept.Stroke {
	if b := q.Beside(l.Done()); b != nil {
		return stroke{b}
	}
	return nil
}

// Take is accept.Stroke.
func (s stroke) Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error) {
	room := make([]string, 2*len(es))
	names, texts, err := redisledger.AppendDone(room[:0:len(es)], room[len(es):len(es)], es)
	if err != nil {
		return false, err
	}
	return s.queue.Add(ctx, names, texts, jobs)
}
