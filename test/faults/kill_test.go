//go:build servers

package faults

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
)

// restored is how long after a fault everything may take: the row's seconds, three times, as
// the machine is shared.
const (
	afterClaim = 3 * (claim + 5*time.Second)
	afterFault = 3 * 10 * time.Second
)

// busy waits until the instance of that name, or any for "", has entries handed out.
func (w *world) busy(name string) {
	w.Helper()
	w.until(5*time.Second, "entries are handed out to "+name, func() bool { return w.held(name) > 0 })
}

// freeze freezes an instance while it has entries, and returns how many.
func (w *world) freeze(in *process.Instance, holds func() int64) (entries int64) {
	w.Helper()
	w.until(time.Minute, "it is frozen with entries", func() bool {
		if holds() == 0 {
			return false
		}
		in.Freeze()
		if entries = holds(); entries == 0 { // it was done with them by then
			in.Thaw()
		}
		return entries > 0
	})
	return entries
}

// held is how many entries a consumer has; of all for "". Names may have a suffix.
func (w *world) held(name string) (n int64) {
	if name == "" {
		return w.pending()
	}
	list, err := w.do("XINFO", "CONSUMERS", stream, "processor-group").ToArray()
	if err != nil {
		return 0
	}
	for _, c := range list {
		m, err := c.AsMap()
		if err != nil {
			continue
		}
		who := m["name"]
		if s, _ := who.ToString(); len(s) >= len(name) && s[:len(name)] == name {
			p := m["pending"]
			k, _ := p.AsInt64()
			n += k
		}
	}
	return n
}

func TestKilledTenTimes(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		in := w.run("one")[0]
		w.startLoad(loadOptions{})
		for range 10 {
			w.pass(w.between(20*time.Millisecond, 1200*time.Millisecond))
			if in.Kill(); w.held("one") > 0 {
				w.hit("held")
			}
			in.Start()
		}
		w.finish(afterClaim, allowance{})
		w.struck("killed while entries were handed out", 3, w.hits["held"])
	})
}

func TestAnotherInstanceTakesOver(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		dies := w.run("dies", "lives")[0]
		w.startLoad(loadOptions{})
		w.pass(time.Second)
		w.busy("dies")
		dies.Kill()
		left := w.held("dies")
		w.pass(2 * time.Second)
		w.finish(afterClaim, allowance{})
		w.struck("entries left behind", 1, int(left))
	})
}

func TestRedisKilled(t *testing.T) {
	t.Parallel()
	// With everysec, a Redis with a slow disk answers up to two seconds before it hands its log
	// to the system: data confirmed in that time is gone when it is killed (doctor says so).
	serverKilled(t, func(w *world) *testenv.Server { return w.redis }, "REDIS_SETTINGS=--appendfsync always")
}
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	serverKilled(t, func(w *world) *testenv.Server { return w.postgres })
}
func TestClickHouseKilled(t *testing.T) {
	t.Parallel()
	serverKilled(t, func(w *world) *testenv.Server { return w.clickhouse })
}

func serverKilled(t *testing.T, which func(*world) *testenv.Server, redis ...string) {
	rounds(t, func(w *world) {
		w.run("one")
		l := w.startLoad(loadOptions{})
		for range 2 {
			w.pass(w.between(time.Second, 2*time.Second))
			before := l.confirmed.Load()
			w.busy("")
			w.kill(which(w))
			w.pass(w.between(0, time.Second))
			which(w).Restart()
			w.until(15*time.Second, "events are confirmed again", func() bool { return l.confirmed.Load() > before+100 })
			w.hit("killed")
		}
		w.pass(time.Second)
		w.finish(afterFault, allowance{})
		w.struck("servers killed under load", 2, w.hits["killed"])
	}, redis...)
}

func TestFrozenForThreeClaims(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		ins := w.run("frozen", "awake")
		w.startLoad(loadOptions{Rate: 400, Door: 80})
		w.pass(time.Second)
		left := w.freeze(ins[0], func() int64 { return w.held("frozen") })
		w.pass(3 * claim)
		taken := left - w.held("frozen")
		ins[0].Thaw()
		w.pass(time.Second)
		w.finish(afterClaim, allowance{})
		w.struck("entries taken from the frozen one", 1, int(taken))
		w.struck("settlements that came too late", 1, int(w.metric("tidemill_settlements_stale_total", `pipeline="analytics"`)))
	})
}

func TestTwoInstancesOfOneName(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("twin", "twin")
		w.startLoad(loadOptions{})
		for range 3 {
			w.pass(w.between(300*time.Millisecond, 800*time.Millisecond))
			in := w.instances[w.rnd.IntN(2)]
			in.Kill()
			w.hit("killed")
			w.pass(w.between(0, 400*time.Millisecond))
			in.Start()
		}
		w.finish(afterClaim, allowance{})
		w.struck("one of two killed", 3, w.hits["killed"])
	})
}

func TestThreeInstancesJoinAndLeave(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("a", "b", "c")
		w.startLoad(loadOptions{})
		for range 12 {
			w.pass(w.between(100*time.Millisecond, 700*time.Millisecond))
			in := w.instances[w.rnd.IntN(3)]
			switch killed := w.rnd.IntN(2) == 0; {
			case !in.Runs():
				in.Start()
				w.hit("joined")
			case killed:
				in.Kill()
				w.hit("left")
			default:
				if err := in.Stop(stopsWithin); err != nil {
					w.Errorf("it stops with %v", err)
				}
				w.hit("left")
			}
		}
		if in := w.instances[0]; !in.Runs() {
			in.Start()
		}
		w.finish(afterClaim, allowance{})
		w.struck("joined and left", 12, w.hits["joined"]+w.hits["left"])
	})
}

// stopsWithin is the time that a stop may take: work in flight gets ten seconds.
const stopsWithin = 11 * time.Second

func TestStoppedWhileItFlushes(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		slow := w.link(w.clickhouse)
		in := w.run("one")[0]
		w.startLoad(loadOptions{})
		for range 3 {
			w.pass(w.between(300*time.Millisecond, time.Second))
			slow.Slow(300*time.Millisecond, 100*time.Millisecond)
			w.busy("one")
			w.hit("stopped")
			began := time.Now()
			if err := in.Stop(stopsWithin); err != nil {
				w.Errorf("it stops with %v", err)
			}
			w.Logf("stopped after %v, %d entries are handed out", time.Since(began).Round(time.Millisecond), w.held("one"))
			slow.Heal()
			in.Start()
		}
		w.finish(afterClaim, allowance{})
		w.struck("stopped while entries were handed out", 3, w.hits["stopped"])
	})
}

func TestTheSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		slow := w.link(w.clickhouse)
		in := w.run("one")[0]
		w.startLoad(loadOptions{})
		for n := 0; n < 3 || n < 6 && w.hits["held something"] < 2; n++ {
			w.pass(w.between(300*time.Millisecond, time.Second))
			slow.Slow(4*time.Second, 0)
			w.busy("one")
			w.pass(300 * time.Millisecond)
			in.Signal(syscall.SIGTERM)
			w.pass(300 * time.Millisecond)
			w.hit("held " + map[bool]string{true: "something", false: "nothing"}[w.held("one") > 0])
			began := time.Now()
			in.Signal(syscall.SIGTERM)
			if err := in.Wait(5 * time.Second); errors.Is(err, process.ErrRuns) {
				w.Fatal(err)
			}
			if d := time.Since(began); d > time.Second {
				w.Errorf("it ends %v after the second signal", d)
			}
			slow.Heal()
			in.Start()
		}
		w.finish(afterClaim, allowance{})
		w.struck("ended while entries were handed out", 2, w.hits["held something"])
	})
}

func TestStoppedWithoutClickHouse(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		in := w.run("one")[0]
		w.startLoad(loadOptions{Door: 50})
		w.pass(time.Second)
		w.kill(w.clickhouse)
		w.pass(time.Second)
		w.busy("one")
		began := time.Now()
		if err := in.Stop(stopsWithin); errors.Is(err, process.ErrRuns) {
			w.Fatal(err)
		}
		w.Logf("stopped after %v, %d entries are handed out", time.Since(began).Round(time.Millisecond), w.held("one"))
		w.clickhouse.Restart()
		in.Start()
		w.finish(afterClaim, allowance{})
	})
}
