package queuetest

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// limiting holds what limits promise.
var limiting = []promise{
	{"hands out as many a second as the queue's limit says",
		"a destination that asks for 100 a second gets 100", 0, limitsQueue},
	{"shares a limit between sources",
		"instances are added for safety, not to break a limit", 0, limitsTogether},
	{"limits each tenant, and blocks nobody else",
		"a throttled tenant waits alone", 0, limitsTenants},
	{"lets jobs come due beside thousands of a tenant that is held back",
		"a partner is away, and thousands of retries wait for it alone", 0, limitsWhatComesDue},
	{"gives single tenants limits of their own",
		"plans differ", 0, limitsByName},
	{"limits each key of a tenant",
		"one user must not use up what a tenant may", 0, limitsKeys},
	{"bounds what is out at once, of the queue",
		"a destination has so many connections", 0, boundsQueue},
	{"bounds what is out at once, of each tenant and key",
		"one tenant must not hold all workers", 0, boundsTenants},
	{"gives what a lost lease held back to its limit",
		"a crash must not use up a limit for ever", 0, boundsLost},
	{"burns nothing where a limit holds back",
		"waiting is no try", 0, burnsNothing},
	{"obeys a new limit at once",
		"an operator raises it because jobs wait", 0, obeysAtOnce},
	{"wakes when a limit lets go",
		"nothing else may come that would", 0, wakesForLimit},
	{"lets a burst go after a pause, and no more",
		"a pause saves up a little, not everything", 0, limitsBurst},
	{"lets work of others take turns within its limits",
		"a destination does not care whether it is asked by jobs or by a replay", 0, limitsOthers},
	{"lets no work of others through a pause or a shut gate",
		"a destination that is away is not asked by a replay either", 0, holdsOthers},
}

// during takes and delivers as many jobs as it can every step for d, and counts them by the
// result of of. The clock is the store's.
func during[K comparable](b *bench, d, step time.Duration, of func(*tidemill.Message) K, sources ...tidemill.Source) map[K]int {
	b.Helper()
	got := map[K]int{}
	for end := b.now().Add(d); b.now().Before(end); b.sleep(step) {
		for _, src := range sources {
			ms := b.takeNow(src, 500)
			for _, m := range ms {
				got[of(m)]++
			}
			b.deliver(src, ms...)
		}
	}
	return got
}

// within10 checks that a number is within ten percent. At a server it may be less: on a busy
// machine the test may ask too late for jobs that a limit allows.
func (b *bench) within10(what string, got int, want float64) {
	b.Helper()
	less := want/10 + 1
	if b.Live {
		less = want / 3
	}
	if more := float64(got) - want; more > want/10+1 || more < -less {
		b.Errorf("%s: %d, want %.0f, at most 10%% more and %.0f less", what, got, want, less)
	}
}

func limitsQueue(b *bench) {
	b.set(func(s *queue.Settings) { s.Limit = queue.Limit{PerSecond: 100, Burst: 100} })
	b.addAll(many(4000, "t", 0))
	src := b.open("q")
	b.takeNow(src, 200) // the burst
	start := b.now()
	got := during(b, 10*time.Second, 100*time.Millisecond, tenantOf, src)
	b.within10("of 100 a second", got["t"], 100*b.now().Sub(start).Seconds())
}

func limitsTogether(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 50, Burst: 50} })
	b.addAll(many(2000, "t", 0))
	one, two := b.open("q"), b.open("q")
	b.takeNow(one, 100)
	start := b.now()
	got := during(b, 10*time.Second, 50*time.Millisecond, tenantOf, one, two)
	b.within10("of 50 a second over two sources", got["t"], 50*b.now().Sub(start).Seconds())
}

func limitsTenants(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 0.01, Burst: 1} })
	b.addAll(many(2000, "big", 5))
	src := b.open("q")
	b.want(b.takeNow(src, 100), "big5/0")
	b.add(queue.New, many(1, "small", 0)...)
	b.add(queue.New, many(1, "other", 5)...)
	b.want(b.takeNow(src, 100), "other5/0", "small0/0")
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 20, Burst: 20} })
	b.sleep(time.Second)
	b.takeNow(src, 100)
	start := b.now()
	got := during(b, 10*time.Second, 100*time.Millisecond, tenantOf, src)
	b.within10("of 20 a second", got["big"], 20*b.now().Sub(start).Seconds())
}

func limitsWhatComesDue(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"big": {AtOnce: 1}} })
	all := many(3000, "big", 0)
	for _, m := range all {
		m.At = b.now().Add(time.Minute)
	}
	b.addAll(all)
	small := job("small")
	small.Tenant, small.At = "small", b.now().Add(61*time.Second)
	b.add(queue.New, small)
	b.sleep(2 * time.Minute)
	src := b.open("q")
	for range 20 {
		for _, m := range b.takeNow(src, 10) {
			if m.ID == small.ID {
				return
			}
		}
		b.sleep(time.Second)
	}
	b.Error("a job of a tenant without a limit is not handed out in 20 seconds")
}

func limitsByName(b *bench) {
	b.set(func(s *queue.Settings) {
		s.Tenant = queue.Limit{PerSecond: 10, Burst: 10}
		s.Tenants = map[string]queue.Limit{"fast": {PerSecond: 40, Burst: 40}, "free": {}}
	})
	for _, t := range []string{"slow", "fast", "free"} {
		b.addAll(many(1000, t, 0))
	}
	src := b.open("q")
	start := b.now()
	got := during(b, 10*time.Second, 100*time.Millisecond, tenantOf, src)
	took := b.now().Sub(start).Seconds() + 1 // the burst
	b.within10("slow, of 10 a second", got["slow"], 10*took)
	b.within10("fast, of 40 a second", got["fast"], 40*took)
	if got["free"] != 1000 {
		b.Errorf("the tenant without a limit had %d, want all 1000", got["free"])
	}
}

func limitsKeys(b *bench) {
	b.set(func(s *queue.Settings) { s.Key = queue.Limit{PerSecond: 10, Burst: 10} })
	var all []*tidemill.Message
	for i := range 900 {
		m := job(fmt.Sprint(i))
		m.Tenant = []string{"t", "u"}[i%2]
		if m.Key = []byte("k"); i%3 == 0 {
			m.Key = []byte("l")
		}
		if i >= 890 {
			m.Key = nil
		}
		all = append(all, m)
	}
	b.addAll(all)
	src := b.open("q")
	start := b.now()
	got := during(b, 5*time.Second, 100*time.Millisecond, func(m *tidemill.Message) string { return m.Tenant + " " + string(m.Key) }, src)
	took := b.now().Sub(start).Seconds() + 1 // the burst
	for _, k := range []string{"t k", "t l", "u k", "u l"} {
		b.within10("key "+k+", of 10 a second", got[k], 10*took)
	}
	if got["t "]+got["u "] != 10 {
		b.Errorf("of the 10 jobs without a key came %d", got["t "]+got["u "])
	}
}

func boundsQueue(b *bench) {
	b.set(func(s *queue.Settings) { s.Limit.AtOnce = 5 })
	b.add(queue.New, jobs(20)...)
	one, two := b.open("q"), b.open("q")
	got := b.takeNow(one, 3)
	more := b.takeNow(two, 10)
	if len(got) != 3 || len(more) != 2 {
		b.Fatalf("two sources have %d and %d out, want 3 and 2", len(got), len(more))
	}
	b.deliver(two, more[0])
	b.settle(two, tidemill.Settlement{ID: more[1].ID, Mark: more[1].Mark, End: tidemill.Again, After: time.Hour})
	b.want(b.takeNow(one, 10), "5", "6")
}

func boundsTenants(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant.AtOnce, s.Key.AtOnce = 4, 1 })
	var all []*tidemill.Message
	for i := range 40 {
		m := job(fmt.Sprint(i))
		m.Tenant, m.Key = "t", fmt.Append(nil, i/2) // 0 0 1 1 2 2 …
		if i >= 30 {
			m.Tenant, m.Key = "u", nil
		}
		all = append(all, m)
	}
	b.add(queue.New, all...)
	src := b.open("q")
	got := b.takeNow(src, 100)
	by := map[string]int{}
	for _, m := range got {
		by[m.Tenant]++
		by[m.Tenant+" "+string(m.Key)]++
	}
	if by["t"] != 4 || by["u"] != 4 || by["t 0"] != 1 || by["t 3"] != 1 {
		b.Fatalf("out are %v, want 4 of each tenant, one of each key", by)
	}
	for _, m := range got {
		if m.ID == "0" {
			b.deliver(src, m)
		}
	}
	b.want(b.takeNow(src, 100), "1")
	for _, m := range got {
		if m.ID == "2" {
			b.settle(src, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: time.Hour})
		}
	}
	b.want(b.takeNow(src, 100), "3")
	b.want(b.takeNow(src, 100))
}

func boundsLost(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant.AtOnce = 2 })
	b.add(queue.New, many(6, "t", 0)...)
	src := b.open("q")
	b.want(b.takeNow(src, 10), "t0/0", "t0/1")
	b.kill()
	b.sleep(2 * lease)
	src = b.open("q")
	got := b.takeNow(src, 10)
	b.want(got, "t0/0", "t0/1")
	b.deliver(src, got...)
	got = b.takeNow(src, 10)
	b.want(got, "t0/2", "t0/3")
	b.want(b.takeNow(src, 10))
}

func burnsNothing(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 1, Burst: 1, AtOnce: 1} })
	b.add(queue.New, many(3, "t", 0)...)
	src := b.open("q")
	came := 0
	for range 3 {
		for range 3 {
			got := b.takeNow(src, 10)
			if len(got) > 0 {
				if got[0].Handed != 1 || got[0].Tries != 0 || got[0].ID != fmt.Sprint("t0/", came) {
					b.Fatalf("job %d came as %+v", came, got[0])
				}
				came++
				b.want(b.takeNow(src, 10)) // one at once, though the limit may let go of more meanwhile
				b.deliver(src, got...)
			}
		}
		b.sleep(1100 * time.Millisecond)
	}
	b.books("q", tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func obeysAtOnce(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 0.001, Burst: 1} })
	b.add(queue.New, many(10, "t", 0)...)
	b.add(queue.New, many(10, "u", 0)...)
	src := b.open("q")
	b.want(b.takeNow(src, 10), "t0/0", "u0/0")
	b.want(b.takeNow(src, 10))
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{AtOnce: 3} })
	if got := b.takeNow(src, 30); len(got) < 4 || len(got) > 6 {
		b.Fatalf("under a bound of 3 at once for each of two tenants %d jobs came", len(got))
	}
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{} })
	b.take(src, 16)
	b.counts(queue.Stats{Leased: 20})
}

func wakesForLimit(b *bench) {
	b.set(func(s *queue.Settings) { s.Tenant = queue.Limit{PerSecond: 2, Burst: 1} })
	b.add(queue.New, many(3, "t", 0)...)
	src := b.open("q")
	start := time.Now()
	for i := range 3 {
		got := b.receive(src, 10, 10*time.Second)
		b.want(got, fmt.Sprint("t0/", i))
		took, want := time.Since(start), time.Duration(i)*500*time.Millisecond
		if late := took - want; late < -10*time.Millisecond || late > 3*time.Second || !b.Live && late > time.Millisecond { // a server's machine may be busy
			b.Fatalf("job %d was handed out after %v, want %v", i, took, want)
		}
		b.deliver(src, got...)
	}
}

func limitsBurst(b *bench) {
	b.set(func(s *queue.Settings) { s.Limit = queue.Limit{PerSecond: 1, Burst: 7} })
	b.add(queue.New, jobs(30)...)
	src := b.open("q")
	for range 2 {
		if got := b.takeNow(src, 30); len(got) != 7 {
			b.Fatalf("%d jobs came at once, want the burst of 7", len(got))
		}
		b.sleep(time.Hour)
	}
}

// turn asks for turns for other work.
func (b *bench) turn(tenant string, n, want int) (at time.Time) {
	b.Helper()
	may, at, err := b.whole().Turn(b.Context(), "q", tenant, n)
	if err != nil || may != want {
		b.Fatalf("of %d turns of %s it lets go %d (%v), want %d", n, tenant, may, err, want)
	}
	return at
}

func limitsOthers(b *bench) {
	b.turn("t", 1000, 1000)
	b.set(func(s *queue.Settings) {
		s.Limit = queue.Limit{PerSecond: 0.01, Burst: 10, AtOnce: 20}
		s.Tenants = map[string]queue.Limit{"t": {PerSecond: 0.01, Burst: 3, AtOnce: 1}, "free": {AtOnce: 1}}
	})
	b.add(queue.New, many(20, "free", 0)...)
	b.turn("t", 5, 3)
	now := b.now()
	if at := b.turn("t", 1, 0); !b.within(at, now.Add(100*time.Second), now.Add(100*time.Second)) {
		b.Errorf("the next turn is at %v, 100 s from %v", at, now)
	}
	b.turn("free", 5, 5) // bounds count leased jobs
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Tenants["free"] = queue.Limit{}; s.Tenants["t"] = queue.Limit{} })
	b.turn("t", 7, 7)
	b.want(b.takeNow(src, 10), "free0/0", "free0/1", "free0/2")
	b.turn("t", 7, 0)
	b.sleep(1000 * time.Second)
	b.turn("t", 20, 10)
}

func holdsOthers(b *bench) {
	b.set(func(s *queue.Settings) { s.Paused = true })
	if at := b.turn("t", 1, 0); !at.IsZero() {
		b.Errorf("while it is paused the next turn is at %v", at)
	}
	b.set(func(s *queue.Settings) { s.Paused = false })
	gate := b.open("q").(tidemill.Gater)
	until := b.now().Add(10 * b.tick())
	if err := gate.Gate(b.Context(), until, 1); err != nil {
		b.Fatal(err)
	}
	if at := b.turn("t", 1, 0); !b.same(at, until) {
		b.Errorf("the gate opens at %v, and the next turn is at %v", until, at)
	}
	if at := b.turn("t", 0, 0); !b.same(at, until) {
		b.Errorf("the gate opens at %v, it says %v", until, at)
	}
	b.set(func(s *queue.Settings) { s.Limit = queue.Limit{PerSecond: 0.01, Burst: 5} })
	b.sleep(11 * b.tick())
	b.turn("t", 5, 5)
	if at := b.turn("t", 0, 0); !at.IsZero() {
		b.Errorf("the gate is open, it says %v", at)
	}
}
