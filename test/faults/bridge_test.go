//go:build servers

package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/test/process"
)

// lasts is how long a row's faults last.
const lasts = 8 * time.Second

func TestBridgeKilled(t *testing.T) {
	t.Parallel()
	bridgeKills(t, farOptions{Buries: true}, true, false)
}
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	bridgeKills(t, farOptions{}, false, true)
}
func TestBridgeAndBrokerKilled(t *testing.T) {
	t.Parallel()
	bridgeKills(t, farOptions{}, true, true)
}

// bridgeKills kills the bridge every one or two seconds, the broker every two or three.
func bridgeKills(t *testing.T, f farOptions, bridge, broker bool) {
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(f, "one")
		for n := 0; n == 0 || n < 3 && bridge && w.hits["bridge"] < 3; n++ {
			w.killFor(lasts, bridge, broker)
		}
		w.finish(afterClaim, bridgeAllowance{})
		w.struck("bridges killed while entries were handed out", 3*truth(bridge), w.hits["bridge"])
		w.struck("brokers killed", 2*truth(broker), w.hits["broker"])
		w.struck("entries published again", 1, w.far.total("again"))
	})
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// killFor kills them for a while, and leaves both running in the end.
func (w *bridgeWorld) killFor(d time.Duration, bridge, broker bool) {
	w.Helper()
	never := time.Now().Add(time.Hour)
	next := func(on bool, from, to time.Duration) time.Time {
		if !on {
			return never
		}
		return time.Now().Add(w.between(from, to))
	}
	bridgeAt, brokerAt := next(bridge, time.Second, 2*time.Second), next(broker, 2*time.Second, 3*time.Second)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if bridgeAt.Before(brokerAt) {
			w.pass(time.Until(bridgeAt))
			in := w.instances[w.rnd.IntN(len(w.instances))]
			for range 100 { // with a fast subscriber few entries are in flight
				if w.someHeld() {
					break
				}
				w.pass(5 * time.Millisecond)
			}
			w.hit("kill")
			if in.Kill(); w.someHeld() {
				w.hit("bridge")
			}
			in.Begin()
			bridgeAt = next(true, time.Second, 2*time.Second)
		} else {
			w.pass(time.Until(brokerAt))
			w.kill(w.mosquitto)
			w.hit("broker")
			w.pass(w.between(0, 500*time.Millisecond))
			w.mosquitto.Restart()
			brokerAt = next(true, 2*time.Second, 3*time.Second)
		}
	}
}

func (w *bridgeWorld) someHeld() bool { _, n := w.waiting(""); return n > 0 }

func TestRedisOfTheBridgeKilled(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(farOptions{Buries: true}, "one")
		for range 3 {
			w.pass(w.between(time.Second, 2*time.Second))
			before := w.load.count()
			w.busy("")
			w.kill(w.redis)
			w.pass(w.between(0, time.Second))
			w.redis.Restart()
			w.until(15*time.Second, "entries are confirmed again", func() bool { return w.load.count() > before+100 })
			w.hit("killed")
		}
		w.finish(afterFault, bridgeAllowance{})
		w.struck("Redis killed under load", 3, w.hits["killed"])
	})
}

func TestFrozenBridgeIsTakenOver(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		ins := w.run(farOptions{Buries: true}, "frozen", "awake")
		w.pass(time.Second)
		left := w.freeze(ins[0], func() int64 { _, n := w.waiting("frozen"); return n })
		w.pass(2 * claim)
		_, still := w.waiting("frozen")
		ins[0].Thaw()
		w.pass(time.Second)
		w.finish(afterClaim, bridgeAllowance{})
		w.struck("entries taken from the frozen one", 1, int(left-still))
	})
}

func TestBridgesJoinAndLeave(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 3; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bridgeRounds(t, func(w *bridgeWorld) {
				w.run(farOptions{Buries: true}, []string{"a", "b", "c"}[:n]...)
				for range 10 {
					w.pass(w.between(100*time.Millisecond, 700*time.Millisecond))
					in := w.instances[w.rnd.IntN(n)]
					switch killed := w.rnd.IntN(2) == 0; {
					case !in.Runs():
						in.Start()
					case killed:
						in.Kill()
					default:
						w.stops(in)
					}
					w.hit("joined and left")
				}
				if in := w.instances[0]; !in.Runs() {
					in.Start()
				}
				w.finish(afterClaim, bridgeAllowance{})
				w.struck("joined and left", 10, w.hits["joined and left"])
			})
		})
	}
}

// stops stops a bridge in order: it exits without error and in time.
func (w *bridgeWorld) stops(in *process.Instance) {
	w.Helper()
	began := time.Now()
	if err := in.Stop(bridgeStop + time.Second); errors.Is(err, process.ErrRuns) {
		w.Fatal(err)
	} else if err != nil {
		w.Errorf("it stops with %v", err)
	}
	_, held := w.waiting("")
	w.Logf("stopped after %v, %d entries are handed out", time.Since(began).Round(time.Millisecond), held)
}

func TestBridgeStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		slow := w.link(w.mosquitto)
		in := w.run(farOptions{Buries: true}, "one")[0]
		for range 4 {
			w.pass(w.between(300*time.Millisecond, time.Second))
			if w.rnd.IntN(2) == 0 {
				slow.Slow(200*time.Millisecond, 50*time.Millisecond)
			}
			w.busy("one")
			w.stops(in)
			w.hit("stopped")
			slow.Heal()
			in.Start()
		}
		w.finish(afterClaim, bridgeAllowance{})
		w.struck("stopped while entries were handed out", 4, w.hits["stopped"])
	})
}

func TestBrokerIsCutOffOrSlow(t *testing.T) {
	t.Parallel()
	bridgeCutOff(t, func(w *bridgeWorld) *testenv.Server { return w.mosquitto })
}
func TestRedisOfTheBridgeIsCutOffOrSlow(t *testing.T) {
	t.Parallel()
	bridgeCutOff(t, func(w *bridgeWorld) *testenv.Server { return w.redis })
}

// bridgeCutOff makes a server slow, then unreachable twice: everything is swallowed, then
// connections are refused.
func bridgeCutOff(t *testing.T, which func(*bridgeWorld) *testenv.Server) {
	bridgeRounds(t, func(w *bridgeWorld) {
		link := w.link(which(w))
		w.run(farOptions{Buries: true}, "one")
		for _, fault := range []func(){
			func() { link.Slow(275*time.Millisecond, 225*time.Millisecond) },
			func() { link.Narrow(50) },
			func() { link.Slice(1) },
			link.BlackHole, link.Refuse,
		} {
			w.pass(500 * time.Millisecond)
			w.busy("")
			before, left := w.int("XLEN", bridgeStream), w.load.count()
			fault()
			w.pass(2 * time.Second)
			if w.load.count() > left && w.int("XLEN", bridgeStream) > before {
				w.hit("behind")
			}
			link.Heal()
		}
		w.finish(afterFault, bridgeAllowance{})
		w.struck("it fell behind", 2, w.hits["behind"])
	})
}

func TestAnswersOfTheBrokerAreLost(t *testing.T) {
	t.Parallel()
	bridgeAnswersLost(t, func(w *bridgeWorld) *testenv.Server { return w.mosquitto }, 10, outTopic, deadTopic)
}
func TestAnswersOfRedisToTheBridgeAreLost(t *testing.T) {
	t.Parallel()
	bridgeAnswersLost(t, func(w *bridgeWorld) *testenv.Server { return w.redis }, 8, "XREADGROUP", "EVALSHA", "EVAL", "XAUTOCLAIM")
}

// bridgeAnswersLost lets requests through and loses some of the answers, after a few bytes
// that change all the time.
func bridgeAnswersLost(t *testing.T, which func(*bridgeWorld) *testenv.Server, every int, words ...string) {
	bridgeRounds(t, func(w *bridgeWorld) {
		c := newCutter(w, which(w).Addr)
		w.through(which(w), c.addr)
		w.run(farOptions{Buries: true}, "one")
		for range 30 { // seconds at most: a busy machine sends less
			c.lose(every, w.rnd.IntN(30)*w.rnd.IntN(2), words...)
			if w.pass(time.Second); c.fired.Load() >= 30 {
				break
			}
		}
		c.lose(1, 0)
		w.finish(afterFault, bridgeAllowance{})
		w.struck("answers lost", 15, int(c.fired.Load()))
	})
}

func TestGroupOfTheBridgeIsGone(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(farOptions{Buries: true}, "one", "two")
		for range 3 {
			w.pass(w.between(time.Second, 2*time.Second))
			w.busy("")
			if w.int("XGROUP", "DESTROY", bridgeStream, bridgeGroup) == 1 {
				w.hit("destroyed")
			}
		}
		w.pass(time.Second)
		w.finish(afterClaim, bridgeAllowance{recount: true})
		w.struck("groups destroyed under load", 3, w.hits["destroyed"])
	})
}

// TestFarSideIsSilent has a subscriber that gets everything and says nothing, for longer than
// it takes until entries are published again: that counts no tries.
func TestFarSideIsSilent(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(farOptions{}, "one")
		w.pass(time.Second)
		w.far.silent.Store(true)
		w.until(30*time.Second, "entries come again and again", func() bool { return w.far.total("again") > 500 })
		w.pass(2 * claim)
		w.far.silent.Store(false)
		w.pass(time.Second)
		w.finish(afterClaim, bridgeAllowance{})
		w.struck("messages that were not answered", 1000, w.far.total("not answered"))
	})
}

// TestForeignAcks has another program acknowledge entries without deleting them, while their
// messages may be in flight. Without the drain they would never be delivered again.
func TestForeignAcks(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(farOptions{}, "one")
		w.pass(time.Second)
		w.far.silent.Store(true) // so that acked entries are still in the stream
		for range 4 {
			w.pass(w.between(200*time.Millisecond, 600*time.Millisecond))
			list, err := w.do("XPENDING", bridgeStream, bridgeGroup, "-", "+", "500").ToArray()
			if err != nil {
				w.Fatal(err)
			}
			var ids []string
			for _, row := range list {
				if w.rnd.IntN(3) > 0 {
					continue
				}
				columns, err := row.ToArray()
				if err != nil {
					w.Fatal(err)
				}
				id, _ := columns[0].ToString()
				ids = append(ids, id)
			}
			if len(ids) > 0 {
				w.hits["acked"] += int(w.int(append([]string{"XACK", bridgeStream, bridgeGroup}, ids...)...))
			}
		}
		w.far.silent.Store(false)
		w.pass(time.Second)
		w.finish(afterClaim, bridgeAllowance{})
		w.struck("entries that somebody else acked", 100, w.hits["acked"])
	})
}
