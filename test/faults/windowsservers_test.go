//go:build servers

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/test/process"
)

// TestWindowsAFrozenInstanceIsTooLate freezes one of two instances beyond its lease while a
// processor works on its delivery. The other takes over; what the first does when it wakes is
// refused.
func TestWindowsAFrozenInstanceIsTooLate(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		service := newWindowsService(w)
		w.config = map[string]any{"processors": []any{service.processor()}}
		w.set("TIDEMILL_WINDOWS_AT_ONCE", 1)
		ins := w.run(2)
		for range 3 {
			service.wait()
			came := service.came.Load()
			<-w.produce(w.batches(w.hits["frozen"], 1, windowsSize), windowsProducing{})
			w.until(20*time.Second, "a processor is asked", func() bool { return service.came.Load() > came })
			owner := w.owner(ins)
			if owner == nil {
				w.Fatalf("nobody has the window: %+v", w.windows())
			}
			owner.Freeze()
			w.hit("frozen")
			service.let()
			awake := ins[0]
			if owner == awake {
				awake = ins[1]
			}
			w.instances = []*process.Instance{awake} // the one to ask
			w.until(30*time.Second, "the other one has delivered it", func() bool {
				st := w.status()
				return len(st.States) > 0 && st.States["leased"].Windows+st.States["ready"].Windows+st.States["active"].Windows == 0
			})
			owner.Thaw()
			w.instances = ins
			w.until(20*time.Second, "the late one is refused", func() bool {
				return int(w.metric("tidemill_settlements_stale_total", `pipeline="windows-delivery"`)) >= w.hits["frozen"]
			})
		}
		w.finish(windowsAllowance{repeats: w.hits["frozen"] * w.load})
		w.struck("frozen while it delivered", 3, w.hits["frozen"])
		w.struck("settlements that came too late", 3, int(w.metric("tidemill_settlements_stale_total", `pipeline="windows-delivery"`)))
	})
}

// owner is the instance that has a window.
func (w *windowsWorld) owner(ins []*process.Instance) *process.Instance {
	w.Helper()
	for _, win := range w.windows() {
		for _, in := range ins {
			if win.State == "leased" && strings.HasSuffix(win.Owner, "/"+in.Addr) {
				return in
			}
		}
	}
	return nil
}

// TestWindowsMembersJoinAndLeave makes an instance leave, or come back, every second or two.
func TestWindowsMembersJoinAndLeave(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		ins := w.run(3)
		items := w.batches(0, *windowsFlag, windowsSize)
		ended := w.produce(items, windowsProducing{Rate: len(items) / 15, Again: 2, Changed: 5})
		for n := 0; n < *windowsKillsFlag || !over(ended); n++ {
			w.pass(w.between(time.Second, 2*time.Second))
			in := ins[1+w.rnd.IntN(2)] // the first one stays
			if !in.Runs() {
				in.Start()
				w.hit("joined")
				continue
			}
			if err := in.Stop(stopsWithin); err != nil {
				w.Errorf("it stops with %v", err)
			}
			w.hit("left")
		}
		w.finish(windowsAllowance{repeats: (w.hits["left"] + w.hits["joined"]) * w.load})
		w.struck("joined and left", *windowsKillsFlag, w.hits["joined"]+w.hits["left"])
	})
}

// TestWindowsRedisKilled kills the Redis of the windows while they collect and are delivered.
func TestWindowsRedisKilled(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		w.run(2)
		items := w.batches(0, *windowsFlag, windowsSize)
		ended := w.produce(items, windowsProducing{Rate: len(items) / 15, Again: 2, Changed: 5})
		for n := 0; n < 4 || !over(ended); n++ {
			w.pass(w.between(time.Second, 2*time.Second))
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); w.pass(20 * time.Millisecond) { // clients that recover from the last kill need a moment
				if st := w.status(); st.States["active"].Records+st.States["leased"].Records+st.States["ready"].Records > 0 {
					w.hit("killed with records")
					break
				}
				if over(ended) {
					break
				}
			}
			w.kill(w.redis)
			w.pass(w.between(0, 1500*time.Millisecond))
			w.redis.Restart()
			w.hit("kill")
		}
		w.finish(w.crashes())
		w.struck("killed with records in windows", 3, w.hits["killed with records"])
	})
}

// TestWindowsKafkaAndTheIndexKilled kills Kafka while windows are open: they are delivered
// when it is back, however long that takes, and none is parked. Then it kills the index while
// documents come.
func TestWindowsKafkaAndTheIndexKilled(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{kafka: true, search: true}, func(w *windowsWorld) {
		w.set("TIDEMILL_WINDOWS_TRIES", 2, "TIDEMILL_WINDOWS_WINDOW", "8s") // longer than a busy machine needs to collect
		w.run(2)
		half := *windowsFlag / 2
		<-w.produce(w.batches(0, half, windowsSize), windowsProducing{Changed: 5})
		w.stored(30 * time.Second)
		open := w.status().States["active"].Windows
		w.kill(w.kafka)
		w.until(40*time.Second, "windows are closed, and cannot be sent", func() bool {
			st := w.status()
			return len(st.States) > 0 && st.States["active"].Windows == 0
		})
		w.pass(8 * time.Second) // longer than all tries would take
		for _, win := range w.windows() {
			if win.Tries > 0 || win.State == "parked" {
				w.Errorf("while Kafka is away a window has used up tries: %+v", win)
			}
		}
		w.struck("windows that were open when Kafka was killed", 2, int(open))
		w.kafka.Restart()
		w.hit("kill")
		w.look(afterWindows)

		ended := w.produce(w.batches(half, *windowsFlag-half, windowsSize), windowsProducing{Rate: 300, Changed: 5})
		kills := max(1, *windowsKillsFlag/10) // a search server is slow to come back
		for range kills {
			w.until(30*time.Second, "documents come", func() bool { return w.indexing() })
			w.kill(w.search)
			w.hit("index killed")
			w.pass(w.between(time.Second, 3*time.Second))
			w.search.Restart()
		}
		<-ended
		w.finish(w.crashes())
		w.struck("index killed while documents came", kills, w.hits["index killed"])
	})
}

// indexing reports whether readers of the topics have something to do.
func (w *windowsWorld) indexing() bool {
	a, err := w.audit()
	return err == nil && booksOf(a, "windows-index-events").InFlight+booksOf(a, "windows-index-mentions").InFlight > 0
}

// TestWindowsAppearWhollyOrNotAtAll kills the instance while it delivers closed windows, each
// in a transaction: a reader of committed messages sees every record of a window as often as
// all others of it.
func TestWindowsAppearWhollyOrNotAtAll(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		service := newWindowsService(w) // so that deliveries take time
		w.config = map[string]any{"processors": []any{service.processor()}}
		w.set("TIDEMILL_WINDOWS_TRANSACTIONAL", true, "TIDEMILL_WINDOWS_WINDOW", "1h", "TIDEMILL_WINDOWS_PAGE", 20)
		w.run(1)
		items := w.batches(0, *windowsFlag, windowsSize)
		<-w.produce(items, windowsProducing{})
		w.stored(30 * time.Second)
		for _, win := range w.windows() {
			w.must("POST", "windows/"+win.Batch+"/close")
		}
		for range *windowsKillsFlag {
			came := service.came.Load()
			deadline := time.Now().Add(10 * time.Second)
			for service.came.Load() < came+3 && w.status().States["ready"].Windows > 0 && time.Now().Before(deadline) {
				w.pass(5 * time.Millisecond)
			}
			w.pass(w.between(0, 100*time.Millisecond))
			w.kills(w.instances[0])
			if err := w.instances[0].WaitReady(time.Minute); err != nil {
				w.Fatal(err)
			}
		}
		o := w.finish(windowsAllowance{repeats: 2 * w.hits["kill"] * w.load})
		times := map[string]map[string]int{} // by batch and item
		byName := map[string]*windowsItem{}
		for _, i := range items {
			byName[i.kind+" "+i.name()] = i
			if times[i.batch] == nil {
				times[i.batch] = map[string]int{}
			}
			times[i.batch][i.kind+" "+i.name()] = 0
		}
		for _, all := range o.topics {
			for _, m := range all {
				if i := w.indexed(string(m.value), byName); i != nil {
					times[i.batch][i.kind+" "+i.name()]++
				}
			}
		}
		again := 0
		for batch, of := range times {
			how := map[int]int{}
			for _, n := range of {
				how[n]++
			}
			if len(how) != 1 {
				w.Errorf("of window %s records are there so often: %v", batch, how)
			}
			for n := range how {
				again += n - 1
			}
		}
		all := len(w.read(w.topics["out-event"], false)) + len(w.read(w.topics["out-mention"], false))
		w.Logf("%d windows appeared once more, of %d kills", again, w.hits["kill"])
		if again > 2*w.hits["kill"] {
			w.Errorf("%d windows appeared once more, of %d kills", again, w.hits["kill"])
		}
		w.struck("messages of transactions that did not end well", windowsSize, all-len(o.topics["event"])-len(o.topics["mention"]))
	})
}

// TestWindowsATopicRefusesSome has a topic that refuses large records: they alone end as dead
// letters.
func TestWindowsATopicRefusesSome(t *testing.T) {
	t.Parallel()
	eachWay(t, &windowsServers{}, func(w *windowsWorld) {
		w.run(2)
		w.setTopic(w.topics["out-event"], "max.message.bytes", "20000")
		items := w.batches(0, 3, windowsSize)
		large := 0
		for _, i := range items {
			if i.kind == "event" && w.rnd.IntN(20) == 0 {
				i.cells[cell("event", "sourceUrl")], i.ends = "https://example.com/"+noise(w, 30_000), "topic"
				large++
			}
		}
		<-w.produce(items, windowsProducing{})
		w.finish(windowsAllowance{})
		w.struck("records that are too large", 3, large)
	})
}

// TestWindowsATopicIsGone deletes one of two topics: tries are counted, windows are parked
// whole, and are delivered when it exists again and they are replayed.
func TestWindowsATopicIsGone(t *testing.T) {
	t.Parallel()
	eachWay(t, &windowsServers{}, func(w *windowsWorld) {
		w.set("TIDEMILL_WINDOWS_TRIES", 3, "TIDEMILL_WINDOWS_BACKOFF", "1s", "TIDEMILL_WINDOWS_SEARCH_ENABLED", false)
		w.noIndex = true
		w.run(2)
		first := w.batches(0, 2, windowsSize)
		<-w.produce(first, windowsProducing{})
		w.finish(windowsAllowance{})
		for _, i := range first { // messages on the topic are gone with it
			if i.kind == "mention" {
				i.newest = 0
			}
		}
		w.deleteTopic(w.topics["out-mention"])
		more := w.batches(2, 3, windowsSize)
		<-w.produce(more, windowsProducing{})
		w.until(afterWindows, "all windows are parked, those of late records too", func() bool {
			st := w.status().States
			return st["parked"].Records == int64(len(more)) && st["active"].Windows+st["ready"].Windows+st["leased"].Windows == 0
		})
		for _, win := range w.windows() {
			if win.Tries != 3 {
				w.Errorf("parked after %d tries: %+v", win.Tries, win)
			}
		}
		a, err := w.audit()
		if err != nil || !a.Balanced || booksOf(a, windows.Delivered).Dead != uint64(len(more)) {
			w.Errorf("with parked windows the books say %+v, %v; want %d dead", a, err, len(more))
		}
		w.makeTopic(w.topics["out-mention"])
		replays := 0
		for again := true; again && replays < 5; replays++ { // an instance that does not know the topic yet uses up its tries once more
			w.running().Ask("window", "replay", "--all")
			w.quiet(afterWindows)
			again = w.status().States["parked"].Windows > 0
		}
		w.forgets = true                                                   // earlier messages on the topic
		w.finish(windowsAllowance{repeats: 3 * (1 + replays) * len(more)}) // events were sent with each try
	})
}

// eachWay runs a test with windows in transactions, or without, depending on the seed.
func eachWay(t *testing.T, servers *windowsServers, do func(w *windowsWorld)) {
	t.Helper()
	windowsRounds(t, servers, func(w *windowsWorld) {
		whole := w.rnd.IntN(2) == 0
		w.Logf("transactional: %v", whole)
		w.set("TIDEMILL_WINDOWS_TRANSACTIONAL", whole)
		do(w)
	})
}

// noise is an incompressible text.
func noise(w *windowsWorld, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x", w.rnd.Uint64())
	}
	return b.String()
}

// TestWindowsRedisIsEmptied empties the Redis while windows collect and others were delivered:
// lost records are counted and reported, and later ones are delivered.
func TestWindowsRedisIsEmptied(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		w.set("TIDEMILL_WINDOWS_WINDOW", "1h")
		w.run(2)
		shut := func() {
			for _, win := range w.windows() {
				w.must("POST", "windows/"+win.Batch+"/close")
			}
		}
		before := w.batches(0, 2, windowsSize)
		<-w.produce(before, windowsProducing{})
		w.stored(30 * time.Second)
		shut()
		w.quiet(afterWindows)
		lost := w.batches(2, 3, windowsSize)
		<-w.produce(lost, windowsProducing{})
		w.stored(30 * time.Second)
		w.pass(2 * time.Second) // some sweeps
		if err := w.do("FLUSHALL", "SYNC").Error(); err != nil {
			w.Fatal(err)
		}
		w.hit("emptied")
		w.until(10*time.Second, "the loss is said", func() bool { return w.status().Lost > 0 })
		after := w.batches(5, 2, windowsSize)
		<-w.produce(after, windowsProducing{})
		w.stored(30 * time.Second)
		shut()
		o := w.look(afterWindows)
		if st := w.status(); st.Lost != uint64(len(lost)) {
			w.Errorf("%d records are said to be lost, %d were", st.Lost, len(lost))
		}
		if o.audit.Balanced || !strings.Contains(strings.Join(o.audit.Faults, "\n"), fmt.Sprintf("%d records", len(before)+len(lost))) {
			w.Errorf("the audit says %+v", o.audit)
		}
		for _, i := range lost {
			i.newest = 0 // as if it had not been sent
		}
		w.complain(w.judge(o, windowsAllowance{lost: true}))
		want := len(before) + len(after)
		if got := len(o.topics["event"]) + len(o.topics["mention"]); got != want {
			w.Errorf("%d messages are on the topics, want %d", got, want)
		}
	})
}
