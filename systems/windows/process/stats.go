package process

import (
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
)

// counters of one step.
type counters struct {
	records, skipped, dead, failed atomic.Uint64
	took                           atomic.Int64
}

// count counts what became of the shown items.
func (c *counters) count(items []Item, shown []int) {
	var skipped, dead uint64
	for _, i := range shown {
		switch items[i].Fate {
		case tidemill.Skipped:
			skipped++
		case tidemill.Dead:
			dead++
		}
	}
	c.records.Add(uint64(len(shown)))
	c.skipped.Add(skipped)
	c.dead.Add(dead)
}

// Stats are what a step has done since the chain was made.
type Stats struct {
	Processor string        // "read": the reading of stored records
	Records   uint64        // that were shown to it
	Skipped   uint64        // by it
	Dead      uint64        // by it, or because it failed
	Failed    uint64        // records that it failed at; with OnError Pass they went on unchanged
	Took      time.Duration // in it, pages of all batches together
}

// Stats returns the counts of reading, and of each step in the chain's order.
func (c *Chain) Stats() []Stats {
	all := []Stats{c.read.stats(Reading)}
	for _, s := range c.steps {
		all = append(all, s.counters.stats(s.Processor.Name()))
	}
	return all
}

func (c *counters) stats(name string) Stats {
	return Stats{name, c.records.Load(), c.skipped.Load(), c.dead.Load(), c.failed.Load(), time.Duration(c.took.Load())}
}
