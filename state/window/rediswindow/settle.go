package rediswindow

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/leases"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// settleMost is how many settlements one script takes.
const settleMost = 500

// Settle implements tidemill.Source. After a lost answer, a settlement that is sent again
// may find its window gone: then it is Stale, and the books have it.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), leases.Check(ends)); err != nil {
		return err
	}
	byShard := make([][]int, len(c.s.tags))
	for i := range tidemill.ByIDFirst(ends) {
		e := &ends[i]
		if e.Outcome != tidemill.Unanswered {
			continue
		}
		shard := int(e.Mark.Shard)
		if (e.Mark == tidemill.Mark{}) {
			batch, _, ok := window.ParseID(e.ID)
			if !ok {
				e.Outcome = tidemill.Stale
				continue
			}
			shard = c.s.shard(batch)
		}
		if shard >= len(byShard) {
			e.Outcome = tidemill.Stale // this source did not hand it out
			continue
		}
		byShard[shard] = append(byShard[shard], i)
	}
	return c.s.each(func(shard int) error {
		for all := range slices.Chunk(byShard[shard], settleMost) {
			if err := c.settle(ctx, shard, ends, all); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle runs the script for some of the ends.
func (c *source) settle(ctx context.Context, shard int, ends []tidemill.Settlement, which []int) error {
	args := make([]string, 0, 10*len(which))
	for _, i := range which {
		args = appendEnd(args, &ends[i])
	}
	took, err := c.s.run(ctx, settleScript, shard, args...).ToString()
	if err == nil && len(took) != len(which) {
		err = reply("settle windows")
	}
	if err != nil {
		return failed(err, "settle %d windows", len(which))
	}
	marks := make([]tidemill.Mark, len(which)) // the stale ones too; Keep forgets one without a mark
	for at, i := range which {
		e := &ends[i]
		marks[at], e.Outcome = e.Mark, tidemill.Stale
		if took[at] == '1' {
			e.Outcome = tidemill.Applied
		}
	}
	c.out.Forget(marks...)
	return nil
}

// appendEnd writes a settlement as arguments of the script.
func appendEnd(args []string, e *tidemill.Settlement) []string {
	if (e.Mark == tidemill.Mark{}) {
		batch, revision, _ := window.ParseID(e.ID)
		args = append(args, strconv.FormatUint(revision, 10), "", "", batch)
	} else {
		args = append(append(args, lease(e.Mark)...), "")
	}
	what, n := "D", [3]uint64{}
	switch {
	case e.End == tidemill.Left:
		what = "L"
	case e.End == tidemill.Again:
		what = "A"
		n[0] = uint64(max(0, (e.After.Microseconds()+999)/1000))
		if e.CountTry {
			n[1] = 1
		}
	case e.Fate == tidemill.Dead:
		what = "X"
	case e.Records != tidemill.Count{}:
		what, n = "R", [3]uint64{e.Records.Delivered, e.Records.Skipped, e.Records.Dead}
	case e.Fate == tidemill.Skipped:
		what = "S"
	}
	args = append(args, what)
	for _, k := range n {
		args = append(args, strconv.FormatUint(k, 10))
	}
	return append(args, e.Kind.String(), entry.Cut(e.Cause))
}
