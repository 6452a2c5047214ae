package admin

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/aside"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/queue"
)

// How counters are read for those who look.
const (
	booksFresh  = time.Second
	queuesFresh = figures.Step / 2
	awaited     = 700 * time.Millisecond // a store that is away
)

// standing is what is known of how all stands. It is read once for however many look.
type standing struct {
	history *figures.Store
	books   []*figures.Latest[[]booksOf] // of each system
	queues  *figures.Latest[[]queueOf]   // nil: there are none
	owners  *figures.Latest[[]ownersOf]

	begun sync.WaitGroup // readings
	end   context.CancelFunc

	mu      sync.Mutex // guards refused
	refused map[string]refusing
}

// queueOf is how a queue stands.
type queueOf struct {
	name string
	queue.Stats
	queue.Settings
	books tidemill.Books // Pending is not for use: Stats has it
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
	life, s.end = context.WithCancel(aside.Reading(life))
	for i := range a.Systems {
		r := bookReader{of: func() map[string]tidemill.Bookkeeper { return a.systems()[i].Books }, now: a.Now, balanced: map[string]time.Time{}}
		s.books = append(s.books, &figures.Latest[[]booksOf]{Read: r.read,
			Fresh: booksFresh, Wait: awaited, Within: booksWithin, Life: life, Begun: &s.begun, Now: a.Now})
	}
	if a.Queues != nil {
		sources := map[string]tidemill.Bookkeeper{}
		s.queues = &figures.Latest[[]queueOf]{Read: func(ctx context.Context) ([]queueOf, error) { return readQueues(ctx, a.Queues, sources) },
			Fresh: queuesFresh, Wait: awaited, Within: booksWithin, Life: life, Begun: &s.begun, Now: a.Now}
	}
	s.owners = a.newOwners(s, life)
	return s
}

// Close ends what reads counters, waits for it, and says to other instances that this one has ended.
func (a *API) Close() error {
	a.hub.Close()
	a.standing.end()
	a.standing.begun.Wait()
	return a.leave()
}

// readQueues reads how queues stand, without looking at jobs. Sources that it opens stay open.
func readQueues(ctx context.Context, s queue.Store, sources map[string]tidemill.Bookkeeper) (all []queueOf, err error) {
	names, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all = make([]queueOf, len(names))
	books := make([]tidemill.Bookkeeper, len(names))
	for i, name := range names {
		if sources[name] == nil {
			sources[name] = s.Open(name, queue.Options{}).(tidemill.Bookkeeper)
		}
		all[i].name, books[i] = name, sources[name]
	}
	err = together(len(names), func(i int) (err error) {
		q := &all[i]
		if q.books, err = counters(ctx, books[i]); err == nil {
			q.Stats, err = s.Stats(ctx, q.name)
		}
		if err == nil {
			q.Settings, err = s.Settings(ctx, q.name)
		}
		return err
	})
	return all, err
}

// Sample is a loop that keeps what is counted, for rates and histories.
func (a *API) Sample() flow.Loop {
	return flow.Loop{Name: "figures", Every: figures.Step, AtStart: true, Do: func(ctx context.Context) error {
		a.sample(ctx)
		return nil // what cannot be read is a gap in the history, and the overview says why
	}}
}

func (a *API) sample(ctx context.Context) {
	s, counts := a.standing, map[string]figures.Count{}
	var queues []queueOf
	if s.queues != nil {
		if all, _, err := s.queues.Get(ctx); err == nil {
			queues = all
		}
	}
	now := a.Now()
	ages := map[string]time.Duration{}
	for _, q := range queues {
		if !q.Oldest.IsZero() {
			ages[q.name] = now.Sub(q.Oldest)
		}
		counts[queueSeries+q.name] = counted(q.books, ages[q.name])
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
