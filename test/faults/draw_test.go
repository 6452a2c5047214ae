//go:build servers

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
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
	n        int
	kind     kind
	id       uuid.UUID // Nil: left to the product
	name     string
	distinct string
	other    string // the id of the same person, by the event
	at       time.Time
	untimed  bool // no timestamp is sent: it is the entry's
	set      map[string]string
	once     map[string]string
	unset    []string
	again    int  // how often it is sent again after the first time
	giveUp   bool // not sent again after a lost answer
	endpoint bool // over HTTP, not into the stream
	phase    int  // of the test, for its own checks

	fields []string // the stream entry, names and values
	raw    []byte   // as a client sends it
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
		e.n, e.name, e.id, e.distinct, e.other, e.at.Format(time.RFC3339Nano), way, e.kind, e.phase, e.tries, e.confirmed, e.unknown, e.entries,
		e.first.Format("15:04:05.000"), e.last.Format("15:04:05.000"))
}

// population are the distinct ids of a run: each anonymous id is claimed by at most one user
// and is not a user's, so that the order of events does not matter.
type population struct {
	ids    []string
	owners []string          // claimed anonymous ids
	owner  map[string]string // of an anonymous id
}

func newPopulation(rnd *rand.Rand, users int) *population {
	p := &population{owner: map[string]string{}}
	for u := range users {
		user := fmt.Sprintf("user-%d", u)
		p.ids = append(p.ids, user)
		for a := range rnd.IntN(4) {
			anonymous := fmt.Sprintf("anon-%d-%d", u, a)
			p.ids = append(p.ids, anonymous)
			if rnd.IntN(5) > 0 {
				p.owner[anonymous] = user
				p.owners = append(p.owners, anonymous)
			}
		}
	}
	return p
}

// drawer draws events from a seed. Two drawers with different offsets share numbers out.
type drawer struct {
	rnd      *rand.Rand
	people   *population
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
	e := &event{n: d.n, phase: phase, endpoint: d.endpoint, name: fmt.Sprintf("event %d", d.rnd.IntN(5)), distinct: d.people.ids[d.rnd.IntN(len(d.people.ids))],
		at: d.start.Add(time.Duration(d.rnd.IntN(3*3600*1000)) * time.Millisecond)}
	d.n += d.step
	e.id = uuid.UUID{0: byte(d.rnd.Uint32()), 1: byte(d.rnd.Uint32()), 6: 0x40, 8: 0x80, 12: byte(e.n >> 24), 13: byte(e.n >> 16), 14: byte(e.n >> 8), 15: byte(e.n)}
	roll := d.rnd.IntN(1000)
	switch {
	case d.plain:
	case roll < 60:
		e.other = d.people.owners[d.rnd.IntN(len(d.people.owners))]
		e.distinct, e.name = d.people.owner[e.other], []string{"$identify", "$create_alias"}[d.rnd.IntN(2)]
	case roll < 360:
		e.set, e.once = map[string]string{}, map[string]string{}
		for range d.rnd.IntN(3) {
			e.set[fmt.Sprintf("p%d", d.rnd.IntN(4))] = fmt.Sprintf(`"set %d"`, e.n)
		}
		for range d.rnd.IntN(3) {
			e.once[fmt.Sprintf("p%d", d.rnd.IntN(4))] = fmt.Sprintf(`%d`, 9007199254740993+e.n)
		}
		if d.rnd.IntN(3) == 0 {
			e.unset = []string{fmt.Sprintf("p%d", d.rnd.IntN(4))}
		}
	case roll < 380 && !d.endpoint:
		e.kind = []kind{brokenBag, noDistinct, illegal, noTime}[d.rnd.IntN(4)]
	case roll < 390 && !d.endpoint:
		e.id, e.untimed = uuid.Nil, roll%2 == 0
	case roll < 420:
		e.giveUp = true
	}
	if e.id != uuid.Nil && d.rnd.IntN(100) < d.dup {
		e.again = 1 + d.rnd.IntN(max(d.more, 1))
	}
	if e.id == uuid.Nil { // sent again it is another event
		e.giveUp = true
	}
	e.encode(d)
	return e
}

// encode writes it for the stream or for HTTP.
func (e *event) encode(d *drawer) {
	bag := func(b *bytes.Buffer, key string, m map[string]string) {
		if len(m) == 0 {
			return
		}
		fmt.Fprintf(b, `,%q:{`, key)
		for i, k := range sortedKeys(m) {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, `%q: %s`, k, m[k])
		}
		b.WriteByte('}')
	}
	var props, user bytes.Buffer
	fmt.Fprintf(&props, `{"n": %d`, e.n)
	switch e.name {
	case "$identify":
		fmt.Fprintf(&props, `,"$anon_distinct_id":%q`, e.other)
	case "$create_alias":
		fmt.Fprintf(&props, `,"alias":%q`, e.other)
	}
	ops := &props
	if !e.endpoint {
		ops = &user
		fmt.Fprintf(&user, `{"$unset":%s`, must(json.Marshal(append([]string{}, e.unset...))))
	} else if e.unset != nil {
		fmt.Fprintf(&props, `,"$unset":%s`, must(json.Marshal(e.unset)))
	}
	bag(ops, "$set", e.set)
	bag(ops, "$set_once", e.once)
	props.WriteByte('}')
	e.props = props.String()
	if e.endpoint {
		e.raw = fmt.Appendf(nil, `{"event":%q,"distinct_id":%q,"timestamp":%q,"uuid":%q,"properties":%s}`,
			e.name, e.distinct, e.at.Format("2006-01-02T15:04:05.000Z"), e.id, e.props)
		return
	}
	user.WriteByte('}')
	at := [...]string{e.at.Format("2006-01-02T15:04:05.000Z"), e.at.In(time.FixedZone("", 2*3600)).Format("2006-01-02T15:04:05.000-07:00"),
		e.at.Format("2006-01-02 15:04:05.000"), fmt.Sprint(e.at.UnixMilli())}[d.rnd.IntN(4)]
	distinct := e.distinct
	switch e.kind {
	case brokenBag:
		e.props = `{"n": ` + fmt.Sprint(e.n) // cut
	case noDistinct:
		distinct = ""
	case illegal:
		distinct = []string{"null", "UNDEFINED", " anonymous "}[d.rnd.IntN(3)]
	case noTime:
		at = "yesterday"
	}
	e.fields = []string{"schema_version", "1", "project_id", d.project.String(), "event_name", e.name, "url", "https://shop.example/a?b=c&n=" + fmt.Sprint(e.n),
		"properties", e.props, "user_properties", user.String(), "browser", "Firefox", "os", "Linux", "device_type", "desktop", "screen_width", "70000"}
	for _, f := range [...]struct{ name, value string }{{"event_id", e.id.String()}, {"distinct_id", distinct}, {"timestamp", at}, {"anonymous_id", ""}} {
		switch {
		case f.name == "event_id" && e.id == uuid.Nil, f.name == "timestamp" && e.untimed:
		case f.name == "anonymous_id" && e.name == "$identify":
			e.fields = append(e.fields, f.name, e.other)
		case f.value != "" || d.rnd.IntN(2) == 0: // absent is empty
			e.fields = append(e.fields, f.name, f.value)
		}
	}
	if e.kind == brokenBag {
		e.props = "{}"
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
