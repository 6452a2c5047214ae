package redisqueue

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/state/queue"
)

// bounds is a queue whose tenants may have 4 jobs out, one of them 1, and one as many as it likes.
type bounds struct {
	*table
	src   tidemill.Source
	ahead *atomic.Int64
}

func newBounds(t *testing.T, client rueidis.Client) *bounds {
	t.Helper()
	ahead := new(atomic.Int64)
	b := newTable(t, client, Options{ahead: func() time.Duration { return time.Duration(ahead.Load()) }})
	if _, err := b.Set(t.Context(), "q", func(s *queue.Settings) {
		s.Tenant.AtOnce = 4
		s.Tenants = map[string]queue.Limit{"one": {AtOnce: 1}, "free": {}}
	}); err != nil {
		t.Fatal(err)
	}
	c := &bounds{b, b.Open("q", queue.Options{Lease: time.Minute}), ahead}
	for i := range 12 {
		for _, tenant := range []string{"t", "u|3:x", "one", "free"} {
			c.add(&tidemill.Message{ID: fmt.Sprint(tenant, i), Tenant: tenant, To: "q", Payload: []byte("p")})
		}
	}
	return c
}

func (c *bounds) key(name string) string { return c.tags[0] + "1:" + name }

func (c *bounds) do(words ...string) rueidis.RedisResult {
	c.Helper()
	r := c.client.Do(c.Context(), c.client.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil {
		c.Fatal(err)
	}
	return r
}

func (c *bounds) hash(name string) map[string]string {
	c.Helper()
	h, err := c.do("HGETALL", c.key(name)).AsStrMap()
	if err != nil {
		c.Fatal(err)
	}
	return h
}

// counts checks how many jobs are counted, and of how many hand-outs tenants are known.
func (c *bounds) counts(handouts int, want map[string]string) {
	c.Helper()
	got := c.hash("outs")
	for field := range got {
		if _, err := strconv.Atoi(field); err == nil {
			delete(got, field)
			handouts--
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || handouts != 0 {
		c.Fatalf("counted are %v, want %v; tenants of %d hand-outs more are known than should be", got, want, -handouts)
	}
}

func full() map[string]string { return map[string]string{"tt": "4", "tu|3:x": "4", "tone": "1"} }

// first takes what may be out: 9 jobs that count, and 12 that do not.
func (c *bounds) first() []*tidemill.Message {
	c.Helper()
	got := c.take(c.src, 21)
	c.counts(1, full())
	return got
}

// named is first, with marks that name tenants instead of numbers, as those of ordered queues do.
func (c *bounds) named() []*tidemill.Message {
	c.Helper()
	got := c.first()
	epoch, n := strconv.Itoa(int(got[0].Mark.Epoch)), 0
	for _, m := range got {
		pos := strconv.FormatUint(m.Mark.Lo, 10)
		if mark, _ := c.do("HGET", c.key("out"), pos).ToString(); strings.HasPrefix(mark, epoch+"u") {
			c.do("HSET", c.key("out"), pos, fmt.Sprintf("%st|%d:%s", epoch, len(m.Tenant), m.Tenant))
			n++
		}
	}
	if n != 9 {
		c.Fatalf("%d jobs are marked as counted for their tenants, want 9", n)
	}
	c.do("HDEL", c.key("outs"), epoch)
	return got
}

// Jobs that count for a bound are counted until they come back, whatever way: none stays
// counted, and none comes that is one too many.
func TestWhatIsCountedOut(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		for name, f := range map[string]func(*bounds){
			"of a hand-out that ends at once, then the next": func(c *bounds) {
				c.deliver(c.src, c.first()...)
				c.counts(0, map[string]string{})
				c.deliver(c.src, c.take(c.src, 9)...)
				c.counts(0, map[string]string{})
			},
			"of one that ends bit by bit": func(c *bounds) {
				got := c.first()
				for i, m := range got {
					if m.Tenant == "t" {
						c.deliver(c.src, got[i])
						break
					}
				}
				want := full()
				want["tt"] = "3"
				c.counts(1, want)
				c.take(c.src, 1)
				c.counts(2, full())
			},
			"that are put off, left and dead": func(c *bounds) {
				var ends []tidemill.Settlement
				for _, m := range c.first() {
					if m.Tenant == "t" {
						e := tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: time.Hour}
						switch len(ends) {
						case 1:
							e = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left}
						case 2:
							e = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Dead, Cause: "why"}
						}
						ends = append(ends, e)
					}
				}
				if err := c.src.Settle(c.Context(), ends); err != nil {
					c.Fatal(err)
				}
				want := full()
				want["tt"] = "1"
				c.counts(1, want)
				c.ahead.Add(int64(2 * time.Minute))
				c.take(c.src, 21) // all leases are over
				c.counts(1, full())
			},
			"whose lease is lost": func(c *bounds) {
				c.first()
				c.ahead.Add(int64(2 * time.Minute))
				c.first()
			},
			"of a hand-out whose tenants are not known any more": func(c *bounds) {
				got := c.first()
				c.do("HDEL", c.key("outs"), strconv.Itoa(int(got[0].Mark.Epoch)))
				c.deliver(c.src, got...)
				c.counts(0, map[string]string{})
			},
			"with marks that name the tenant": func(c *bounds) {
				c.deliver(c.src, c.named()...)
				c.counts(0, map[string]string{})
			},
			"with marks that name the tenant, whose lease is lost": func(c *bounds) {
				c.named()
				c.ahead.Add(int64(2 * time.Minute))
				c.first()
			},
			"though somebody counted too many": func(c *bounds) {
				c.deliver(c.src, c.first()...)
				c.do("HSET", c.key("outs"), "tt", "4", "tone", "9")
				c.deliver(c.src, c.take(c.src, 4)...)
				c.deliver(c.src, c.take(c.src, 4)...)
				c.deliver(c.src, c.take(c.src, 5)...)
				c.counts(0, map[string]string{})
			},
		} {
			t.Run(name, func(t *testing.T) { f(newBounds(t, client)) })
		}
	})
}
