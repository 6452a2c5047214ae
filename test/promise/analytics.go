package promise

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Owners are the users of anonymous ids that events claimed for them.
type Owners map[string]string

// Of is the distinct id that a distinct id's person is named after.
func (o Owners) Of(distinct string) string {
	if user, ok := o[distinct]; ok {
		return user
	}
	return distinct
}

// People are the distinct ids of a run: each anonymous id is claimed by at most one user and is not
// a user's, so that the order of events does not matter.
type People struct {
	IDs     []string
	Claimed []string // anonymous ids
	Owners
}

// NewPeople draws users, each with some anonymous ids.
func NewPeople(rnd *rand.Rand, users int) *People {
	p := &People{Owners: Owners{}}
	for u := range users {
		user := fmt.Sprintf("user-%d", u)
		p.IDs = append(p.IDs, user)
		for a := range rnd.IntN(4) {
			anonymous := fmt.Sprintf("anon-%d-%d", u, a)
			p.IDs = append(p.IDs, anonymous)
			if rnd.IntN(5) > 0 {
				p.Owners[anonymous] = user
				p.Claimed = append(p.Claimed, anonymous)
			}
		}
	}
	return p
}

// Event is an event of analytics as a client sends it.
type Event struct {
	N        int
	ID       uuid.UUID // Nil: left to the product
	Name     string
	Distinct string
	Other    string // the id of the same person, by the event
	At       time.Time
	Place    int // in its request, if that decides
	Set      map[string]string
	Once     map[string]string
	Unset    []string
	Raw      []byte // over HTTP
}

func (e *Event) String() string {
	return fmt.Sprintf("event %d (%s of %s, other %q, id %v)", e.N, e.Name, e.Distinct, e.Other, e.ID)
}

// Draw draws the n-th event, of anybody, within three hours.
func (p *People) Draw(rnd *rand.Rand, n int, start time.Time) Event {
	return Event{N: n, Name: fmt.Sprintf("event %d", rnd.IntN(5)), Distinct: p.IDs[rnd.IntN(len(p.IDs))],
		At: start.Add(time.Duration(rnd.IntN(3*3600*1000)) * time.Millisecond),
		ID: uuid.UUID{0: byte(rnd.Uint32()), 1: byte(rnd.Uint32()), 6: 0x40, 8: 0x80, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}}
}

// Claim makes it say that an anonymous id is its owner's.
func (e *Event) Claim(rnd *rand.Rand, p *People, anonymous string) {
	e.Name = []string{"$identify", "$create_alias"}[rnd.IntN(2)]
	e.Distinct, e.Other = p.Owners[anonymous], anonymous
}

// Change makes it change properties of its person.
func (e *Event) Change(rnd *rand.Rand) {
	e.Set, e.Once = map[string]string{}, map[string]string{}
	name := func() string { return fmt.Sprintf("p%d", rnd.IntN(4)) }
	for range rnd.IntN(3) {
		e.Set[name()] = fmt.Sprintf(`"set %d"`, e.N)
	}
	for range rnd.IntN(3) {
		e.Once[name()] = fmt.Sprint(9007199254740993 + e.N)
	}
	if rnd.IntN(3) == 0 {
		e.Unset = []string{name()}
	}
}

// Properties are its own, as JSON with these members behind them.
func (e *Event) Properties(more ...string) string {
	all := []string{fmt.Sprintf(`"n": %d`, e.N)}
	switch e.Name {
	case "$identify":
		all = append(all, fmt.Sprintf(`"$anon_distinct_id":%q`, e.Other))
	case "$create_alias":
		all = append(all, fmt.Sprintf(`"alias":%q`, e.Other))
	}
	return object(append(all, more...))
}

// Changes are the members of JSON that change its person.
func (e *Event) Changes() (all []string) {
	for _, c := range []struct {
		name string
		of   map[string]string
	}{{"$set", e.Set}, {"$set_once", e.Once}} {
		var members []string
		for _, k := range slices.Sorted(maps.Keys(c.of)) {
			members = append(members, fmt.Sprintf("%q: %s", k, c.of[k]))
		}
		if members != nil {
			all = append(all, fmt.Sprintf("%q:%s", c.name, object(members)))
		}
	}
	if e.Unset != nil {
		list, _ := json.Marshal(e.Unset)
		all = append(all, `"$unset":`+string(list))
	}
	return all
}

func object(members []string) string { return "{" + strings.Join(members, ",") + "}" }

// Encode writes the event as a PostHog SDK would.
func (e *Event) Encode() {
	e.Raw = fmt.Appendf(nil, `{"event":%q,"distinct_id":%q,"timestamp":%q`, e.Name, e.Distinct, e.At.Format("2006-01-02T15:04:05.000Z"))
	if e.ID != uuid.Nil {
		e.Raw = fmt.Appendf(e.Raw, `,"uuid":%q`, e.ID)
	}
	e.Raw = fmt.Appendf(e.Raw, `,"properties":%s}`, e.Properties(e.Changes()...))
}

// Arrived checks an event that came in, was stored and is dead so often each. One that cannot be
// stored is dead each time that it came; any other is stored once, however often it came. It
// reports whether it is lost.
func Arrived(e any, bad bool, came, stored, dead int, fault Fault) (lost bool) {
	switch {
	case bad && (stored > 0 || dead > came):
		fault("stored %d times and dead %d times, came %d times and is to be dead: %v", stored, dead, came, e)
	case !bad && (stored > 1 || dead > 0):
		fault("stored %d times and dead %d times: %v", stored, dead, e)
	}
	return bad && dead < came || !bad && stored+dead == 0 && came > 0
}

// Body is a request of events.
func Body(key string, at time.Time, batch []*Event) []byte {
	b := fmt.Appendf(nil, `{"api_key":%q`, key)
	if !at.IsZero() {
		b = fmt.Appendf(b, `,"sent_at":%q`, at.Format("2006-01-02T15:04:05.000Z"))
	}
	b = append(b, `,"batch":[`...)
	for i, e := range batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e.Raw...)
	}
	return append(b, "]}"...)
}
