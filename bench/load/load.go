// Package load draws the events that the benchmarks of the analytics system send: seeded, and
// with the required mix. Each benchmark writes them in its own form.
package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Persons is how many persons are active, at most.
const Persons = 20_000

// Kind is what an event does.
type Kind int

// Kinds of events, with their share.
const (
	Action   Kind = iota // 45%: an action
	Identify             // 5%: a person is identified
	PageView             // 30%: carries a user agent
	SetPlan              // 20%: sets properties of the person
)

// Event is what every form of an event needs.
type Event struct {
	ID     uuid.UUID
	At     time.Time
	Person uint64 // few are very active; below Persons, unless the crowd grows
	Kind   Kind
}

// Generator draws events. It belongs to one goroutine.
type Generator struct {
	*rand.Rand
	zipf   *rand.Zipf
	at     time.Time
	active uint64
	each   float64 // of how many persons an event is the first; 0: none comes
	came   float64 // persons who came since the start, and took the place of others
	greet  uint64  // active persons who have had no event, and have the next ones
}

// New returns a generator whose events happen from at on, 1 ms apart on average. Its persons are the
// same all the time.
func New(seed uint64, at time.Time) *Generator { return crowd(seed, at, Persons) }

// Growing returns a generator whose events happen from at on, of a crowd that grows: after so many
// events so many persons have had one. Few of them are active at a time, a tenth and Persons at most:
// each of these has one of the first events, then a new one comes now and then, is the most active,
// and becomes less so with each that follows.
func Growing(seed uint64, at time.Time, persons, events int) *Generator {
	active := min(Persons, max(persons/10, 2))
	g := crowd(seed, at, uint64(active))
	g.greet = g.active
	g.each = float64(max(persons-active, 0)) / float64(max(events-active, 1))
	return g
}

func crowd(seed uint64, at time.Time, active uint64) *Generator {
	rnd := rand.New(rand.NewPCG(seed, 1))
	return &Generator{Rand: rnd, zipf: rand.NewZipf(rnd, 1.1, 50, active-1), at: at, active: active}
}

// Now is when the last event happened.
func (g *Generator) Now() time.Time { return g.at }

// Jump has the next event happen at another time, and the others follow.
func (g *Generator) Jump(at time.Time) { g.at = at }

// Known is how many persons have had an event, if the crowd grows.
func (g *Generator) Known() uint64 { return uint64(g.came) + g.active - g.greet }

// person draws whose the next event is.
func (g *Generator) person() uint64 {
	if g.greet > 0 {
		g.greet--
		return g.active - 1 - g.greet
	}
	newest := uint64(g.came) + g.active - 1
	if g.came += g.each; uint64(g.came)+g.active-1 > newest {
		return newest + 1
	}
	return newest - g.zipf.Uint64()
}

// Next draws an event.
func (g *Generator) Next() Event {
	g.at = g.at.Add(time.Duration(g.IntN(3)) * time.Millisecond)
	e := Event{ID: g.UUID(), At: g.at, Person: g.person()}
	switch n := g.IntN(100); {
	case n < 5:
		e.Kind = Identify
	case n < 35:
		e.Kind = PageView
	case n < 55:
		e.Kind = SetPlan
	}
	return e
}

// UUID draws a random UUID.
func (g *Generator) UUID() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(g.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// agents have a version that varies.
var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/%d.5 Safari/605.1.15",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/%d.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/126.0",
}

// UserAgent draws one of 200 user agents.
func (g *Generator) UserAgent() string {
	return fmt.Sprintf(agents[g.IntN(len(agents))], 100+g.IntN(40))
}
