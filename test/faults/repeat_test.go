//go:build servers

package faults

import (
	"testing"
	"time"
)

// TestProducersRepeatAndShuffle sends every event up to five times, in any order within
// five hundred.
func TestProducersRepeatAndShuffle(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("one", "two")
		l := w.startLoad(loadOptions{Rate: 500, Door: 100, Dup: 100, More: 4, Shuffle: 500})
		w.pass(4 * time.Second)
		_, got := w.finish(afterFault, allowance{})
		w.struck("repeated sendings", 1000, int(l.confirmed.Load())-len(got.rows))
	})
}

// TestBatchesAreInsertedAgain loses the answers of inserts, and kills the instance and
// ClickHouse in turn during inserts: the same batch is sent again, and the same events in other
// batches.
func TestBatchesAreInsertedAgain(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		c := newCutter(w, w.clickhouse.Addr)
		w.through(w.clickhouse, c.addr)
		in := w.run("one")[0]
		w.startLoad(loadOptions{})
		c.lose(2, 0, "INSERT")
		for n := range 4 {
			fired := c.fired.Load()
			w.until(10*time.Second, "answers of inserts are lost", func() bool { return c.fired.Load() >= fired+2 })
			if n%2 == 0 {
				in.Kill()
				w.hit("killed")
				in.Start()
			} else {
				w.kill(w.clickhouse)
				w.hit("killed")
				w.clickhouse.Restart()
			}
		}
		c.lose(1, 0)
		w.finish(afterClaim, allowance{})
		w.struck("answers of inserts lost", 8, int(c.fired.Load()))
		w.struck("killed while inserts go on", 4, w.hits["killed"])
	})
}
