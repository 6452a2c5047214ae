package sqlitequeue

import (
	"context"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// tune changes the settings of a queue in both.
func (m *model) tune(r *rapid.T, q string, change func(*queue.Settings)) {
	for _, s := range m.stores {
		if _, err := s.Set(context.Background(), q, change); err != nil {
			r.Fatalf("set: %v", err)
		}
	}
}

// set draws other settings, but the order of keys, which stays.
func (m *model) set(r *rapid.T) {
	to := queue.Settings{Fair: queue.Unfair, Paused: rapid.IntRange(0, 5).Draw(r, "paused") == 0, Closed: rapid.IntRange(0, 5).Draw(r, "closed") == 0}
	if m.turns && m.fair { // who had turns and has none any more, or the other way round, is a backend's choice
		to.Fair = rapid.SampledFrom([]queue.Fairness{queue.ByTenant, queue.ByKey}).Draw(r, "fair")
	}
	limit := func(rates bool) (l queue.Limit) {
		if rapid.Bool().Draw(r, "bounded") {
			l.AtOnce = rapid.IntRange(0, 6).Draw(r, "at once")
		}
		if rates && rapid.Bool().Draw(r, "limited") {
			l.PerSecond, l.Burst = rapid.SampledFrom([]float64{0, 0.01, 0.125, 2}).Draw(r, "rate"), rapid.IntRange(0, 8).Draw(r, "burst")
		}
		return l
	}
	if rapid.Bool().Draw(r, "limits") {
		to.Limit, to.Tenant = limit(m.turns), limit(m.turns)
		if m.turns { // jobs that came before do not know their keys after a kill
			to.Key = limit(true)
		}
	}
	to.Completed.Count, to.Failed.Count = rapid.IntRange(0, 6).Draw(r, "completed"), rapid.IntRange(0, 9).Draw(r, "failed")
	m.tune(r, rapid.SampledFrom(modelQueues).Draw(r, "queue"), func(s *queue.Settings) {
		ordered := s.Ordered
		*s = to.Clone()
		s.Ordered = ordered
	})
}

// move changes jobs by hand.
func (m *model) move(r *rapid.T) {
	f := queue.Filter{Queue: rapid.SampledFrom(modelQueues).Draw(r, "queue")}
	if rapid.Bool().Draw(r, "of a tenant") {
		f.Tenant = "t"
	}
	if rapid.Bool().Draw(r, "by ID") {
		for range rapid.IntRange(1, 20).Draw(r, "ids") {
			f.IDs = append(f.IDs, m.id(r))
		}
	}
	which := rapid.IntRange(0, 2).Draw(r, "move")
	if which > 0 { // of all states in one order, or of one
		f.State = []queue.State{queue.Delayed, rapid.SampledFrom([]queue.State{queue.Waiting, queue.Delayed, queue.Completed, queue.Failed}).Draw(r, "state")}[which-1]
		f.Max = rapid.IntRange(0, 5).Draw(r, "max")
	}
	var n [2]int
	var kinds [2]tidemill.Kind
	for i, s := range m.stores {
		var err error
		if n[i], err = []func(context.Context, queue.Filter) (int, error){s.Retry, s.Promote, s.Remove}[which](context.Background(), f); err != nil {
			kinds[i] = tidemill.KindOf(err)
		}
	}
	if n[0] != n[1] || kinds[0] != kinds[1] {
		r.Fatalf("%d jobs were moved by %d, %v; want %d, %v", n[1], which, kinds[1], n[0], kinds[0])
	}
}

func (m *model) edit(r *rapid.T) {
	n := queue.Name{Queue: rapid.SampledFrom(modelQueues).Draw(r, "queue"), Tenant: rapid.SampledFrom([]string{"", "t"}).Draw(r, "tenant"), ID: m.id(r)}
	payload := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "payload")
	seen := ""
	if rapid.Bool().Draw(r, "seen") {
		seen = "another"
		if is, err := m.stores[0].Look(context.Background(), n); err == nil && rapid.Bool().Draw(r, "now") {
			seen = queue.Version(&is.Message)
		}
	}
	var kinds [2]tidemill.Kind
	for i, s := range m.stores {
		if err := s.Edit(context.Background(), n, payload, seen); err != nil {
			kinds[i] = tidemill.KindOf(err)
		}
	}
	if kinds[0] != kinds[1] {
		r.Fatalf("editing %+v says %v, want %v", n, kinds[1], kinds[0])
	}
}

// depths compares what waits.
func (m *model) depths(r *rapid.T, q string) {
	for name, of := range map[string]func(queue.Meter) ([]queue.Depth, error){
		"priorities": func(s queue.Meter) ([]queue.Depth, error) { return s.Depths(context.Background(), q) },
		"tenants":    func(s queue.Meter) ([]queue.Depth, error) { return s.Tenants(context.Background(), q, 0) },
	} {
		want, err := of(m.stores[0])
		if err != nil {
			r.Fatal(err)
		}
		got, err := of(m.stores[1])
		if err != nil || !slices.Equal(got, want) {
			r.Fatalf("the %s of queue %q have %+v, %v; want %+v", name, q, got, err, want)
		}
	}
}

// inner looks at what memory holds: nothing may stay behind.
func (m *model) inner(r *rapid.T, name string) {
	q := m.stores[1].(*Store).find(name)
	if q == nil {
		return
	}
	mem := q.lock()
	defer q.unlock()
	for first, s := range mem.log.segs {
		if first != s.first || s.going != 0 || s.empty(s.ended) {
			r.Fatalf("segment at %d stayed behind: %+v", first, s)
		}
	}
	open := 0
	for g := range mem.leases.grants {
		open += g.open
	}
	if open != len(mem.leases.outs) {
		r.Fatalf("%d jobs are out, their leases count %d", len(mem.leases.outs), open)
	}
	in := map[uint64]int{}
	ahead := 0
	for _, s := range mem.waiting.groups {
		if s.leaf != nil && len(s.ready)+len(s.back) == 0 && !s.unread() {
			r.Fatalf("group %q takes turns and has no job", s.id)
		}
		for _, it := range s.ready {
			in[it.n]++
			ahead++
		}
		for _, it := range s.back {
			in[it.n]++
			if mem.waiting.backs[it.n] != it {
				r.Fatalf("job %d waits, and is not found", it.n)
			}
		}
	}
	if ahead != mem.waiting.ahead || len(in)-ahead != len(mem.waiting.backs) {
		r.Fatalf("%d and %d jobs are counted, %d and %d wait", mem.waiting.ahead, len(mem.waiting.backs), ahead, len(in)-ahead)
	}
	for n := range mem.leases.outs {
		in[n]++
	}
	for _, n := range slices.Sorted(maps.Keys(in)) {
		if in[n] > 1 {
			r.Fatalf("job %d is in %d places at once", n, in[n])
		}
	}
	for n := range mem.waiting.late.hot {
		if in[n] == 0 {
			r.Fatalf("late job %d is in no place", n)
		}
	}
}

// drain lets time pass until everything has ended.
func (m *model) drain() {
	time.Sleep(time.Hour)
	for _, q := range modelQueues {
		m.setGate(m.r, q, time.Time{}, 0)
		m.tune(m.r, q, func(s *queue.Settings) { *s = queue.Settings{Ordered: s.Ordered, Fair: s.Fair} })
		for last := 1; last > 0; { // of a key one at a time
			m.held = nil
			m.take(m.r, q, 0, modelCapacity+1)
			last = m.deliver(q)
		}
	}
	m.compare(m.r)
	for _, q := range modelQueues {
		if st, err := m.stores[1].Stats(context.Background(), q); err != nil || st != (queue.Stats{}) {
			m.r.Fatalf("after all has ended there is %+v, %v", st, err)
		}
	}
}

// deliver ends all that was received.
func (m *model) deliver(q string) int {
	var ends [2][]tidemill.Settlement
	for _, h := range m.held {
		for i := range ends {
			ends[i] = append(ends[i], tidemill.Settlement{ID: h.got[i].ID, Mark: h.got[i].Mark, End: tidemill.Done, Fate: tidemill.Delivered})
		}
	}
	m.both(m.r, q, 0, ends)
	return len(ends[0])
}
