package redisqueue

import (
	"context"
	"strconv"

	"github.com/tidemill/tidemill"
)

// lostCall is a transaction of settlements whose answer did not come: it may have
// happened or not. When its settlements are sent again they get the answer of the first
// time.
type lostCall struct {
	number uint64
	call   *settleCall
	ends   []lostEnd // in order
}

// lostEnd is one settlement in it.
type lostEnd struct {
	id   string
	mark tidemill.Mark
	code byte
}

func newLostCall(number uint64, ends []tidemill.Settlement, p *settleCall) *lostCall {
	l := &lostCall{number: number, call: p}
	for _, at := range p.ends {
		l.ends = append(l.ends, endOf(&ends[at]))
	}
	return l
}

func endOf(e *tidemill.Settlement) lostEnd { return lostEnd{e.ID, e.Mark, code(e)} }

// recall answers those settlements whose answers were lost. No other settlement is sent
// before: Redis remembers only the last script.
func (c *source) recall(ctx context.Context, ends []tidemill.Settlement) error {
	l := c.lost
	if l == nil {
		return nil
	}
	took, err := c.store.run(ctx, saidScript, l.call.shard, c.queue, c.token, strconv.FormatUint(l.number, 10)).ToString()
	if err != nil {
		return err
	}
	if took != "" {
		c.repeat(ends, l, took)
	}
	c.lost = nil
	return nil
}

// repeat gives settlements that are sent again their first answer.
func (c *source) repeat(ends []tidemill.Settlement, l *lostCall, took string) {
	had := map[lostEnd]byte{}
	for i, e := range l.ends {
		answer := took[0]
		if len(took) > 1 {
			answer = took[min(i, len(took)-1)]
		}
		if _, twice := had[e]; !twice {
			had[e] = answer
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range ends {
		e := endOf(&ends[i])
		switch answer, ok := had[e]; {
		case !ok:
			continue
		case answer == '1':
			ends[i].Outcome = tidemill.Applied
		case answer == '2':
			ends[i].Outcome = tidemill.Stale
		default:
			continue // it had no room: try again
		}
		had[e] = '2' // the second of its kind is stale
		if at := (place{uint32(l.call.shard), e.mark.Lo}); l.call.no > 0 && c.outs[at].epoch == e.mark.Epoch {
			c.gone(at, e.mark.Epoch)
		}
	}
}
