//go:build servers

package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/test/promise"
)

// kind is what is right or wrong with an event.
type kind uint8

const (
	good       kind = iota
	brokenBag       // its properties are not JSON: legal, an event without properties
	noDistinct      // it has no distinct id
	illegal         // its distinct id stands for no person
	noTime          // its timestamp cannot be read
)

func (k kind) dead() bool { return k >= noDistinct }

// event is one event as a producer has it, and what is known of its sending.
type event struct {
	promise.Event
	kind     kind
	untimed  bool // no timestamp is sent: it is the entry's
	again    int  // how often it is sent again after the first time
	giveUp   bool // not sent again after a lost answer
	endpoint bool // over HTTP, not into the stream
	phase    int  // of the test, for its own checks

	fields []string // the stream entry, names and values
	props  string   // the bag as it has to be stored

	tries, confirmed, unknown int
	entries                   []string // ids of its entries
	first, last               time.Time
}

func (e *event) String() string {
	way := "stream"
	if e.endpoint {
		way = "http"
	}
	return fmt.Sprintf("event %d (%s, id %v, distinct %q, other %q, at %s, by %s, kind %d, phase %d): tried %d×, confirmed %d×, unknown %d×, entries %v, first try %s, last answer %s",
		e.N, e.Name, e.ID, e.Distinct, e.Other, e.At.Format(time.RFC3339Nano), way, e.kind, e.phase, e.tries, e.confirmed, e.unknown, e.entries,
		e.first.Format("15:04:05.000"), e.last.Format("15:04:05.000"))
}

// drawer draws events from a seed. Two drawers with different offsets share numbers out.
type drawer struct {
	rnd      *rand.Rand
	people   *promise.People
	project  uuid.UUID
	start    time.Time // of three hours in which all happened
	n, step  int
	endpoint bool
	plain    bool // no event changes anything of a person
	dup      int  // of a hundred events, so many are sent again
	more     int  // at most so many times; 0: once
}

// draw makes the next event.
func (d *drawer) draw(phase int) *event {
	e := &event{Event: d.people.Draw(d.rnd, d.n, d.start), phase: phase, endpoint: d.endpoint}
	d.n += d.step
	roll := d.rnd.IntN(1000)
	switch {
	case d.plain:
	case roll < 60:
		e.Claim(d.rnd, d.people, d.people.Claimed[d.rnd.IntN(len(d.people.Claimed))])
	case roll < 360:
		e.Change(d.rnd)
	case roll < 380 && !d.endpoint:
		e.kind = []kind{brokenBag, noDistinct, illegal, noTime}[d.rnd.IntN(4)]
	case roll < 390 && !d.endpoint:
		e.ID, e.untimed = uuid.Nil, roll%2 == 0
	case roll < 420:
		e.giveUp = true
	}
	if e.ID != uuid.Nil && d.rnd.IntN(100) < d.dup {
		e.again = 1 + d.rnd.IntN(max(d.more, 1))
	}
	if e.ID == uuid.Nil { // sent again it is another event
		e.giveUp = true
	}
	if e.endpoint {
		e.Encode()
		e.props = e.Properties(e.Changes()...)
	} else {
		e.encode(d)
	}
	return e
}

// encode writes it for the stream.
func (e *event) encode(d *drawer) {
	user := e.Changes()
	if e.Unset == nil {
		user = append(user, `"$unset":[]`)
	}
	e.props = e.Properties()
	at := [...]string{e.At.Format("2006-01-02T15:04:05.000Z"), e.At.In(time.FixedZone("", 2*3600)).Format("2006-01-02T15:04:05.000-07:00"),
		e.At.Format("2006-01-02 15:04:05.000"), fmt.Sprint(e.At.UnixMilli())}[d.rnd.IntN(4)]
	distinct := e.Distinct
	switch e.kind {
	case brokenBag:
		e.props = `{"n": ` + fmt.Sprint(e.N) // cut
	case noDistinct:
		distinct = ""
	case illegal:
		distinct = []string{"null", "UNDEFINED", " anonymous "}[d.rnd.IntN(3)]
	case noTime:
		at = "yesterday"
	}
	e.fields = []string{"schema_version", "1", "project_id", d.project.String(), "event_name", e.Name, "url", "https://shop.example/a?b=c&n=" + fmt.Sprint(e.N),
		"properties", e.props, "user_properties", "{" + strings.Join(user, ",") + "}", "browser", "Firefox", "os", "Linux", "device_type", "desktop", "screen_width", "70000"}
	for _, f := range [...]struct{ name, value string }{{"event_id", e.ID.String()}, {"distinct_id", distinct}, {"timestamp", at}, {"anonymous_id", ""}} {
		switch {
		case f.name == "event_id" && e.ID == uuid.Nil, f.name == "timestamp" && e.untimed:
		case f.name == "anonymous_id" && e.Name == "$identify":
			e.fields = append(e.fields, f.name, e.Other)
		case f.value != "" || d.rnd.IntN(2) == 0: // absent is empty
			e.fields = append(e.fields, f.name, f.value)
		}
	}
	if e.kind == brokenBag {
		e.props = "{}"
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
