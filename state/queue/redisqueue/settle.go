package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Settle implements tidemill.Source.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range ends {
		if err := queue.CheckEnd(&ends[i]); err != nil {
			return err
		}
		for _, m := range ends[i].Next {
			if err := check(m); err != nil {
				return err
			}
		}
		ends[i].Took = tidemill.Unanswered
	}
	if err := c.recall(ctx, ends); err != nil {
		return failed(err, "settle %d jobs of queue %q", len(ends), c.queue)
	}
	var refused error
	for _, p := range c.strokes(ends) {
		err := c.settle(ctx, ends, p)
		if errors.Is(err, errRefused) {
			refused = errors.Unwrap(err)
		} else if err != nil {
			return failed(err, "settle %d jobs of queue %q", len(p.ends), c.queue)
		}
	}
	return refused
}

// stroke is what one script settles: ends of one shard.
type stroke struct {
	shard int
	no    uint32 // of the queue, as its marks have it; 0: ends by ID
	ends  []int  // indexes
	bytes int
	next  int
}

// strokes divides settlements by shards and limits, in their order.
func (c *source) strokes(ends []tidemill.Settlement) []*stroke {
	type key struct {
		shard int
		no    uint32
	}
	open := map[key]*stroke{}
	var all []*stroke
	for i := range ends {
		e := &ends[i]
		if e.Took != tidemill.Unanswered {
			continue
		}
		k := key{int(e.Mark.Hi), e.Mark.Shard}
		if e.Mark == (tidemill.Mark{}) {
			k.shard = c.store.shard(e.ID)
		} else if k.shard >= len(c.shards) || k.no == 0 {
			e.Took = tidemill.Stale // nobody here handed it out
			continue
		}
		size := len(e.Cause) + 50
		for _, m := range e.Next {
			size += sizeOf(m)
		}
		p := open[k]
		if p == nil || len(p.ends) >= addJobs || p.next+len(e.Next) > addJobs && p.next > 0 || p.bytes+size > addBytes && p.bytes > 0 {
			p = &stroke{shard: k.shard, no: k.no}
			open[k] = p
			all = append(all, p)
		}
		p.ends = append(p.ends, i)
		p.bytes, p.next = p.bytes+size, p.next+len(e.Next)
	}
	return all
}

// errRefused wraps why some of a stroke were not settled.
var errRefused = errors.New("no room")

type refusal struct{ why error }

func (r *refusal) Error() string        { return r.why.Error() }
func (r *refusal) Unwrap() error        { return r.why }
func (r *refusal) Is(target error) bool { return target == errRefused }

// settle runs the script for one stroke, and answers its settlements.
func (c *source) settle(ctx context.Context, ends []tidemill.Settlement, p *stroke) error {
	args, err := c.arguments(ctx, ends, p)
	if err != nil {
		return err
	}
	took, err := c.store.run(ctx, settleScript, p.shard, args...).ToString()
	if err != nil {
		if _, answered := rueidis.IsRedisErr(err); !answered {
			c.lost = newLostStroke(c.stroke, ends, p)
		}
		return err
	}
	if len(took) != len(p.ends) && took != "1" {
		return reply("settle jobs")
	}
	return c.answer(ends, p, took)
}

// answer tells settlements what became of them: a digit for each, or one for all.
func (c *source) answer(ends []tidemill.Settlement, p *stroke, took string) error {
	var refused error
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, at := range p.ends {
		e, answer := &ends[at], took[0]
		if len(took) > 1 {
			answer = took[i]
		}
		switch answer {
		case '1', '2':
			e.Took = tidemill.Applied
			if answer == '2' {
				e.Took = tidemill.Stale
			}
			if at := (place{uint32(p.shard), e.Mark.Lo}); p.no > 0 && c.outs[at] == e.Mark.Epoch {
				c.gone(at, e.Mark.Epoch)
			}
		case '3':
			refused = queue.FullError(e.Next[0].To)
		case '4':
			refused = queue.ClosedError(e.Next[0].To)
		}
	}
	if refused != nil {
		return &refusal{refused}
	}
	return nil
}

// arguments are those of the script.
func (c *source) arguments(ctx context.Context, ends []tidemill.Settlement, p *stroke) ([]string, error) {
	no := ""
	if p.no > 0 {
		no = strconv.FormatUint(uint64(p.no), 10)
	}
	codes, each := make([]byte, len(p.ends)), 2
	for i, at := range p.ends {
		if codes[i] = code(&ends[at]); codes[i] != 'd' && codes[i] != 'l' && (codes[i] != 's' || ends[at].Cause != "") {
			each = 4
		}
	}
	c.stroke++
	args := make([]string, 0, 12+each*len(p.ends)+4*p.next)
	args = append(args, c.queue, no, strconv.Itoa(c.store.o.Capacity), remember, c.finished(ends, p), string(codes), strconv.Itoa(each),
		c.token, strconv.FormatUint(c.stroke, 10), millis(c.lease))
	for i, at := range p.ends {
		e := &ends[at]
		if p.no > 0 {
			args = append(args, strconv.FormatUint(uint64(e.Mark.Epoch), 10), strconv.FormatUint(e.Mark.Lo, 10))
		} else {
			args = append(args, "", idDigest(e.ID))
		}
		if each == 2 {
			continue
		}
		switch codes[i] {
		case 'a':
			burn, cause := "0", ""
			if e.Burn {
				burn, cause = "1", e.Cause
			}
			ms := max(0, (e.After.Microseconds()+999)/1000)
			args = append(args, strconv.FormatInt(ms, 10)+" "+burn, cause)
		case 'r':
			row := e.Row()
			args = append(args, fmt.Sprintf("%d %d %d %c", row.Delivered, row.Skipped, row.Dead, fateCode(e.Fate)), e.Cause)
		default:
			args = append(args, "", e.Cause)
		}
	}
	args = append(args, strconv.Itoa(p.next))
	for i, at := range p.ends {
		for _, m := range ends[at].Next {
			d, err := c.store.packer(ctx, m.To, ends[at].Next)
			if err != nil {
				return nil, err
			}
			args = append(args, strconv.Itoa(i+1), m.To)
			args, _ = c.store.appendJob(args, make([]byte, 0, sizeOf(m)), m, d)
		}
	}
	return args, nil
}

// finished are the hand-outs of which nothing is left after a stroke.
func (c *source) finished(ends []tidemill.Settlement, p *stroke) string {
	if p.no == 0 {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	settled := map[uint32]int{}
	seen := make(map[uint64]bool, len(p.ends))
	for _, at := range p.ends {
		m := &ends[at].Mark
		if !seen[m.Lo] && c.outs[place{uint32(p.shard), m.Lo}] == m.Epoch {
			seen[m.Lo] = true
			settled[m.Epoch]++
		}
	}
	var b strings.Builder
	for epoch, n := range settled {
		if c.epochs[grant{uint32(p.shard), epoch}] == n {
			fmt.Fprintf(&b, "%d ", epoch)
		}
	}
	return b.String()
}

// code is a settlement's letter.
func code(e *tidemill.Settlement) byte {
	switch {
	case e.End == tidemill.Again:
		return 'a'
	case e.End == tidemill.Left:
		return 'l'
	case e.Records != (tidemill.Count{}):
		return 'r'
	}
	return fateCode(e.Fate)
}

func fateCode(f tidemill.Fate) byte {
	switch f {
	case tidemill.Dead:
		return 'x'
	case tidemill.Skipped:
		return 's'
	}
	return 'd'
}
