package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Settle implements tidemill.Source.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range ends {
		if err := rules.CheckEnd(&ends[i]); err != nil {
			return err
		}
		for _, m := range ends[i].Next {
			if err := check(m); err != nil {
				return err
			}
		}
		ends[i].Outcome = tidemill.Unanswered
	}
	if err := c.recall(ctx, ends); err != nil {
		return failed(err, "settle %d jobs of queue %q", len(ends), c.queue)
	}
	var refused error
	for _, p := range c.settleCalls(ends) {
		if err := ctx.Err(); err != nil { // the others come again
			return err
		}
		err := c.settle(ctx, ends, p)
		for tries := 1; tries < packTries && errors.Is(err, errLost); tries++ {
			err = c.settle(ctx, ends, p)
		}
		if errors.Is(err, errRefused) {
			refused = errors.Unwrap(err)
		} else if err != nil {
			return failed(err, "settle %d jobs of queue %q", len(p.ends), c.queue)
		}
	}
	return refused
}

// settleCall is the settlements of one script: ends of one shard.
type settleCall struct {
	shard int
	no    uint32 // of the queue, as in its marks; 0: ends by ID
	ends  []int  // indexes
	bytes int
	next  int
	most  int // of next
}

// settleCalls divides settlements by shards and limits, in their order.
func (c *source) settleCalls(ends []tidemill.Settlement) []*settleCall {
	type key struct {
		shard int
		no    uint32
	}
	open := map[key]*settleCall{}
	var all []*settleCall
	for i := range ends {
		e := &ends[i]
		if e.Outcome != tidemill.Unanswered {
			continue
		}
		k := key{int(e.Mark.Hi), e.Mark.Shard}
		if e.Mark == (tidemill.Mark{}) {
			k.shard = c.store.shard(e.ID)
		} else if k.shard >= len(c.shards) || k.no == 0 {
			e.Outcome = tidemill.Stale // this source did not hand it out
			continue
		}
		size := len(e.Cause) + 50
		for _, m := range e.Next {
			size += sizeOf(m)
		}
		p := open[k]
		if p == nil || len(p.ends) >= addJobs || p.next+len(e.Next) > p.most && p.next > 0 || p.bytes+size > addBytes && p.bytes > 0 {
			p = &settleCall{shard: k.shard, no: k.no, most: addJobs}
			if c.store.gates[k.shard].Contended(time.Now()) {
				p.most = nextJobs
			}
			open[k] = p
			all = append(all, p)
		}
		p.ends = append(p.ends, i)
		p.bytes, p.next = p.bytes+size, p.next+len(e.Next)
	}
	return all
}

// errRefused wraps why some settlements of a call were refused.
var errRefused = errors.New("no room")

type refusal struct{ why error }

func (r *refusal) Error() string        { return r.why.Error() }
func (r *refusal) Unwrap() error        { return r.why }
func (r *refusal) Is(target error) bool { return target == errRefused }

// settle runs the script for one call, and answers its settlements.
func (c *source) settle(ctx context.Context, ends []tidemill.Settlement, p *settleCall) error {
	args, packs, err := c.arguments(ctx, ends, p)
	if err != nil {
		return err
	}
	took, err := c.store.run(ctx, settleScript, p.shard, packed(args, packs)...).ToString()
	if err != nil {
		if _, answered := rueidis.IsRedisErr(err); !answered {
			c.lost = newLostCall(c.call, ends, p)
		}
		return err
	}
	if took == "" {
		c.store.forget(p.shard, packs)
		return errLost
	}
	if len(took) != len(p.ends) && took != "1" {
		return reply("settle jobs")
	}
	return c.answer(ends, p, took)
}

// answer sets the answers of settlements: a digit for each, or one for all.
func (c *source) answer(ends []tidemill.Settlement, p *settleCall, took string) error {
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
			e.Outcome = tidemill.Applied
			if answer == '2' {
				e.Outcome = tidemill.Stale
			}
			if at := (place{uint32(p.shard), e.Mark.Lo}); p.no > 0 && c.outs[at].epoch == e.Mark.Epoch {
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

// arguments are those of the script. They sort the ends into the order of its answer: runs
// first.
func (c *source) arguments(ctx context.Context, ends []tidemill.Settlement, p *settleCall) (args []string, packs []pack, err error) {
	c.call++
	runs, others, finished := c.runs(ends, p)
	no := ""
	if p.no > 0 {
		no = strconv.FormatUint(uint64(p.no), 10)
	}
	args = make([]string, 0, 17+4*len(runs)+len(p.ends)+4*len(others)+4*p.next)
	args = append(args, c.queue, no, strconv.Itoa(c.store.o.Capacity), remember, finished,
		c.token, strconv.FormatUint(c.call, 10), millis(c.lease), strconv.Itoa(len(p.ends)), strconv.Itoa(len(runs)))
	p.ends = p.ends[:0]
	for _, r := range runs {
		args = append(args, strconv.FormatUint(uint64(r.epoch), 10), strconv.FormatUint(r.bucket, 10), string(rune(r.code)), strconv.Itoa(len(r.ends)))
		for _, at := range r.ends {
			args = append(args, strconv.FormatUint(ends[at].Mark.Lo, 10))
		}
		p.ends = append(p.ends, r.ends...)
	}
	p.ends = append(p.ends, others...)
	args = append(args, strconv.Itoa(len(others)))
	for _, at := range others {
		e := &ends[at]
		letter := code(e)
		args = append(args, string(rune(letter)))
		if p.no > 0 {
			args = append(args, strconv.FormatUint(uint64(e.Mark.Epoch), 10), strconv.FormatUint(e.Mark.Lo, 10))
		} else {
			args = append(args, "", idDigest(e.ID))
		}
		args = append(args, c.text(e, letter), e.Cause)
	}
	args = append(args, strconv.Itoa(p.next))
	for i, at := range others {
		for _, m := range ends[at].Next {
			by, err := c.store.packer(ctx, p.shard, m.To, ends[at].Next)
			if err != nil {
				return nil, nil, err
			}
			args, packs = append(args, strconv.Itoa(i+1), m.To), by.with(packs, m.To)
			args, _ = c.store.appendJob(args, make([]byte, 0, sizeOf(m)), m, by, 0)
		}
	}
	return args, packs, nil
}

// text is the script's form of a settlement beside its character and cause.
func (c *source) text(e *tidemill.Settlement, letter byte) string {
	switch letter {
	case 'a':
		count := "0"
		if e.CountTry {
			count = "1"
		}
		ms := max(0, (e.After.Microseconds()+999)/1000)
		return strconv.FormatInt(ms, 10) + " " + count + " " + failureText(e)
	case 'r':
		row := e.Row()
		return fmt.Sprintf("%d %d %d %c %s", row.Delivered, row.Skipped, row.Dead, fateCode(e.Fate), failureText(e))
	case 'x':
		return failureText(e)
	}
	return ""
}

// run is settlements of one hand-out and one bucket with the same end and nothing else,
// each for another job, so that the script need not read each.
type run struct {
	epoch  uint32
	bucket uint64
	code   byte
	ends   []int // indexes
}

// bucketJobs is how many positions share a bucket: BUCKET in the scripts.
const bucketJobs = 1024

// runs divides a call, and says which hand-outs are empty after it.
func (c *source) runs(ends []tidemill.Settlement, p *settleCall) (runs []*run, others []int, finished string) {
	if p.no == 0 {
		return nil, slices.Clone(p.ends), ""
	}
	type kind struct {
		epoch  uint32
		bucket uint64
		code   byte
	}
	settled := map[uint32]int{}
	open := map[kind]*run{}
	var last *run
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range p.ends {
		e := &ends[at]
		place := place{uint32(p.shard), e.Mark.Lo}
		h, ours := c.outs[place]
		if ours = ours && h.epoch == e.Mark.Epoch && h.call != c.call; ours { // the first of this job
			h.call = c.call
			c.outs[place] = h
			settled[h.epoch]++
		}
		k := kind{e.Mark.Epoch, e.Mark.Lo / bucketJobs, code(e)}
		if !ours || k.code != 'd' && k.code != 's' || e.Cause != "" || len(e.Next) > 0 {
			others = append(others, at)
			continue
		}
		if last == nil || last.epoch != k.epoch || last.bucket != k.bucket || last.code != k.code {
			if last = open[k]; last == nil {
				last = &run{epoch: k.epoch, bucket: k.bucket, code: k.code}
				open[k] = last
				runs = append(runs, last)
			}
		}
		last.ends = append(last.ends, at)
	}
	var b strings.Builder
	for epoch, n := range settled {
		if g := (grant{uint32(p.shard), epoch}); c.epochs[g] == n && !c.broken[g] {
			fmt.Fprintf(&b, "%d ", epoch)
		}
	}
	return runs, others, b.String()
}

// code is the character of a settlement in the script.
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
