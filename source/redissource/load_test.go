package redissource

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// load is a producer and a consumer at work. What the producer got no answer for it
// notes as doubtful.
type load struct {
	b         *table
	source    *Source
	mu        sync.Mutex
	confirmed map[string]bool // by payload: whether it was settled
	hurts     int             // errors met, so that a test sees that its fault was felt
	stop      context.CancelFunc
	stopAdd   context.CancelFunc
	adding    sync.WaitGroup
	all       sync.WaitGroup
}

// work starts them: the producer on one client, the consumer on another.
func work(b *table, producer, consumer rueidis.Client) *load {
	l := &load{b: b, source: b.open(consumer, Options{}), confirmed: map[string]bool{}}
	ctx, stop := context.WithCancel(b.Context())
	add, stopAdd := context.WithCancel(ctx)
	l.stop, l.stopAdd = stop, stopAdd
	l.adding.Go(func() {
		for n := 0; add.Err() == nil; n++ {
			name := fmt.Sprint("e", n)
			err := producer.Do(add, producer.B().Xadd().Key(b.stream).Id("*").FieldValue().FieldValue("n", name).Build()).Error()
			if err != nil {
				rest(add, 5*time.Millisecond)
				continue
			}
			l.mu.Lock()
			if _, ok := l.confirmed[name]; !ok {
				l.confirmed[name] = false
			}
			l.mu.Unlock()
			if n%50 == 0 {
				rest(add, time.Millisecond)
			}
		}
	})
	l.all.Go(func() { l.consume(ctx) })
	b.Cleanup(func() { stop(); l.all.Wait() })
	return l
}

// rest waits, between tries.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *load) consume(ctx context.Context) {
	into := make([]*tidemill.Message, 100)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	for ctx.Err() == nil {
		n, err := l.source.Receive(ctx, into)
		if err != nil {
			l.hurt(ctx)
			continue
		}
		names, ends := payloads(into[:n]), make([]tidemill.Settlement, n)
		for i, m := range into[:n] {
			ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
		}
		for l.source.Settle(ctx, ends) != nil && ctx.Err() == nil {
			l.hurt(ctx)
		}
		l.mu.Lock()
		for _, name := range names {
			l.confirmed[name] = true
		}
		l.mu.Unlock()
	}
}

func (l *load) hurt(ctx context.Context) {
	l.mu.Lock()
	l.hurts++
	l.mu.Unlock()
	rest(ctx, 5*time.Millisecond)
}

// settled is how many messages were settled.
func (l *load) settled() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, done := range l.confirmed {
		if done {
			n++
		}
	}
	return n
}

// goesOn waits until n messages more are settled.
func (l *load) goesOn(n int) {
	l.b.Helper()
	for want, end := l.settled()+n, time.Now().Add(20*time.Second); l.settled() < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.b.Fatalf("nothing goes on: %d settled, want %d more", l.settled(), n)
		}
	}
}

// drained ends the producer and waits until all is settled, then returns what is missing.
func (l *load) drained() (missing []string) {
	l.b.Helper()
	l.stopAdd()
	l.adding.Wait()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		books, err := l.source.Books(l.b.Context())
		if err == nil && books.Off() != 0 {
			l.b.Fatalf("books are off by %d: %+v", books.Off(), books)
		}
		if err == nil && books.Pending == 0 {
			break
		}
		if time.Now().After(end) {
			l.b.Fatalf("not drained: %+v, %v", books, err)
		}
	}
	// What was settled last is noted right after.
	for end := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		missing = nil
		l.mu.Lock()
		for name, done := range l.confirmed {
			if !done {
				missing = append(missing, name)
			}
		}
		l.mu.Unlock()
		if len(missing) == 0 || time.Now().After(end) {
			return missing
		}
	}
}

func TestTheGroupIsDestroyedUnderLoad(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.PrivateRedis)
	b := newTable(t, s.URL)
	l := work(b, b.client, redistest.Connect(t, s.URL))
	for range 3 {
		l.goesOn(300)
		b.do("XGROUP", "DESTROY", b.stream, Group)
	}
	l.goesOn(300)
	if missing := l.drained(); len(missing) > 0 {
		t.Errorf("%d of %d entries were never handed out: %.10q", len(missing), len(l.confirmed), missing)
	}
	if b.reported(NewGroup) < 0 {
		t.Error("nobody was told")
	}
}

func TestTheStreamIsDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	for _, how := range [][]string{{"DEL", "stream"}, {"FLUSHALL", "SYNC"}} {
		t.Run(how[0], func(t *testing.T) {
			t.Parallel()
			s := testenv.Start(t, testenv.PrivateRedis)
			b := newTable(t, s.URL)
			l := work(b, b.client, redistest.Connect(t, s.URL))
			for range 3 {
				l.goesOn(300)
				if how[0] == "DEL" {
					how[1] = b.stream
				}
				b.do(how...)
			}
			l.goesOn(300)
			if missing := l.drained(); len(missing) > 1000 { // what lay in it is gone: less than a second's load
				t.Errorf("%d of %d entries were never handed out", len(missing), len(l.confirmed))
			}
			if b.reported(WentBack) < 0 {
				t.Errorf("nobody was told: %+v", b.reports)
			}
		})
	}
}

// With appendfsync everysec a Redis whose disk is slow puts writes off that it has
// confirmed, for up to two seconds, and a kill loses them; what it has is handed out and
// accounted for. With always nothing may be missing.
func TestRedisIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			s := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync "+fsync)
			b := newTable(t, s.URL)
			l := work(b, b.client, redistest.Connect(t, s.URL))
			for range 2 {
				l.goesOn(300)
				s.Kill()
				s.Restart()
			}
			l.goesOn(300)
			missing := l.drained()
			if len(missing) > 0 && fsync == "always" {
				t.Errorf("%d of %d entries were never handed out: %.10q", len(missing), len(l.confirmed), missing)
			}
			if books, err := l.source.Books(t.Context()); err != nil || books.Lost > 0 {
				t.Errorf("books are %+v, %v", books, err)
			}
			if l.hurts == 0 {
				t.Error("the consumer felt nothing of it: the test is vacuous")
			}
		})
	}
}

func TestAnswersAreLostUnderLoad(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, s.Addr)
	b := newTable(t, s.URL)
	l := work(b, b.client, redistest.Connect(t, "redis://"+link.Addr))
	for i := range 20 {
		l.goesOn(100)
		link.LoseAnswers(i * 37 % 500)
		time.Sleep(20 * time.Millisecond) // long enough for a few connections to be cut
		link.Heal()
	}
	l.goesOn(300)
	if missing := l.drained(); len(missing) > 0 {
		t.Errorf("%d of %d entries were never handed out: %.10q", len(missing), len(l.confirmed), missing)
	}
	books, err := l.source.Books(t.Context())
	if err != nil || books.Lost > 0 || books.Settled.Delivered != books.Accepted {
		t.Errorf("books are %+v, %v", books, err)
	}
	if l.hurts < 10 {
		t.Errorf("the consumer felt %d lost answers, want 10 at least", l.hurts)
	}
}
