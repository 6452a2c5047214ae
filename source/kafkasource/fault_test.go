package kafkasource_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// A wire is a way to the brokers on which answers can be lost: connections stay open,
// requests arrive, and what comes back is thrown away until they are closed.
type wire struct {
	mu    sync.Mutex // guards the fields below
	lost  bool
	cut   bool
	conns []net.Conn
}

// down refuses connections, or accepts them again. Where a port is free and without a
// listener, a client that tries for long enough connects to itself.
func (w *wire) down(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errors.New("the broker is down")
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return lossy{c, w}, nil
}

// loseAnswers begins to lose answers, or ends it with all connections.
func (w *wire) loseAnswers(lose bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lose
	if !lose {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

type lossy struct {
	net.Conn
	wire *wire
}

func (l lossy) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		l.wire.mu.Lock()
		lost := l.wire.lost
		l.wire.mu.Unlock()
		if err != nil || !lost {
			return n, err
		}
	}
}

func TestACommitWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	var way wire
	straight := w.source(kafkasource.Options{})
	w.cluster = cluster(t, w.brokers, way.dial)
	s := w.source(kafkasource.Options{Answer: 2 * time.Second, Instance: "one"})
	w.number(0, 10)
	got := receive(t, s, 10, 10*time.Second)
	ends := delivered(got[:6]...)
	way.loseAnswers(true)
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Settle(brief, ends); err == nil || ends[0].Outcome != tidemill.Unanswered {
		t.Fatalf("without an answer the settlement was taken as %d, %v", ends[0].Outcome, err)
	}
	// It has arrived anyway.
	w.books(straight, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 6}, Pending: 4})
	way.loseAnswers(false)
	for begin := time.Now(); ; {
		if err := s.Settle(t.Context(), ends); err == nil {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal("it is not taken any more")
		}
	}
	for i, e := range ends {
		if e.Outcome != tidemill.Applied {
			t.Fatalf("settlement %d was taken as %d the second time, want applied", i, e.Outcome)
		}
	}
	settle(t, s, tidemill.Applied, delivered(got[6:]...)...)
	settle(t, s, tidemill.Stale, delivered(got[0])...)
	w.books(straight, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 10}})
}

func TestABrokerThatDiesAndComesBack(t *testing.T) {
	t.Parallel()
	server := testenv.Start(t, testenv.PrivateKafka)
	var way wire
	w := newWorldOn(t, cluster(t, []string{server.Addr}, way.dial), 3)
	const many = 3000
	y := newTally(many)
	s := w.source(kafkasource.Options{})
	stop := y.start(t, s)
	defer stop()
	var adding sync.WaitGroup
	adding.Go(func() { w.number(0, 2000) })
	y.await(t, 300) // it dies under work: a commit is on its way, arrives, and is not answered
	adding.Wait()
	way.loseAnswers(true)
	time.Sleep(300 * time.Millisecond)
	way.down(true)
	server.Kill()
	way.loseAnswers(false)
	for { // a process of many threads is a zombie before its last one has closed its sockets
		c, err := net.Dial("tcp", server.Addr)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	server.Restart()
	way.down(false)
	w.number(2000, many)
	for begin := time.Now(); time.Since(begin) < 60*time.Second; time.Sleep(100 * time.Millisecond) {
		if b, err := s.Books(t.Context()); err == nil && b.Settled.Delivered == many {
			break
		}
	}
	w.books(s, tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
	stop()
	y.accounted(t)
}
