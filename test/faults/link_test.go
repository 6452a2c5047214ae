//go:build servers

package faults

import (
	"net"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

func TestLinksAreSlow(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		// A request that each server answers at once, with at least a byte.
		hello := []string{"PING\r\n", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "GET /ping HTTP/1.0\r\n\r\n"}
		links := []*testenv.Link{w.link(w.redis), w.link(w.postgres), w.link(w.clickhouse)}
		w.run("one")
		l := w.startLoad(loadOptions{Rate: 400, Door: 50})
		faults := []func(*testenv.Link){
			func(l *testenv.Link) { l.Slow(275*time.Millisecond, 225*time.Millisecond) },
			func(l *testenv.Link) { l.Narrow(50) },
			func(l *testenv.Link) { l.Slice(1) },
		}
		for _, n := range w.rnd.Perm(len(links) * len(faults)) {
			before, link := l.confirmed.Load(), links[n/len(faults)]
			faults[n%len(faults)](link)
			if n%len(faults) == 0 && w.roundTrip(link.Addr, hello[n/len(faults)]) >= 50*time.Millisecond {
				w.hit("late")
			}
			w.pass(1200 * time.Millisecond)
			w.until(10*time.Second, "events are confirmed meanwhile", func() bool { return l.confirmed.Load() > before })
			link.Heal()
		}
		w.finish(afterFault, allowance{})
		w.struck("links whose answers came late", 3, w.hits["late"])
	})
}

// roundTrip is how long the first byte of an answer takes.
func (w *world) roundTrip(addr, request string) time.Duration {
	w.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	began := time.Now()
	if _, err = c.Write([]byte(request)); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		w.Fatal(err)
	}
	return time.Since(began)
}

func TestRedisIsCutOff(t *testing.T) {
	t.Parallel()
	cutOff(t, func(w *world) *testenv.Server { return w.redis })
}
func TestPostgresIsCutOff(t *testing.T) {
	t.Parallel()
	cutOff(t, func(w *world) *testenv.Server { return w.postgres })
}
func TestClickHouseIsCutOff(t *testing.T) {
	t.Parallel()
	cutOff(t, func(w *world) *testenv.Server { return w.clickhouse })
}

// cutOff makes a server unreachable twice, for five seconds each: everything is swallowed,
// then connections are refused.
func cutOff(t *testing.T, which func(*world) *testenv.Server) {
	rounds(t, func(w *world) {
		link := w.link(which(w))
		w.run("one")
		l := w.startLoad(loadOptions{Rate: 400, Door: 50})
		for _, fault := range []func(){link.BlackHole, link.Refuse} {
			w.pass(time.Second)
			w.busy("")
			fault()
			w.pass(2 * time.Second)
			before, settled := l.confirmed.Load(), w.int("XLEN", stream)
			w.pass(3 * time.Second)
			if l.confirmed.Load() > before && w.int("XLEN", stream) > settled {
				w.hit("behind")
			}
			link.Heal()
		}
		w.pass(time.Second)
		w.finish(afterFault, allowance{})
		w.struck("the server was cut off: it fell behind, or events died of it", 2, w.hits["behind"]+w.replayed)
	})
}

func TestRedisAnswersAreLost(t *testing.T) {
	t.Parallel()
	answersLost(t, func(w *world) *testenv.Server { return w.redis }, 8, "XREADGROUP", "XACK", "EVALSHA", "EVAL", "XADD", "XAUTOCLAIM")
}

func TestPostgresAnswersAreLost(t *testing.T) {
	t.Parallel()
	answersLost(t, func(w *world) *testenv.Server { return w.postgres }, 5, "commit", "COMMIT", "insert into", "INSERT INTO")
}

func TestClickHouseAnswersAreLost(t *testing.T) {
	t.Parallel()
	answersLost(t, func(w *world) *testenv.Server { return w.clickhouse }, 2, "INSERT")
}

// answersLost lets requests through and loses some of the answers, after a few bytes that
// change all the time.
func answersLost(t *testing.T, which func(*world) *testenv.Server, every int, words ...string) {
	rounds(t, func(w *world) {
		c := newCutter(w, which(w).Addr)
		w.through(which(w), c.addr)
		w.run("one")
		w.startLoad(loadOptions{})
		for range 40 { // seconds at most: a busy machine sends less
			c.lose(every, w.rnd.IntN(30)*w.rnd.IntN(2), words...)
			if w.pass(time.Second); c.fired.Load() >= 30 {
				break
			}
		}
		c.lose(1, 0)
		w.finish(afterFault, allowance{})
		w.struck("answers lost", 20, int(c.fired.Load()))
	})
}
