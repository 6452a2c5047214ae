package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// TestDoesWhatTheReferenceDoes plays the same at random on memoryqueue and on Redis, with
// kills and lost answers.
func TestDoesWhatTheReferenceDoes(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	rapid.Check(t, func(r *rapid.T) {
		m := newModel(r, client)
		r.Repeat(map[string]func(*rapid.T){
			"add": m.add, "receive": m.receive, "settle": m.settle, "settle by ID": m.settleByID, "keep": m.keep,
			"gate": m.gate, "pass time": m.pass, "kill": m.kill, "move": m.move, "edit": m.edit, "set": m.set,
			"lose": m.lose, "": m.compare,
		})
		m.forget(r)
	})
}

const (
	modelCapacity = 60
	modelLease    = 10 * time.Minute
)

var modelQueues = []string{"q", "r"}

// model is the two stores, the reference first, and what was received from both.
type model struct {
	client  *lossy
	o       Options
	ahead   atomic.Int64
	stores  [2]queue.Store
	sources [2]map[string][2]tidemill.Source // by queue, two each
	held    []holding
	exact   bool // the order of hand-outs is the same: there are no turns
	kept    bool // what has ended is kept, and says why
	ordered bool
}

// holding is one job as both handed it out.
type holding struct {
	queue string
	who   int
	got   [2]*tidemill.Message
}

func newModel(r *rapid.T, client rueidis.Client) *model {
	m := &model{client: &lossy{Client: client}, exact: rapid.Bool().Draw(r, "exact"), kept: rapid.Bool().Draw(r, "kept"), ordered: rapid.Bool().Draw(r, "ordered")}
	m.o = Options{Prefix: testenv.Name("model:"), Capacity: modelCapacity, ahead: func() time.Duration { return time.Duration(m.ahead.Load()) }}
	m.stores[0] = memoryqueue.New(memoryqueue.Options{Capacity: modelCapacity, Now: m.now})
	s := queue.Settings{Ordered: m.ordered, Completed: queue.Keep{Count: 5}, Failed: queue.Keep{Count: 8, Age: 90 * time.Minute}}
	if !m.kept {
		s.Completed = queue.Keep{}
	}
	if m.exact {
		s.Fair, s.Tenant = queue.Unfair, queue.Limit{AtOnce: rapid.IntRange(0, 6).Draw(r, "at once")}
	} else {
		s.Fair = rapid.SampledFrom([]queue.Fairness{queue.ByTenant, queue.ByKey}).Draw(r, "fair")
	}
	m.reopen(r)
	for _, store := range m.stores {
		for _, q := range modelQueues {
			if _, err := store.Set(context.Background(), q, func(to *queue.Settings) { *to = s }); err != nil {
				r.Fatal(err)
			}
		}
	}
	return m
}

func (m *model) now() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

func (m *model) reopen(r *rapid.T) {
	s, err := New(m.client, m.o)
	if err != nil {
		r.Fatal(err)
	}
	m.stores[1] = s
	for i, s := range m.stores {
		m.sources[i] = map[string][2]tidemill.Source{}
		for _, q := range modelQueues {
			o := queue.Options{Lease: modelLease}
			m.sources[i][q] = [2]tidemill.Source{s.Open(q, o), s.Open(q, o)}
		}
	}
	m.held = nil
}

func (m *model) kill(r *rapid.T) { m.reopen(r) }

// lose loses the next answers of Redis.
func (m *model) lose(r *rapid.T) { m.client.lose.Store(int32(rapid.IntRange(1, 3).Draw(r, "answers"))) }

// insist repeats what loses its answer.
func (m *model) insist(do func() error) error {
	for {
		err := do()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// pass lets minutes pass: that is less than anything else here takes.
func (m *model) pass(r *rapid.T) {
	m.ahead.Add(int64(rapid.IntRange(1, 40).Draw(r, "minutes")) * int64(time.Minute))
}

func (m *model) minutes(r *rapid.T) time.Duration {
	n := rapid.IntRange(0, 5).Draw(r, "minutes later")
	if n == 0 {
		return 0
	}
	return time.Duration(n)*10*time.Minute - 30*time.Second
}

func (m *model) job(r *rapid.T) *tidemill.Message {
	j := &tidemill.Message{
		ID:      fmt.Sprint("id", rapid.IntRange(0, 250).Draw(r, "id")),
		Tenant:  rapid.SampledFrom([]string{"", "t", "u:\x00"}).Draw(r, "tenant"),
		To:      rapid.SampledFrom(modelQueues).Draw(r, "queue"),
		Key:     rapid.SampledFrom([][]byte{nil, []byte("k"), []byte("l")}).Draw(r, "key"),
		Payload: []byte(strings.Repeat("payload ", rapid.IntRange(0, 80).Draw(r, "size"))),
		Time:    time.UnixMilli(1_700_000_000_000).UTC(),
	}
	if !m.exact {
		j.Priority = rapid.SampledFrom([]uint8{0, 1, 200}).Draw(r, "priority")
	}
	if d := m.minutes(r); d > 0 && rapid.IntRange(0, 3).Draw(r, "later") == 0 {
		j.At = m.now().Add(d)
	}
	return j
}

func (m *model) add(r *rapid.T) {
	jobs := make([]*tidemill.Message, rapid.IntRange(1, 30).Draw(r, "jobs"))
	for i := range jobs {
		jobs[i] = m.job(r)
	}
	var added [2][]queue.Added
	lossy := m.client.lose.Load() > 0
	for i, s := range m.stores {
		added[i] = make([]queue.Added, len(jobs))
		if err := m.insist(func() error { return s.Add(context.Background(), jobs, added[i]) }); err != nil {
			r.Fatal(err)
		}
	}
	if !lossy && !slices.Equal(added[0], added[1]) {
		r.Fatalf("jobs became %v, want %v", added[1], added[0])
	}
}

// take receives up to n jobs, however often answers are lost.
func (m *model) take(src tidemill.Source, n int, lossy bool) []*tidemill.Message {
	var all []*tidemill.Message
	patience := time.Millisecond
	if lossy {
		patience = 30 * time.Millisecond
	}
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		got, err := src.Receive(ctx, into)
		over := ctx.Err() != nil
		cancel()
		all = append(all, into[:got]...)
		if err != nil && over && (!lossy || m.client.lose.Load() == 0) {
			break
		}
	}
	return all
}

func jobName(m *tidemill.Message) string { return m.Tenant + "/" + m.ID }

func (m *model) receive(r *rapid.T) {
	q, who, n := rapid.SampledFrom(modelQueues).Draw(r, "queue"), rapid.IntRange(0, 1).Draw(r, "source"), 2*modelCapacity
	if m.exact {
		n = rapid.IntRange(1, 30).Draw(r, "jobs")
	}
	var got [2][]*tidemill.Message
	for i := range m.stores {
		got[i] = m.take(m.sources[i][q][who], n, i == 1)
		if !m.exact { // turns: the same jobs, in whatever order
			slices.SortFunc(got[i], func(a, b *tidemill.Message) int { return strings.Compare(jobName(a), jobName(b)) })
		}
	}
	if len(got[0]) != len(got[1]) {
		r.Fatalf("source %d of %q hands out %d jobs, want %d", who, q, len(got[1]), len(got[0]))
	}
	for i, want := range got[0] {
		is := got[1][i]
		if jobName(is) != jobName(want) || string(is.Payload) != string(want.Payload) || string(is.Key) != string(want.Key) ||
			is.Tries != want.Tries || is.Handed != want.Handed || len(is.Header) != len(want.Header) || is.Priority != want.Priority || !is.At.IsZero() || is.Mark.Lo != want.Mark.Lo {
			r.Fatalf("source %d of %q hands out\n%+v, want\n%+v", who, q, is, want)
		}
		m.held = append(m.held, holding{q, who, [2]*tidemill.Message{want, is}})
	}
}

func (m *model) settle(r *rapid.T) {
	if len(m.held) == 0 {
		return
	}
	who := m.held[rapid.IntRange(0, len(m.held)-1).Draw(r, "of")]
	var ends [2][]tidemill.Settlement
	var rest []holding
	for _, h := range m.held {
		if h.queue != who.queue || h.who != who.who || rapid.IntRange(0, 2).Draw(r, "not now") == 0 {
			rest = append(rest, h)
			continue
		}
		e := tidemill.Settlement{ID: h.got[0].ID, Fate: tidemill.Fate(rapid.IntRange(1, 3).Draw(r, "fate")), Kind: tidemill.Partner, Cause: "why"}
		if !m.kept && e.Fate != tidemill.Dead {
			e.Kind, e.Cause = tidemill.NoKind, "" // many like this are settled at once
		}
		switch rapid.IntRange(0, 5).Draw(r, "end") {
		case 0:
			e = tidemill.Settlement{ID: e.ID, End: tidemill.Again, After: m.minutes(r), CountTry: rapid.Bool().Draw(r, "burn"), Kind: tidemill.Timeout, Cause: "again"}
		case 1:
			e = tidemill.Settlement{ID: e.ID, End: tidemill.Left}
		case 2:
			child := m.job(r)
			e.Next = []*tidemill.Message{child}
		}
		for i := range ends {
			e.Mark = h.got[i].Mark
			ends[i] = append(ends[i], e)
		}
		if rapid.IntRange(0, 4).Draw(r, "keep it") == 0 { // to be settled twice
			rest = append(rest, h)
		}
	}
	m.held = rest
	for i := range ends {
		src := m.sources[i][who.queue][who.who]
		took := make([]tidemill.Outcome, len(ends[i]))
		err := m.insist(func() error {
			err := src.Settle(context.Background(), ends[i])
			for j := range ends[i] {
				took[j] = ends[i][j].Outcome
			}
			return err
		})
		if err != nil && tidemill.KindOf(err) != tidemill.RateLimit {
			r.Fatal(err)
		}
	}
	for j := range ends[0] {
		if ends[0][j].Outcome != ends[1][j].Outcome {
			r.Fatalf("settlement %d of %d (%+v) was taken as %v, want %v", j, len(ends[0]), ends[1][j], ends[1][j].Outcome, ends[0][j].Outcome)
		}
	}
}

func (m *model) settleByID(r *rapid.T) {
	q := rapid.SampledFrom(modelQueues).Draw(r, "queue")
	e := tidemill.Settlement{ID: fmt.Sprint("id", rapid.IntRange(0, 250).Draw(r, "id")), Fate: tidemill.Delivered}
	if rapid.Bool().Draw(r, "again") {
		e = tidemill.Settlement{ID: e.ID, End: tidemill.Again, After: m.minutes(r), CountTry: true, Cause: "nack"}
	}
	var took [2]tidemill.Outcome
	for i := range m.stores {
		ends := []tidemill.Settlement{e}
		if err := m.insist(func() error { return m.sources[i][q][0].Settle(context.Background(), ends) }); err != nil {
			r.Fatal(err)
		}
		took[i] = ends[0].Outcome
	}
	if took[0] != took[1] {
		r.Fatalf("%+v was taken as %v, want %v", e, took[1], took[0])
	}
}

func (m *model) keep(r *rapid.T) {
	q, who := rapid.SampledFrom(modelQueues).Draw(r, "queue"), rapid.IntRange(0, 1).Draw(r, "source")
	for i := range m.stores {
		if err := m.insist(func() error { return m.sources[i][q][who].(tidemill.Keeper).Keep(context.Background()) }); err != nil {
			r.Fatal(err)
		}
	}
}

func (m *model) gate(r *rapid.T) {
	var until time.Time
	if rapid.Bool().Draw(r, "close") {
		until = m.now().Add(m.minutes(r))
	}
	probes := rapid.IntRange(1, 3).Draw(r, "probes")
	if !m.exact {
		probes = 0 // turns would choose others
	}
	for i := range m.stores {
		if err := m.insist(func() error { return m.sources[i]["q"][0].(tidemill.Gater).Gate(context.Background(), until, probes) }); err != nil {
			r.Fatal(err)
		}
	}
}

func (m *model) move(r *rapid.T) {
	f := queue.Filter{Queue: rapid.SampledFrom(modelQueues).Draw(r, "queue")}
	for range rapid.IntRange(0, 6).Draw(r, "ids") {
		f.IDs = append(f.IDs, fmt.Sprint("id", rapid.IntRange(0, 250).Draw(r, "id")))
	}
	f.State = rapid.SampledFrom([]queue.State{"", queue.Failed, queue.Delayed, queue.Waiting}).Draw(r, "state")
	what := rapid.SampledFrom([]string{"retry", "promote", "remove"}).Draw(r, "what")
	m.client.lose.Store(0) // how many were changed cannot be known
	var n [2]int
	var errs [2]error
	for i, s := range m.stores {
		do := map[string]func(context.Context, queue.Filter) (int, error){"retry": s.Retry, "promote": s.Promote, "remove": s.Remove}[what]
		n[i], errs[i] = do(context.Background(), f)
	}
	if n[0] != n[1] || tidemill.KindOf(errs[0]) != tidemill.KindOf(errs[1]) {
		r.Fatalf("%s of %+v changed %d, %v; want %d, %v", what, f, n[1], errs[1], n[0], errs[0])
	}
}

func (m *model) edit(r *rapid.T) {
	j := m.job(r)
	n := queue.Name{Queue: j.To, Tenant: j.Tenant, ID: j.ID}
	seen := ""
	if rapid.Bool().Draw(r, "seen") {
		seen = "another"
		if is, err := m.stores[0].Look(context.Background(), n); err == nil && rapid.Bool().Draw(r, "now") {
			seen = queue.Version(&is.Message)
		}
	}
	var errs [2]error
	for i, s := range m.stores {
		errs[i] = m.insist(func() error { return s.Edit(context.Background(), n, j.Payload, seen) })
	}
	if tidemill.KindOf(errs[0]) != tidemill.KindOf(errs[1]) || (errs[0] == nil) != (errs[1] == nil) {
		r.Fatalf("editing %+v says %v, want %v", n, errs[1], errs[0])
	}
}

func (m *model) set(r *rapid.T) {
	closed, paused := rapid.IntRange(0, 3).Draw(r, "closed") == 0, rapid.IntRange(0, 3).Draw(r, "paused") == 0
	for _, s := range m.stores {
		if err := m.insist(func() error {
			_, err := s.Set(context.Background(), "q", func(s *queue.Settings) { s.Closed, s.Paused = closed, paused })
			return err
		}); err != nil {
			r.Fatal(err)
		}
	}
}

// forget deletes what the model left at Redis.
func (m *model) forget(r *rapid.T) {
	ctx := context.Background()
	for from := uint64(0); ; {
		e, err := m.client.Client.Do(ctx, m.client.B().Scan().Cursor(from).Match("{"+m.o.Prefix+":*").Count(10_000).Build()).AsScanEntry()
		if err != nil {
			r.Fatal(err)
		}
		if len(e.Elements) > 0 {
			m.client.Client.Do(ctx, m.client.B().Unlink().Key(e.Elements...).Build())
		}
		if from = e.Cursor; from == 0 {
			return
		}
	}
}
