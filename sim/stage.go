package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/sleep"
)

// stage is the base of every simulated world: the gate, processes that come and go, and the
// faults found.
type stage struct {
	g    *Gate
	rnd  *rand.Rand // the scheduler's own
	seed uint64

	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup // all goroutines on it

	mu     sync.Mutex // guards what follows
	next   int        // number of the newest process
	faults []string
}

// newStage makes an empty stage; its worlds draw from their own streams.
func newStage(seed, stream uint64) *stage {
	s := &stage{g: newGate(seed), rnd: rand.New(rand.NewPCG(seed, stream)), seed: seed}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

func (s *stage) base() *stage { return s }

// fault notes a violation.
func (s *stage) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// process makes the next incarnation of the system.
func (s *stage) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return &process{n: s.next, onDeath: func() {}, onStop: func() {}}
}

// outsider is a process that is not one of ours: it may die at an effect without consequences.
func outsider() *process { return &process{onDeath: func() {}, onStop: func() {}} }

// live runs a process. When it dies or is told to stop, gone is told, and another one starts
// after a pause: again. A process must not end by itself.
func (s *stage) live(p *process, run func(context.Context) error, gone func(dead bool), again func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	leave := sync.OnceFunc(func() {
		cancel()
		pause := time.Duration(s.rnd.Int64N(int64(3 * time.Second)))
		s.done.Go(func() {
			_ = sleep.For(s.ctx, pause)
			if s.ctx.Err() == nil {
				again()
			}
		})
	})
	p.onDeath = func() { p.gone = true; gone(true); leave() }
	p.onStop = func() { p.gone = true; gone(false); leave() }
	s.done.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			s.fault("process %d ended by itself: %v", p.n, err)
		}
	})
}

// acts are the phases of a world.
type acts struct {
	open  func()                         // processes and everybody else begin
	storm func(since time.Duration) bool // whether faults continue, so long after the beginning
	quiet func() bool                    // nothing is left to do
	check func()                         // how everything ended
}

// Nothing lasts longer than this: storms are over, and the rest is done.
const (
	longestStorm = 5 * time.Minute
	longestCalm  = 15 * time.Minute
)

// play runs one seed inside its bubble and returns the violations.
func (s *stage) play(a acts) []string {
	a.open()
	begun := time.Now()
	s.g.run(func() bool { since := time.Since(begun); return !a.storm(since) || since > longestStorm })
	s.g.calm = true
	calmed := time.Now()
	s.g.run(func() bool { return a.quiet() || time.Since(calmed) > longestCalm })
	if !a.quiet() {
		s.fault("liveness: not everything was done %v after the last fault", longestCalm)
	}
	s.end()
	ended := make(chan struct{})
	over := false
	go func() { s.done.Wait(); close(ended) }()
	s.g.run(func() bool {
		select {
		case <-ended:
			over = true
		default:
		}
		return over
	})
	synctest.Wait()
	a.check()
	return s.faults
}
