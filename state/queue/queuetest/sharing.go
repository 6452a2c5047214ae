package queuetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// sharing holds what priorities promise.
var sharing = []promise{
	{"hands out the highest priority first",
		"what is urgent does not wait behind what is not", 0, highestFirst},
	{"gives each priority its weight's part",
		"none starves, and none is a privilege only in name", 0, sharesByWeight},
	{"gives priorities the weights that were set",
		"how much more urgent is the operator's to say", 0, sharesAsSet},
	{"gives each priority its weight's part of what a limit lets go",
		"a limit must not leave low priorities with nothing", 0, sharesUnderLimits},
	{"lets a priority have what others do not use",
		"weights divide what is scarce, nothing else", 0, sharesWhatIsLeft},
	{"gives nothing for a time of silence",
		"who was idle must not push others aside later", 0, sharesNoPast},
	{"says how deep each priority is and how long its oldest job waits",
		"a priority that starves has to be seen", 0, sharesSeen},
}

// fairness holds what is promised to tenants and keys.
var fairness = []promise{
	{"does not delay one tenant's ten jobs by another's hundred thousand",
		"one tenant never crowds out the others", 0, tenMeetHundredThousand},
	{"serves tenants alike, whatever their backlogs",
		"fair is a number: Jain's index of 0.95 at the least", 0, servesAlike},
	{"keeps first in, first out for each tenant",
		"turns are between tenants, not within one", 0, fifoOfTenants},
	{"keeps first in, first out over all tenants where fairness is off",
		"who wants a plain queue has one", 0, fifoOfAll},
	{"lets the keys of a tenant take turns where they are asked to",
		"one noisy user must not delay the others of the same tenant", 0, turnsOfKeys},
	{"puts what comes back in its old place",
		"a retry must not lose its turn to what came later", 0, backInPlace},
}

// many makes n jobs of a tenant and priority, named after both.
func many(n int, tenant string, priority uint8) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = job(fmt.Sprintf("%s%d/%d", tenant, priority, i))
		ms[i].Tenant, ms[i].Priority = tenant, priority
	}
	return ms
}

// addAll adds many jobs in parts.
func (b *bench) addAll(ms []*tidemill.Message) {
	b.Helper()
	for part := range slices.Chunk(ms, 1000) {
		b.add(queue.New, part...)
	}
}

// serve takes n jobs, each at a time, delivers them, and counts them by the result of of.
func serve[K comparable](b *bench, src tidemill.Source, n, each int, of func(*tidemill.Message) K) map[K]int {
	b.Helper()
	got := map[K]int{}
	for n > 0 {
		ms := b.take(src, min(n, each))
		if len(ms) == 0 {
			b.Fatalf("%d jobs are missing", n)
		}
		for _, m := range ms {
			got[of(m)]++
		}
		b.deliver(src, ms...)
		n -= len(ms)
	}
	return got
}

func priorityOf(m *tidemill.Message) uint8 { return m.Priority }
func tenantOf(m *tidemill.Message) string  { return m.Tenant }

func highestFirst(b *bench) {
	src := b.open("q")
	for _, p := range []uint8{0, 7, 2, 255} {
		b.add(queue.New, many(1, "t", p)...)
	}
	b.want(b.take(src, 4), "t255/0", "t7/0", "t2/0", "t0/0")
}

func sharesByWeight(b *bench) {
	for _, each := range []int{1, 7, 210} {
		src := b.open("q")
		for _, p := range []uint8{0, 1, 2} {
			ms := many(400, fmt.Sprint("of", each, "-"), p)
			b.add(queue.New, ms...)
		}
		got := serve(b, src, 420, each, priorityOf)
		for p, want := range map[uint8]int{0: 20, 1: 80, 2: 320} {
			if off := math.Abs(float64(got[p] - want)); off > 16 {
				b.Errorf("of 420 jobs, %d a call, priority %d had %d, want about %d (all: %v)", each, p, got[p], want, got)
			}
		}
		serve(b, src, 3*400-420, 300, priorityOf)
	}
}

func sharesAsSet(b *bench) {
	b.set(func(s *queue.Settings) { s.Weights = map[uint8]int{0: 1, 9: 2} })
	for _, p := range []uint8{0, 9} {
		b.add(queue.New, many(300, "t", p)...)
	}
	got := serve(b, b.open("q"), 300, 5, priorityOf)
	if got[0] < 95 || got[0] > 105 {
		b.Errorf("with a weight of 1 beside 2, priority 0 had %d of 300, want 100", got[0])
	}
}

func sharesUnderLimits(b *bench) {
	for _, limit := range []struct {
		name string
		set  func(s *queue.Settings)
	}{
		{"of each tenant", func(s *queue.Settings) { s.Tenant.AtOnce = 10 }},
		{"of one tenant", func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"t": {AtOnce: 10}} }},
		{"of each key", func(s *queue.Settings) { s.Key.AtOnce = 10 }},
	} {
		b.set(func(s *queue.Settings) { *s = queue.Settings{}; limit.set(s) })
		src := b.open("q")
		for _, p := range []uint8{0, 1, 2} {
			jobs := many(400, "t", p)
			for _, j := range jobs {
				j.ID, j.Key = limit.name+j.ID, []byte("k")
			}
			b.add(queue.New, jobs...)
		}
		got := serve(b, src, 210, 200, priorityOf)
		for p, want := range map[uint8]int{0: 10, 1: 40, 2: 160} {
			if off := math.Abs(float64(got[p] - want)); off > 16 || got[p] == 0 {
				b.Errorf("of 210 jobs under a limit %s, priority %d had %d, want about %d (all: %v)", limit.name, p, got[p], want, got)
			}
		}
		serve(b, src, 3*400-210, 200, priorityOf)
	}
}

func sharesWhatIsLeft(b *bench) {
	src := b.open("q")
	b.add(queue.New, many(100, "t", 0)...)
	b.add(queue.New, many(1, "t", 5)...)
	if got := serve(b, src, 101, 50, priorityOf); got[0] != 100 || got[5] != 1 {
		b.Errorf("priorities 0 and 5 had %v, want 100 and 1", got)
	}
}

func sharesNoPast(b *bench) {
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Weights = map[uint8]int{0: 1, 1: 1} })
	b.add(queue.New, many(900, "t", 0)...)
	serve(b, src, 500, 50, priorityOf)
	b.add(queue.New, many(200, "t", 1)...)
	if got := serve(b, src, 100, 1, priorityOf); got[0] < 45 || got[0] > 55 {
		b.Errorf("after 500 jobs alone, priority 0 had %d of the next 100, want half", got[0])
	}
}

func sharesSeen(b *bench) {
	depths := func(want ...queue.Depth) {
		b.Helper()
		got, err := b.whole().Depths(b.Context(), "q")
		if err != nil || len(got) != len(want) {
			b.Fatalf("depths are %+v, %v; want %+v", got, err, want)
		}
		for i := range want {
			if got[i].Priority != want[i].Priority || got[i].Waiting != want[i].Waiting || !b.same(got[i].Oldest, want[i].Oldest) {
				b.Fatalf("depths are %+v, want %+v", got, want)
			}
		}
	}
	depths()
	src := b.open("q")
	first := queue.Millis(b.now())
	b.add(queue.New, many(3, "t", 0)...)
	b.sleep(time.Hour)
	second := queue.Millis(b.now())
	b.add(queue.New, many(4, "u", 0)...)
	b.add(queue.New, many(2, "u", 6)...)
	later := many(1, "v", 8)
	later[0].At = b.now().Add(time.Hour)
	b.add(queue.New, later...)
	depths(queue.Depth{Priority: 6, Waiting: 2, Oldest: second}, queue.Depth{Waiting: 7, Oldest: first})
	got := b.take(src, 4)
	b.want(got, "u6/0", "u6/1", "t0/0", "u0/0")
	depths(queue.Depth{Waiting: 5, Oldest: first})
	got = append(got, b.take(src, 4)...)
	depths(queue.Depth{Waiting: 1, Oldest: second})
	b.settle(src, tidemill.Settlement{ID: got[2].ID, Mark: got[2].Mark, End: tidemill.Again})
	depths(queue.Depth{Waiting: 2, Oldest: first})
	tenants, err := b.whole().Tenants(b.Context(), "q", 5)
	if err != nil || len(tenants) != 2 || tenants[0].Waiting != 1 || tenants[1].Waiting != 1 ||
		tenants[0].Tenant != "t" || tenants[1].Tenant != "u" || !b.same(tenants[0].Oldest, first) || !b.same(tenants[1].Oldest, second) {
		b.Fatalf("tenants have %+v, %v; want one each, of %v and %v", tenants, err, first, second)
	}
	if one, err := b.whole().Tenants(b.Context(), "q", 1); err != nil || len(one) != 1 {
		b.Fatalf("the deepest tenant is %+v, %v", one, err)
	}
}

func tenMeetHundredThousand(b *bench) {
	src := b.open("q")
	b.addAll(many(100_000, "big", 0))
	got := b.take(src, 30)
	b.deliver(src, got...)
	b.add(queue.New, many(10, "small", 0)...)
	if got := serve(b, src, 21, 3, tenantOf); got["small"] != 10 {
		b.Errorf("of 21 jobs, 3 a call, the small tenant had %v, want all its 10", got)
	}
	b.add(queue.New, many(20, "small", 0)[10:]...)
	if got := serve(b, src, 20, 20, tenantOf); got["small"] != 10 {
		b.Errorf("of 20 jobs in one call the small tenant had %v, want all its 10", got)
	}
}

func servesAlike(b *bench) {
	src := b.open("q")
	const tenants = 20
	for i := range tenants {
		b.addAll(many(100+i*i*10, fmt.Sprintf("tenant%02d", i), 0))
	}
	for _, each := range []int{1, 13, 64, 400} {
		got := serve(b, src, 400, each, tenantOf)
		sum, squares := 0.0, 0.0
		for _, n := range got {
			sum += float64(n)
			squares += float64(n * n)
		}
		if jain := sum * sum / (tenants * squares); jain < 0.95 {
			b.Errorf("in calls for %d, Jain's index is %.3f, want 0.95: %v", each, jain, got)
		}
	}
}

func fifoOfTenants(b *bench) {
	src := b.open("q")
	for i := range 60 {
		m := job(fmt.Sprint(i))
		m.Tenant, m.Key = []string{"a", "b", "c"}[i*i%3], fmt.Append(nil, i%4)
		b.add(queue.New, m)
	}
	last := map[string]int{}
	for range 12 {
		ms := b.take(src, 5)
		for _, m := range ms {
			var i int
			if _, err := fmt.Sscan(m.ID, &i); err != nil || i < last[m.Tenant] {
				b.Fatalf("tenant %s had job %s after %d", m.Tenant, m.ID, last[m.Tenant])
			}
			last[m.Tenant] = i
		}
		b.deliver(src, ms...)
	}
}

func fifoOfAll(b *bench) {
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Fair = queue.Unfair })
	var ids []string
	for i := range 40 {
		m := job(fmt.Sprint(i))
		m.Tenant = []string{"a", "b", "c"}[i*i/7%3]
		b.add(queue.New, m)
		ids = append(ids, m.ID)
	}
	b.want(append(b.take(src, 7), b.take(src, 40)...), ids...)
}

func turnsOfKeys(b *bench) {
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Fair = queue.ByKey })
	noisy := many(2000, "t", 0)
	for _, m := range noisy {
		m.Key = []byte("noisy")
	}
	b.addAll(noisy)
	quiet := many(5, "t", 1)
	for i, m := range quiet {
		m.Priority, m.Key = 0, []byte("quiet")
		if i == 4 {
			m.Key = nil
		}
	}
	b.add(queue.New, quiet...)
	b.addAll(many(100, "u", 0))
	keyOf := func(m *tidemill.Message) string { return m.Tenant + " " + string(m.Key) }
	if got := serve(b, src, 24, 4, keyOf); got["t quiet"] != 4 || got["t "] != 1 || got["u "] < 10 || got["t noisy"] < 4 {
		b.Errorf("of 24 jobs the keys had %v, want 12 of u and all 5 of the quiet", got)
	}
	ms := b.take(src, 300)
	last := -1
	for _, m := range ms {
		var i int
		if string(m.Key) != "noisy" {
			continue
		}
		if _, err := fmt.Sscanf(m.ID, "t0/%d", &i); err != nil || i <= last {
			b.Fatalf("the noisy key had job %s after %d", m.ID, last)
		}
		last = i
	}
}

func backInPlace(b *bench) {
	src := b.open("q")
	b.add(queue.New, many(4, "t", 0)...)
	b.add(queue.New, many(4, "u", 0)...)
	got := b.take(src, 4)
	b.want(got, "t0/0", "t0/1", "u0/0", "u0/1")
	for _, i := range []int{1, 0, 3} {
		b.settle(src, tidemill.Settlement{ID: got[i].ID, Mark: got[i].Mark, End: tidemill.Again})
	}
	rest := b.take(src, 10)
	last := map[string]string{}
	for _, m := range rest {
		if m.ID < last[m.Tenant] {
			b.Fatalf("tenant %s had job %s after %s", m.Tenant, m.ID, last[m.Tenant])
		}
		last[m.Tenant] = m.ID
	}
	if len(rest) != 7 {
		b.Fatalf("%d jobs came, want 7", len(rest))
	}
}
