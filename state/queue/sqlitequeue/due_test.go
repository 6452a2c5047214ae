package sqlitequeue

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// More jobs of a tenant with a limit came due than there is room for in memory: those of others
// come nevertheless, and all of its own, once each, when it may go on.
func TestThrottledJobsThatCameDueHoldUpNobody(t *testing.T) {
	const many = 6000
	for name, limit := range map[string]queue.Limit{"a rate": {PerSecond: 0.001, Burst: 1}, "a bound": {AtOnce: 1}} {
		t.Run(name, func(t *testing.T) {
			c := newClocked(t, Options{bounds: bounds{ahead: 64, backs: 1000, groups: 100}})
			c.set(func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"big": limit} })
			var all []*tidemill.Message
			for i := range many {
				all = append(all, &tidemill.Message{ID: fmt.Sprint(i), Tenant: "big", To: "q", At: c.at.Add(time.Second)})
			}
			c.add(all...)
			c.add(&tidemill.Message{ID: "small", Tenant: "small", To: "q", At: c.at.Add(2 * time.Second)})
			seen := map[string]bool{}
			take := func() {
				for _, m := range c.now(100) {
					if seen[m.ID] {
						t.Fatalf("job %s was handed out twice", m.ID)
					}
					seen[m.ID] = true
				}
			}
			for c.at = c.at.Add(time.Minute); !seen["small"]; c.at = c.at.Add(100 * time.Millisecond) {
				if take(); len(seen) > 10 || c.at.UnixMilli() > 1_800_000_070_000 {
					t.Fatalf("%d jobs came in ten seconds, and not that of the tenant without a limit", len(seen))
				}
			}
			c.set(func(s *queue.Settings) { s.Tenants = nil })
			for i := 0; len(seen) <= many; i++ {
				if take(); i == 2*many/100 {
					st, err := c.Stats(t.Context(), "q")
					t.Fatalf("%d jobs came of %d: %+v, %v", len(seen), many+1, st, err)
				}
				c.at = c.at.Add(time.Second)
			}
			q := c.find("q")
			mem := q.lock()
			defer q.unlock()
			if len(mem.waiting.backs)+len(mem.waiting.tallies) > 0 {
				t.Errorf("when all are out there are %d jobs that wait, %v counted", len(mem.waiting.backs), mem.waiting.tallies)
			}
		})
	}
}
