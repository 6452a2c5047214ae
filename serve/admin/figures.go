package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/aside"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

// How counters are read for those who look.
const (
	booksFresh  = time.Second
	booksGood   = 2 * time.Second // nobody waits for those that are not older, and none are older than them while somebody looks
	queuesFresh = figures.Step / 2
	awaited     = 700 * time.Millisecond // a store that is away
	longShare   = 200                    // for how many times as long as a long reading took nobody reads again
)

// standing is what is known of how all stands. It is read once for however many look.
type standing struct {
	history *figures.Store
	books   []*figures.Latest[[]booksOf]      // of each system
	audits  []*figures.Latest[audited]        // of each system
	queues  *figures.Latest[[]queue.Standing] // nil: there are none
	owners  *figures.Latest[*owning]
	groups  *figures.Latest[deadletter.Groups]
	deepest figures.Keyed[string, []queue.Depth] // of a queue: its tenants with the most jobs that wait
	depths  figures.Keyed[string, []queue.Depth] // of an owner: in which queues its jobs wait
	owned   figures.Keyed[owned, operation.Count]

	readings figures.Readings
	end      context.CancelFunc

	mu      sync.Mutex // guards refused
	refused map[string]refusing
}

// refusing is how often a destination refused us, and when it last did.
type refusing struct {
	times uint64
	last  time.Time
}

func (a *API) newStanding() *standing {
	life := a.Stopping
	if life == nil {
		life = context.Background()
	}
	s := &standing{history: figures.New(), refused: map[string]refusing{}}
	s.readings.Now = a.Now
	s.readings.Life, s.end = context.WithCancel(aside.Reading(life))
	for i := range a.Systems {
		r := bookReader{of: func() map[string]tidemill.Bookkeeper { return a.systems()[i].Books }, now: a.Now, balanced: map[string]time.Time{}}
		s.books = append(s.books, &figures.Latest[[]booksOf]{Read: r.read,
			Fresh: booksFresh, Most: booksGood, Share: longShare, Good: booksGood, Wait: awaited, Within: booksWithin, In: &s.readings})
		s.audits = append(s.audits, a.newAudit(i, s))
	}
	if a.Queues != nil {
		s.queues = &figures.Latest[[]queue.Standing]{Read: a.Queues.Standing,
			Fresh: queuesFresh, Good: figures.Step, Wait: awaited, Within: booksWithin, In: &s.readings}
	}
	s.owners = a.newOwners(s)
	a.lookAtDepths(s)
	s.groups = a.newGroups(s)
	return s
}

// latest is a value that was read, and when, however long ago; else why it was not.
func latest[T any](ctx context.Context, of *figures.Latest[T]) (value T, at time.Time, err error) {
	value, at, err = of.Get(ctx)
	if at.IsZero() {
		return value, at, answer.Busy(cmp.Or(err, errNotYet))
	}
	return value, at, nil
}

var errNotYet = errors.New("it was not read yet")

// changed has read anew what somebody has changed by the API.
func (s *standing) changed() {
	if s.queues != nil {
		s.queues.Changed()
	}
	s.groups.Changed()
	s.deepest.Forget()
	s.depths.Forget()
	s.owned.Forget()
	for _, one := range s.audits {
		one.Changed()
	}
}

// Close ends what reads counters, waits for it, and says to other instances that this one has ended.
func (a *API) Close() error {
	a.hub.Close()
	a.standing.end()
	a.standing.readings.Begun.Wait()
	return a.leave()
}

// Sample is a loop that keeps what is counted, for rates and histories, and ends pauses whose time is
// over.
func (a *API) Sample() flow.Loop {
	return flow.Loop{Name: "figures", Every: figures.Step, AtStart: true, Do: func(ctx context.Context) error {
		a.sample(ctx)
		return nil // what cannot be read is a gap in the history, and the overview says why
	}}
}

func (a *API) sample(ctx context.Context) {
	s, counts := a.standing, map[string]figures.Count{}
	var queues []queue.Standing
	if s.queues != nil {
		if all, _, err := s.queues.Get(ctx); err == nil {
			queues = all
		}
	}
	now := a.Now()
	a.endPauses(ctx, queues, now)
	ages := map[string]time.Duration{}
	for _, q := range queues {
		if !q.Stats.Oldest.IsZero() {
			ages[q.Queue] = now.Sub(q.Stats.Oldest)
		}
		counts[queueSeries+q.Queue] = counted(q.Books, ages[q.Queue])
	}
	for i, sys := range a.systems() {
		books, _, err := s.books[i].Get(ctx)
		if err != nil {
			books = nil
		}
		for _, b := range books {
			counts[pipelineSeries+b.pipeline] = counted(b.Books, ages[b.pipeline])
		}
		for _, e := range sys.Pipelines {
			st := e.Stats()
			s.refusedBy(e.Name(), st.Failures[tidemill.Credentials], now)
			if sys.Books[e.Name()] == nil {
				counts[pipelineSeries+e.Name()] = figures.Count{In: st.Received, Out: st.Settled.Delivered + st.Settled.Skipped, Failed: st.Settled.Dead}
			}
		}
	}
	s.history.Sample(now, counts)
}

func counted(b tidemill.Books, oldest time.Duration) figures.Count {
	return figures.Count{In: b.Accepted, Out: b.Settled.Delivered + b.Settled.Skipped, Failed: b.Settled.Dead, Oldest: oldest}
}

// refusedBy notes how often a pipeline's destination refused us.
func (s *standing) refusedBy(pipeline string, times uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.refused[pipeline]
	if times > was.times {
		was.last = now
	}
	was.times = times
	s.refused[pipeline] = was
}

// lastRefused is when a pipeline's destination last refused us; zero: never.
func (s *standing) lastRefused(pipeline string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[pipeline].last
}

// What series are called.
const (
	queueSeries    = "queue:"
	pipelineSeries = "pipeline:"
	partnerSeries  = "partner:"
)

// seriesOf is the series that has what is asked for: a partner's is that of its queue.
func (a *API) seriesOf(name string) string {
	if partner, ok := strings.CutPrefix(name, partnerSeries); ok {
		return queueSeries + cmp.Or(a.queueOf(partner), partner)
	}
	return name
}
