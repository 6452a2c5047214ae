package queuetest

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// switching holds what stays true where settings change while jobs wait.
var switching = []promise{
	{"hands out what waited before keys were kept apart",
		"a limit that is set must not strand a backlog", 0, switchesToKeys},
	{"hands out what waits with a key when keys are kept apart no more",
		"a limit that is taken away holds up nobody", 0, switchesFromKeys},
}

// keys are n jobs of a tenant, of k keys in turns.
func keys(prefix string, n, k int) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = keyed(fmt.Sprint(prefix, i), "t", fmt.Sprint("k", i%k), 0)
	}
	return ms
}

// drained takes all jobs, a few at a time, and checks their number.
func (b *bench) drained(src tidemill.Source, want int) {
	b.Helper()
	n := 0
	for {
		got := b.takeNow(src, 2)
		if len(got) == 0 {
			break
		}
		n += len(got)
		b.deliver(src, got...)
	}
	if n != want {
		b.Fatalf("%d jobs came, want %d", n, want)
	}
}

func switchesToKeys(b *bench) {
	for name, change := range map[string]func(*queue.Settings){
		"fairness of keys": func(s *queue.Settings) { s.Fair = queue.ByKey },
		"a limit of keys":  func(s *queue.Settings) { s.Key.AtOnce = 5 },
	} {
		b.set(func(s *queue.Settings) { *s = queue.Settings{} })
		src := b.open("q")
		b.add(queue.New, many(3, name+" before", 0)...) // all of the same tenant
		b.set(change)
		after := keys(name+" after", 2, 2)
		for _, m := range after {
			m.Tenant = name + " before"
		}
		b.add(queue.New, after...)
		b.drained(src, 5)
		b.add(queue.New, many(2, name+" more", 0)...)
		b.drained(src, 2)
	}
}

func switchesFromKeys(b *bench) {
	b.set(func(s *queue.Settings) { s.Key.AtOnce = 5 })
	src := b.open("q")
	b.add(queue.New, keys("apart", 4, 2)...)
	b.set(func(s *queue.Settings) { s.Key = queue.Limit{} })
	b.add(queue.New, keys("together", 10, 1)...)
	b.did(1)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", IDs: []string{"together5"}}))
	b.drained(src, 13)
	b.add(queue.New, keys("more", 3, 1)...)
	b.did(1)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", IDs: []string{"more0"}}))
	b.drained(src, 2)
}

func ordersOfOneMoment(b *bench) {
	src := b.ordered()
	at := b.now().Add(time.Hour).Truncate(time.Second)
	ms := keys("", 12, 1)
	for _, m := range ms {
		m.At = at
	}
	b.add(queue.New, ms...)
	b.sleep(time.Hour + time.Second + b.tick())
	for i := range ms {
		got := b.takeNow(src, 5)
		b.want(got, fmt.Sprint(i))
		b.deliver(src, got...)
	}
}
