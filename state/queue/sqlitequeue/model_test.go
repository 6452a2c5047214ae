package sqlitequeue

import (
	"context"
	"fmt"

	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// TestDoesWhatTheReferenceDoes plays the same at random on memoryqueue and on a file. Whose
// turn it is, is forgotten when the process ends: there is no kill where it matters.
func TestDoesWhatTheReferenceDoes(t *testing.T) {
	t.Run("with kills", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) { play(t, r, true) })
	})
	t.Run("with turns", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) { play(t, r, false) })
	})
}

func play(t *testing.T, r *rapid.T, kills bool) {
	inBubble(t, func(t *testing.T) {
		o := Options{Capacity: modelCapacity, tableNames: 40}
		if kills && rapid.Bool().Draw(r, "little memory") {
			o.bounds = bounds{ahead: 1, backs: 1000, groups: 1000}
		}
		f := newFile(t, o)
		m := &model{r: r, file: f, turns: !kills, stores: [2]queue.Store{memoryqueue.New(memoryqueue.Options{Capacity: modelCapacity}), f.open()}}
		ordered := rapid.Bool().Draw(r, "ordered")
		m.fair = !kills && rapid.IntRange(0, 3).Draw(r, "fair") > 0
		for _, q := range modelQueues {
			m.tune(r, q, func(s *queue.Settings) {
				if s.Ordered = ordered; !m.fair {
					s.Fair = queue.Unfair
				}
			})
		}
		m.reopen()
		actions := map[string]func(*rapid.T){
			"add": m.add, "receive": m.receive, "settle": m.settle, "settle by ID": m.settleByID,
			"gate": m.gate, "pass time": m.pass, "sweep": m.sweep, "set": m.set, "move": m.move, "edit": m.edit, "": m.compare,
		}
		if kills {
			actions["kill"], actions["keep"] = m.kill, m.keep // the end of leases is in another order where one was renewed
		}
		r.Repeat(actions)
		m.drain()
	})
}

// inBubble runs f in a bubble of its own, and hands its panic, by which rapid knows a
// failure, on to the caller.
func inBubble(t *testing.T, f func(*testing.T)) {
	var failure any
	synctest.Test(t, func(t *testing.T) {
		defer func() { failure = recover() }()
		f(t)
	})
	if failure != nil {
		panic(failure)
	}
}

const (
	modelCapacity = 60
	modelLease    = time.Minute
)

var modelQueues = []string{"q", "r"}

// model is the two stores, the reference first, and what was received from both.
type model struct {
	r       *rapid.T
	file    *file
	turns   bool // are compared; and there is no kill
	fair    bool // tenants, or their keys too, take turns
	stores  [2]queue.Store
	sources [2]map[string][2]tidemill.Source // by queue, two each
	held    []holding
	kills   int
}

// holding is one job as both handed it out.
type holding struct {
	queue string
	who   int
	got   [2]*tidemill.Message
}

func (m *model) reopen() {
	for i, s := range m.stores {
		m.sources[i] = map[string][2]tidemill.Source{}
		for _, q := range modelQueues {
			o := queue.Options{Lease: modelLease}
			m.sources[i][q] = [2]tidemill.Source{s.Open(q, o), s.Open(q, o)}
		}
	}
	m.held = nil
}

// id draws one of few ids of this part of the day: all backends know a name for that
// long, and each may know it for longer.
func (m *model) id(r *rapid.T) string {
	return fmt.Sprintf("%d/%d", time.Now().Unix()/int64(queue.Remember.Seconds()/2), rapid.IntRange(0, 200).Draw(r, "id"))
}

func (m *model) job(r *rapid.T) *tidemill.Message {
	j := &tidemill.Message{
		ID:      m.id(r),
		Tenant:  rapid.SampledFrom([]string{"", "t"}).Draw(r, "tenant"),
		To:      rapid.SampledFrom(modelQueues).Draw(r, "queue"),
		Payload: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "payload"),
	}
	j.Key = []byte(rapid.SampledFrom([]string{"", "k", "l"}).Draw(r, "key"))
	if m.turns {
		j.Priority = uint8(rapid.IntRange(0, 2).Draw(r, "priority"))
	}
	if rapid.IntRange(0, 4).Draw(r, "later") == 0 {
		j.At = time.Now().Add(time.Duration(rapid.IntRange(-10, 200).Draw(r, "seconds")) * time.Second)
	}
	return j
}

func (m *model) add(r *rapid.T) {
	jobs := make([]*tidemill.Message, rapid.IntRange(1, 30).Draw(r, "jobs"))
	for i := range jobs {
		jobs[i] = m.job(r)
	}
	var added [2][]queue.Added
	for i, s := range m.stores {
		added[i] = make([]queue.Added, len(jobs))
		if err := s.Add(context.Background(), jobs, added[i]); err != nil {
			r.Fatalf("add: %v", err)
		}
	}
	if !slices.Equal(added[0], added[1]) {
		r.Fatalf("jobs became\n%v, want\n%v", added[1], added[0])
	}
}

func (m *model) receive(r *rapid.T) {
	q := rapid.SampledFrom(modelQueues).Draw(r, "queue")
	m.take(r, q, rapid.IntRange(0, 1).Draw(r, "who"), rapid.IntRange(1, 40).Draw(r, "n"))
}

// take receives until nothing more comes at once, or n jobs have come.
func (m *model) take(r *rapid.T, q string, who, n int) {
	var got [2][]*tidemill.Message
	for i := range m.stores {
		ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
		for len(got[i]) < n {
			into := make([]*tidemill.Message, n-len(got[i]))
			for k := range into {
				into[k] = new(tidemill.Message)
			}
			k, err := m.sources[i][q][who].Receive(ctx, into)
			got[i] = append(got[i], into[:k]...)
			if err != nil {
				break
			}
		}
		cancel()
	}
	if len(got[0]) != len(got[1]) {
		r.Fatalf("received %d jobs, want %d", len(got[1]), len(got[0]))
	}
	for k, want := range got[0] {
		if diff := m.differ(got[1][k], want); diff != "" {
			r.Fatalf("job %d of %d of queue %q has another %s:\n%+v, want\n%+v", k, len(got[0]), q, diff, got[1][k], want)
		}
		m.held = append(m.held, holding{q, who, [2]*tidemill.Message{want, got[1][k]}})
	}
}

func (m *model) differ(got, want *tidemill.Message) string {
	switch {
	case got.ID != want.ID || got.Tenant != want.Tenant || got.To != want.To:
		return "name"
	case string(got.Payload) != string(want.Payload) || string(got.Key) != string(want.Key) || got.Priority != want.Priority:
		return "payload"
	case !slices.Equal(queue.FailuresOf(got), queue.FailuresOf(want)):
		return "history"
	case got.Tries != want.Tries:
		return "number of tries"
	case got.Handed < want.Handed || got.Handed > want.Handed+m.kills:
		return "number of hand-outs"
	case !got.Time.Equal(want.Time) || !got.At.Equal(want.At):
		return "time"
	case got.Mark.Lo != want.Mark.Lo:
		return "position"
	}
	return ""
}

func (m *model) settle(r *rapid.T) {
	var q string
	var who int
	var ends [2][]tidemill.Settlement
	for range rapid.IntRange(1, 30).Draw(r, "settlements") {
		if len(m.held) == 0 {
			break
		}
		k := rapid.IntRange(0, len(m.held)-1).Draw(r, "held")
		h := m.held[k]
		if ends[0] == nil {
			q, who = h.queue, h.who
		}
		if h.queue != q || h.who != who {
			continue
		}
		if rapid.IntRange(0, 9).Draw(r, "twice") > 0 {
			m.held = slices.Delete(m.held, k, k+1)
		}
		e := m.end(r)
		for i := range ends {
			e.ID, e.Mark = h.got[i].ID, h.got[i].Mark
			ends[i] = append(ends[i], e)
		}
	}
	if ends[0] != nil {
		m.both(r, q, who, ends)
	}
}

// end makes any end.
func (m *model) end(r *rapid.T) tidemill.Settlement {
	e := tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered}
	switch rapid.IntRange(0, 7).Draw(r, "end") {
	case 0:
		return tidemill.Settlement{End: tidemill.Left}
	case 1, 2:
		return tidemill.Settlement{End: tidemill.Again, Cause: "c", CountTry: rapid.Bool().Draw(r, "burn"),
			After: time.Duration(rapid.IntRange(0, 3).Draw(r, "after")) * 20 * time.Second}
	case 3:
		e.Fate = tidemill.Skipped
	case 4:
		e.Fate = tidemill.Dead
	case 5:
		if m.turns { // of what comes and what comes back in one call, either may be first
			break
		}
		for range rapid.IntRange(1, 3).Draw(r, "next") {
			e.Next = append(e.Next, m.job(r))
		}
	}
	return e
}

func (m *model) settleByID(r *rapid.T) {
	e := m.end(r)
	e.ID = m.id(r)
	m.both(r, rapid.SampledFrom(modelQueues).Draw(r, "queue"), 0, [2][]tidemill.Settlement{{e}, {e}})
}

func (m *model) both(r *rapid.T, q string, who int, ends [2][]tidemill.Settlement) {
	var kinds [2]tidemill.Kind
	for i := range ends {
		if err := m.sources[i][q][who].Settle(context.Background(), ends[i]); err != nil {
			kinds[i] = tidemill.KindOf(err)
		}
	}
	if kinds[0] != kinds[1] {
		r.Fatalf("settling said %v, want %v", kinds[1], kinds[0])
	}
	for k := range ends[0] {
		if ends[0][k].Outcome != ends[1][k].Outcome {
			r.Fatalf("settlement %d of %d of queue %q was taken as %v, want %v: %+v", k, len(ends[0]), q, ends[1][k].Outcome, ends[0][k].Outcome, ends[1][k])
		}
	}
}

func (m *model) keep(r *rapid.T) {
	q, who := rapid.SampledFrom(modelQueues).Draw(r, "queue"), rapid.IntRange(0, 1).Draw(r, "who")
	for i := range m.sources {
		if err := m.sources[i][q][who].(tidemill.Keeper).Keep(context.Background()); err != nil {
			r.Fatalf("keep: %v", err)
		}
	}
}

func (m *model) gate(r *rapid.T) {
	var until time.Time
	probes := 0
	if rapid.Bool().Draw(r, "close") {
		until = time.Now().Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "until")) * 30 * time.Second)
		probes = rapid.IntRange(0, 3).Draw(r, "probes")
	}
	m.setGate(r, rapid.SampledFrom(modelQueues).Draw(r, "queue"), until, probes)
}

func (m *model) setGate(r *rapid.T, q string, until time.Time, probes int) {
	for i := range m.sources {
		if err := m.sources[i][q][0].(tidemill.Gater).Gate(context.Background(), until, probes); err != nil {
			r.Fatalf("gate: %v", err)
		}
	}
}

func (m *model) pass(r *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
	if rapid.IntRange(0, 19).Draw(r, "long") == 0 {
		time.Sleep(13 * time.Hour)
	}
}

func (m *model) sweep(r *rapid.T) {
	if err := m.stores[1].(*Store).Sweep(context.Background()); err != nil {
		r.Fatalf("sweep: %v", err)
	}
}

// kill restarts both. The reference keeps leases and gates through that, so they are
// brought to an end there first.
func (m *model) kill(r *rapid.T) {
	time.Sleep(2 * modelLease)
	for _, q := range modelQueues {
		m.setGate(r, q, time.Time{}, 0)
	}
	m.file.close()
	m.stores[1] = m.file.open()
	m.kills++
	m.reopen()
}

// compare looks at everything that can be seen from outside.
func (m *model) compare(r *rapid.T) {
	time.Sleep(time.Millisecond) // what comes due in one millisecond comes in any order
	for _, q := range modelQueues {
		var books [2]tidemill.Books
		var stats [2]queue.Stats
		var list [2][]*queue.Job
		for i := range m.stores {
			var err error
			if books[i], err = m.sources[i][q][0].(tidemill.Bookkeeper).Books(context.Background()); err != nil {
				r.Fatalf("books: %v", err)
			}
			if stats[i], err = m.stores[i].Stats(context.Background(), q); err != nil {
				r.Fatalf("stats: %v", err)
			}
			for _, state := range []queue.State{"", queue.Completed, queue.Failed} {
				for j, err := range m.stores[i].List(context.Background(), queue.Filter{Queue: q, State: state}) {
					if err != nil {
						r.Fatalf("list: %v", err)
					}
					list[i] = append(list[i], j)
				}
			}
		}
		m.depths(r, q)
		if books[0] != books[1] || books[1].Off() != 0 {
			r.Fatalf("books of %q are\n%+v, want\n%+v", q, books[1], books[0])
		}
		if stats[0] != stats[1] {
			r.Fatalf("stats of %q are\n%+v, want\n%+v", q, stats[1], stats[0])
		}
		if len(list[0]) != len(list[1]) {
			r.Fatalf("queue %q lists %d jobs, want %d", q, len(list[1]), len(list[0]))
		}
		for k, want := range list[0] {
			got := list[1][k]
			if diff := m.differ(&got.Message, &want.Message); diff != "" || got.State != want.State || got.Cause != want.Cause ||
				got.Fate != want.Fate || !got.Ended.Equal(want.Ended) || !got.Added.Equal(want.Added) || !slices.Equal(got.Failures, want.Failures) {
				r.Fatalf("queue %q lists as job %d\n%+v, want\n%+v", q, k, got, want)
			}
		}
		m.inner(r, q)
	}
}
