// Package live samples what becomes of events at this moment, for those who look. A look has a filter,
// and keeps the newest of what passes it: at most ten a second, from all systems and fates alike. While
// nobody looks nothing is kept, and who does the work asks one atomic value.
//
//	f := live.New(time.Now, rand.IntN)
//	engine.Watch(f.Pipeline("delivery", engine.Name()))
//	shown, err := f.Look(live.Filter{System: "delivery"})
package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a feed: a thousand fates in all.
const (
	Kept      = 100              // fates of a look
	Looks     = 10               // different filters at once
	PerSecond = 10               // fates that a look keeps
	Unseen    = 30 * time.Second // after which a look ends that nobody has looked at again
)

// The outcomes. Retries are none: the event goes on.
const (
	Accepted  = "accepted"  // durable here
	Duplicate = "duplicate" // it was accepted before
	Refused   = "refused"   // not accepted
	Delivered = "delivered"
	Skipped   = "skipped"
	Dead      = "dead"
)

// Outcomes are all, in the order of an event's life.
func Outcomes() []string { return []string{Accepted, Duplicate, Refused, Delivered, Skipped, Dead} }

// Fate is what became of an event, or of several in one request.
type Fate struct {
	At       time.Time
	System   string
	Pipeline string // empty: it was at the ingest API
	Outcome  string
	Owner    string
	Type     string
	ID       string
	Why      string
	Count    int           // events that it stands for
	Delay    time.Duration // since the event happened, or was accepted where that is not known; below 0: not known
}

// Filter says what is looked at. Empty fields are any.
type Filter struct {
	Among               string // names of systems, with a space around each
	System, Owner, Type string
}

func (f *Filter) passes(system, owner, kind string) bool {
	return (f.Among == "" || strings.Contains(f.Among, " "+system+" ")) && (f.System == "" || f.System == system) && (f.Owner == "" || f.Owner == owner) && (f.Type == "" || f.Type == kind)
}

// Feed is what is known of this moment.
type Feed struct {
	now    func() time.Time
	chance func(n int) int // from 0 to n-1
	on     atomic.Bool     // there are looks

	mu    sync.Mutex // guards looks
	looks []*look
}

// New makes a feed at which nobody looks.
func New(now func() time.Time, chance func(n int) int) *Feed { return &Feed{now: now, chance: chance} }

// On says whether anybody looks.
func (f *Feed) On() bool { return f.on.Load() }

// look is one filter, with what passed it.
type look struct {
	Filter
	since, seen time.Time // it is there, and was last looked at
	fates       []Fate    // the newest last
	counts      map[string]uint64
	second      int64 // of chosen
	chosen      []group
}

// group are the fates of one system and outcome that the present second has so far.
type group struct {
	system, outcome string
	came            int
	sample          []Fate // of them, each with the same chance
}

// Shown is what a look shows.
type Shown struct {
	Since  time.Time         // what came before is not known
	Counts map[string]uint64 // by outcome: events that passed the filter since then
	Fates  []Fate            // of them, the newest first
}

// ErrLooks is why no other filter can be looked at.
var ErrLooks = fmt.Errorf("%d other filters are looked at, and there are no more: use one of fewer words, or wait %v", Looks, Unseen)

// Look shows what has passed a filter since somebody began to look at it. Who looks again within
// [Unseen] goes on; the first look begins, and shows nothing yet.
func (f *Feed) Look(filter Filter) (Shown, error) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	i := slices.IndexFunc(f.looks, func(l *look) bool { return l.Filter == filter })
	if i < 0 {
		if len(f.looks) == Looks {
			return Shown{}, ErrLooks
		}
		i = len(f.looks)
		f.looks = append(f.looks, &look{Filter: filter, since: now, counts: map[string]uint64{}})
		f.on.Store(true)
	}
	l := f.looks[i]
	l.seen = now
	if now.Unix() != l.second {
		f.choose(l)
	}
	s := Shown{Since: l.since, Counts: maps.Clone(l.counts), Fates: slices.Clone(l.fates)}
	slices.Reverse(s.Fates)
	return s, nil
}

// expire ends looks that nobody looks at; f.mu is held.
func (f *Feed) expire(now time.Time) {
	f.looks = slices.DeleteFunc(f.looks, func(l *look) bool { return now.Sub(l.seen) > Unseen })
	f.on.Store(len(f.looks) > 0)
}

// add takes a fate in; f.mu is held. Its texts are copied where they are kept.
func (f *Feed) add(fate *Fate) {
	for _, l := range f.looks {
		if !l.passes(fate.System, fate.Owner, fate.Type) {
			continue
		}
		if second := fate.At.Unix(); second != l.second {
			f.choose(l)
			l.second = second
		}
		l.counts[fate.Outcome] += uint64(fate.Count)
		f.sample(l, fate)
	}
}

// sample keeps a fate with the chance that the others of its group have.
func (f *Feed) sample(l *look, fate *Fate) {
	i := slices.IndexFunc(l.chosen, func(g group) bool { return g.system == fate.System && g.outcome == fate.Outcome })
	if i < 0 {
		i = len(l.chosen)
		l.chosen = append(l.chosen, group{system: fate.System, outcome: fate.Outcome})
	}
	g := &l.chosen[i]
	g.came++
	if len(g.sample) < PerSecond {
		g.sample = append(g.sample, own(fate))
	} else if at := f.chance(g.came); at < PerSecond {
		g.sample[at] = own(fate)
	}
}

// choose ends a second: of its groups one after the other gives a fate, until there are [PerSecond].
func (f *Feed) choose(l *look) {
	var of []Fate
	for round := 0; round < PerSecond && len(of) < PerSecond; round++ {
		for i := range l.chosen {
			if g := &l.chosen[i]; round < len(g.sample) && len(of) < PerSecond {
				of = append(of, g.sample[round])
			}
		}
	}
	slices.SortStableFunc(of, func(a, b Fate) int { return a.At.Compare(b.At) })
	l.chosen = l.chosen[:0]
	l.fates = append(l.fates, of...)
	if more := len(l.fates) - Kept; more > 0 {
		l.fates = slices.Delete(l.fates, 0, more)
	}
}

// longest is how many bytes of a text are kept.
const longest = 100

// own is a fate whose texts are its own, and bounded.
func own(fate *Fate) Fate {
	mine := *fate
	for _, s := range []*string{&mine.Owner, &mine.Type, &mine.ID, &mine.Why} {
		if len(*s) > longest {
			*s = strings.ToValidUTF8((*s)[:longest], "") + "…"
		} else {
			*s = strings.Clone(*s)
		}
	}
	return mine
}
