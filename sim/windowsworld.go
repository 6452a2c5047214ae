package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	chain "github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
)

// WindowsParts are what a process of the windows system is made of; a test with a planted bug
// replaces some.
type WindowsParts struct {
	windows.Parts
	Options windows.Options
}

// What happens in addition to the faults of the gate, and must happen. ByHand and Replays are
// those of delivery.
const (
	Late       = "record late"
	Overwrites = "record overwritten"
	ByTheCount = "window closed by its count"
	ClosedNow  = "window closed by hand"
	TakenOver  = "window taken over"
	TooLate    = "late owner refused"
	StaleWrite = "sent by a late owner"
	Burnt      = "try burnt"
	ParkedOnes = "window parked"
	BackAgain  = "window replayed"
	SentTwice  = "record sent twice"
	PartFailed = "part of a page not sent"
	RefusedOne = "record refused for good"
	DiedAlone  = "record dead alone"
	NotIndexed = "document refused"
	PutOff     = "document put off"
	TopicFull  = "topic full"
	NoResult   = "result refused for good"
	PausedOnes = "process paused"
)

// windowsWorld is topics, a window store, dead letters and an index, processes that come and
// go, producers and an operator.
//
// One seed in eight is in peace: the only fault, in half of these, is that the records' topics
// are down for minutes. Then nothing may happen twice, and nothing may die.
type windowsWorld struct {
	*stage
	bug   func(*WindowsParts)
	peace bool
	away  time.Duration // in peace, since the beginning, the topics are down; 0: never
	whole bool          // a delivery is atomic
	names bool          // topics know their messages by name, as the embedded ones do; else what is sent twice is there twice
	holds bool          // topics cannot delay what they hand out, as those of Kafka cannot
	pings bool          // the topics can be pinged
	each  bool          // the index has a document for each sentence
	leave bool          // in the end dead letters and parked windows are not replayed

	queues  *memoryqueue.Store
	store   window.Store
	letters deadletter.Store
	index   *memorysearch.Store

	reports []*report
	verbose string // the batch id whose results are too large for their topic; empty: none

	noReport *report // stands for dead letters of processors' results, which can never be records

	book    sync.Mutex // guards the history of reports, and what follows
	count   map[string]int
	spans   map[string]*span      // windows, by id
	order   []*span               // the same, as they were opened
	newest  map[string]uint64     // revision that was sent last, by batch and name of the record
	offset  int                   // of what is in topics
	log     map[string][]*arrival // topics that are indexed, as they are
	reading map[string]*process   // the process that was handed a key last, by topic and key
	unruly  map[string]bool       // documents, by topic, with a late reader, or whose dead letter came again
	copied  map[*report]bool      // documents whose dead letter was copied
	up      []*windows.System
	graves  map[string]*report // all dead letters so far, by pipeline and id
	turn    int                // how many messages of intakes were handed out
	busy    int                // unfinished producers and operators
	again   int                // how often everything was replayed in the end
	rests   time.Time          // since when nothing was left to do
}

func newWindowsWorld(seed uint64, bug func(*WindowsParts)) *windowsWorld {
	w := &windowsWorld{stage: newStage(seed, 0x417d), bug: bug, count: map[string]int{}, spans: map[string]*span{}, newest: map[string]uint64{},
		log: map[string][]*arrival{}, reading: map[string]*process{}, unruly: map[string]bool{}, copied: map[*report]bool{}, graves: map[string]*report{}, noReport: &report{n: -1, bad: true}}
	draw := rand.New(rand.NewPCG(seed, 0xba7c))
	if w.peace = draw.IntN(8) == 0; w.peace {
		clear(w.g.rates)
		if draw.IntN(2) == 0 {
			w.away = 4 * time.Minute
		}
	}
	w.g.rates[Stall] *= 4 // else two processes hardly ever have one window
	w.g.rates[Freeze] *= 4
	w.whole, w.names, w.pings, w.holds, w.each, w.leave = draw.IntN(2) == 0, draw.IntN(2) == 0, draw.IntN(2) == 0, draw.IntN(2) == 0, draw.IntN(2) == 0, draw.IntN(3) == 0
	w.queues = memoryqueue.New(memoryqueue.Options{})
	for _, topic := range []string{eventOut, mentionOut} { // before anything is in it
		must(w.queues.Set(w.ctx, topic, func(s *queue.Settings) { s.Ordered = true }))
	}
	w.store = must(tablewindow.Memory(window.Options{Window: windowsOpen}))
	w.letters = must(tabledeadletter.Memory(deadletter.Options{}))
	w.index = must(memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions()))
	w.draw(draw)
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Settings of the system: small windows and pages, so that a seed has many of them.
const (
	windowsOpen  = 10 * time.Second
	windowsPage  = 3
	windowsTries = 3
	countHeader  = "X-Batch-Count"
)

// Topics of this world.
const (
	eventIn, mentionIn   = "adapter-event", "adapter-mention"
	eventOut, mentionOut = "processor-event", "processor-mention"
	resultsOut           = "results"
	copiesOut            = "index-dead"
)

func (w *windowsWorld) options(n int) windows.Options {
	return windows.Options{Topics: windows.Topics{Results: resultsOut}, BySentence: w.each, Expect: countHeader, Store: 6, Page: windowsPage, Sweep: 2 * time.Second,
		Tries: windowsTries, Seed: w.seed + uint64(n) + 1, Settled: w.settled}
}

// parts are a process's own view of everything.
func (w *windowsWorld) parts(p *process) windows.Parts {
	out := windows.Out(windowsOut{w, p})
	if w.pings {
		out = pinged{windowsOut{w, p}}
	}
	return windows.Parts{
		Intakes:     []windows.Intake{{Name: eventIn, Source: w.topic(p, eventIn), Kind: record.Event}, {Name: mentionIn, Source: w.topic(p, mentionIn), Kind: record.Mention}},
		Windows:     gatedWindows{w.store, w, p},
		DeadLetters: gatedLetters{windowsLettersOnRecord{w.letters, w, p}, w.g, p},
		Chain:       must(chain.New(w.steps(p), chain.Options{})),
		Out:         out,
		Readers: []windows.Reader{{Name: "index-event", Source: w.topic(p, eventOut), Schema: search.Events(), Copies: copies{w, p}, Dead: copiesOut},
			{Name: "index-mention", Source: w.topic(p, mentionOut), Schema: search.Mentions(), Copies: copies{w, p}, Dead: copiesOut}},
		Index: gatedIndex{w.index, w, p},
	}
}

// start starts a process.
func (w *windowsWorld) start() {
	p := w.process()
	parts := WindowsParts{Options: w.options(p.n), Parts: w.parts(p)}
	if w.bug != nil {
		w.bug(&parts)
	}
	sys, err := windows.New(parts.Parts, parts.Options)
	if err != nil {
		panic(err)
	}
	w.book.Lock()
	w.up = append(w.up, sys)
	w.book.Unlock()
	w.live(p, sys.Run, func(bool) { w.leaves(sys) }, w.start)
}

func (w *windowsWorld) leaves(sys *windows.System) {
	w.book.Lock()
	defer w.book.Unlock()
	w.up = slices.DeleteFunc(w.up, func(o *windows.System) bool { return o == sys })
}

func (w *windowsWorld) settled(pipeline string, ends []tidemill.Settlement) {
	for i := range ends {
		if pipeline == windows.Delivered && ends[i].Outcome == tidemill.Stale {
			w.counted(TooLate)
		}
	}
}

// counted notes an occurrence.
func (w *windowsWorld) counted(what string) {
	w.book.Lock()
	defer w.book.Unlock()
	w.count[what]++
}

// play runs one seed inside its bubble and returns what the checker finds.
func (w *windowsWorld) play() []string {
	return w.stage.play(acts{open: w.open, quiet: w.quiet, check: w.check,
		storm: func(since time.Duration) bool { return w.working() || since <= max(30*time.Second, w.away) }})
}

func (w *windowsWorld) working() bool {
	w.book.Lock()
	defer w.book.Unlock()
	return w.busy > 0
}

const windowsProducers = 3

func (w *windowsWorld) open() {
	for range 1 + w.rnd.IntN(3) {
		w.start()
	}
	w.busy = windowsProducers + 1
	for n := range windowsProducers {
		w.done.Go(func() { defer w.over(); w.produce(n) })
	}
	w.done.Go(func() { defer w.over(); w.operate(rand.New(rand.NewPCG(w.seed, 0x09e))) })
}

func (w *windowsWorld) over() {
	w.book.Lock()
	defer w.book.Unlock()
	w.busy--
}

// quiet reports that nothing is left to do, and that this has been so for a while: a process
// that lost its work may still wait to try again. In two seeds of three, dead letters and
// parked windows are replayed in the end, now that all is well.
func (w *windowsWorld) quiet() bool {
	if !w.idle() {
		w.rests = time.Time{}
		return false
	}
	if !w.leave && w.again < 2 { // in the second round come those whose dead letter was older than the end of its window
		w.again++
		w.replayWindows(window.Filter{})
		w.replayLetters(deadletter.Filter{})
		return false
	}
	if w.rests.IsZero() {
		w.rests = time.Now()
	}
	return time.Since(w.rests) >= restsFor
}

// restsFor is longer than any process with something to do waits.
const restsFor = 15 * time.Second

// idle reports that everything is where it has to stay.
func (w *windowsWorld) idle() bool {
	if w.working() || w.g.stalls() {
		return false
	}
	ctx := context.Background()
	for _, name := range []string{eventIn, mentionIn, eventOut, mentionOut} {
		if s, err := w.queues.Stats(ctx, name); err != nil || s.Waiting+s.Delayed+s.Leased > 0 {
			return false
		}
	}
	if s, err := w.store.Stats(ctx); err != nil || s.Active.Windows+s.Ready.Windows+s.Leased.Windows > 0 {
		return false
	}
	n, err := w.letters.Count(ctx, deadletter.Filter{State: deadletter.Replaying})
	return err == nil && n == 0
}

// also counts what else happened.
func (w *windowsWorld) also() map[string]int { return w.count }
