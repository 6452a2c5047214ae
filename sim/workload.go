package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Names of events that the warehouse rejects, and that it panics at.
const (
	poison = "poison"
	bomb   = "bomb"
)

var projectID = uuid.MustParse("33333333-3333-4333-8333-333333333333")

const ingestKey = "sim-key"

// sent is one event as a client sends it.
type sent struct {
	n        int
	id       uuid.UUID // Nil: left to ingest
	name     string
	distinct string
	at       time.Time
	place    int // in its batch
	set      map[string]string
	once     map[string]string
	unset    []string
	other    string // of a merge
	raw      []byte
}

func (s *sent) bad() bool { return s.name == poison || s.name == bomb }

// workload is what clients will send, and its expected result.
type workload struct {
	events  []*sent
	batches [][]*sent
	claims  [][]*sent         // batches that one client sends in order
	owner   map[string]string // of an anonymous id: the one user that claims it
}

// newWorkload draws a history in which every anonymous id is claimed by at most one user and no
// claimed id is a user: then order must not matter.
func newWorkload(rnd *rand.Rand) *workload {
	w := &workload{owner: map[string]string{}}
	users := 2 + rnd.IntN(6)
	var ids []string
	for u := range users {
		user := fmt.Sprintf("user-%d", u)
		ids = append(ids, user)
		for a := range rnd.IntN(4) {
			anonymous := fmt.Sprintf("anon-%d-%d", u, a)
			ids = append(ids, anonymous)
			if rnd.IntN(5) > 0 {
				w.owner[anonymous] = user
			}
		}
	}
	start := time.Date(1999, 12, 31, 20, 0, 0, 0, time.UTC)
	draw := func() time.Time { return start.Add(time.Duration(rnd.IntN(3*3600*1000)) * time.Millisecond) }
	for n := range 40 + rnd.IntN(60) {
		e := &sent{n: n, name: fmt.Sprintf("event %d", rnd.IntN(4)), distinct: ids[rnd.IntN(len(ids))], at: draw()}
		if rnd.IntN(10) > 0 {
			e.id = uuid.UUID{0: byte(rnd.Uint32()), 1: byte(rnd.Uint32()), 6: 0x40, 8: 0x80, 14: byte(n >> 8), 15: byte(n)}
		}
		switch roll := rnd.IntN(100); {
		case roll < 3:
			e.name = poison
		case roll < 5:
			e.name = bomb
		case e.id != uuid.Nil && roll < 60:
			e.set, e.once = map[string]string{}, map[string]string{}
			for range rnd.IntN(3) {
				e.set[fmt.Sprintf("p%d", rnd.IntN(4))] = fmt.Sprintf(`"set %d"`, n)
			}
			for range rnd.IntN(3) {
				e.once[fmt.Sprintf("p%d", rnd.IntN(4))] = fmt.Sprintf(`%d`, 9007199254740993+n)
			}
			if rnd.IntN(3) == 0 {
				e.unset = []string{fmt.Sprintf("p%d", rnd.IntN(4))}
			}
		}
		w.events = append(w.events, e)
	}
	for _, anonymous := range ids {
		user, claimed := w.owner[anonymous]
		if !claimed {
			continue
		}
		for range 1 + rnd.IntN(2) {
			n := len(w.events)
			w.events = append(w.events, &sent{n: n, id: uuid.UUID{0: byte(rnd.Uint32()), 6: 0x40, 8: 0x80, 13: 1, 14: byte(n >> 8), 15: byte(n)},
				name: []string{"$identify", "$create_alias"}[rnd.IntN(2)], distinct: user, other: anonymous, at: draw()})
		}
	}
	order := slices.Clone(w.events)
	rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for len(order) > 0 {
		k := min(1+rnd.IntN(8), len(order))
		same := rnd.IntN(4) == 0 // all within one millisecond
		for i, e := range order[:k] {
			if e.place = i; same {
				e.at = order[0].at
			}
			e.encode()
		}
		w.batches = append(w.batches, order[:k])
		if rnd.IntN(10) == 0 { // sent by another client too
			w.batches = append(w.batches, order[:k])
		}
		order = order[k:]
	}
	return w
}

// contend adds claims that depend on their order: the first makes user b an identified person,
// which the second must not merge. One client sends them, in batches cut anywhere.
func (w *workload) contend(rnd *rand.Rand) {
	at := time.Date(1999, 12, 31, 23, 30, 0, 0, time.UTC)
	var batch []*sent
	for n := range 6 + rnd.IntN(8) {
		a, b, c := fmt.Sprint("a-", n), fmt.Sprint("b-", n), fmt.Sprint("c-", n)
		w.owner[a] = b
		for _, claim := range [][2]string{{b, a}, {c, b}} {
			k := len(w.events)
			at = at.Add(time.Millisecond)
			e := &sent{n: k, id: uuid.UUID{0: byte(rnd.Uint32()), 6: 0x40, 8: 0x80, 13: 2, 14: byte(k >> 8), 15: byte(k)},
				name: "$identify", distinct: claim[0], other: claim[1], at: at, place: len(batch)}
			e.encode()
			w.events = append(w.events, e)
			if batch = append(batch, e); rnd.IntN(2) == 0 {
				w.claims = append(w.claims, batch)
				batch = nil
			}
		}
	}
	w.claims = append(w.claims, batch)
}

// encode writes the event as a PostHog SDK would.
func (s *sent) encode() {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"event":%q,"distinct_id":%q,"timestamp":%q`, s.name, s.distinct, s.at.Format("2006-01-02T15:04:05.000Z"))
	if s.id != uuid.Nil {
		fmt.Fprintf(&b, `,"uuid":%q`, s.id)
	}
	fmt.Fprintf(&b, `,"properties":{"n":%d`, s.n)
	switch s.name {
	case "$identify":
		fmt.Fprintf(&b, `,"$anon_distinct_id":%q`, s.other)
	case "$create_alias":
		fmt.Fprintf(&b, `,"alias":%q`, s.other)
	}
	bag := func(key string, m map[string]string) {
		if len(m) == 0 {
			return
		}
		fmt.Fprintf(&b, `,%q:{`, key)
		for i, k := range sortedKeys(m) {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `%q:%s`, k, m[k])
		}
		b.WriteByte('}')
	}
	bag("$set", s.set)
	bag("$set_once", s.once)
	if s.unset != nil {
		list, _ := json.Marshal(s.unset)
		fmt.Fprintf(&b, `,"$unset":%s`, list)
	}
	b.WriteString("}}")
	s.raw = b.Bytes()
}

// body is a batch as posted.
func body(batch []*sent, at time.Time) []byte {
	b := []byte(`{"api_key":"` + ingestKey + `","sent_at":"` + at.Format("2006-01-02T15:04:05.000Z") + `","batch":[`)
	for i, e := range batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e.raw...)
	}
	return append(b, "]}"...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// expected is a person by the workload, found without the product's rules.
type expected struct {
	id         uuid.UUID
	identified bool
	properties map[string]string
}

// whose is the distinct id that a distinct id's person is named after.
func (w *workload) whose(distinct string) string {
	if user, ok := w.owner[distinct]; ok {
		return user
	}
	return distinct
}

// persons says what each person must be, by the distinct id it is named after.
func (w *workload) persons() map[string]*expected {
	type op struct {
		at    time.Time
		place int
		id    uuid.UUID
		value string
	}
	later := func(a, b op) bool { // a is later than b
		if !a.at.Equal(b.at) {
			return a.at.After(b.at)
		}
		if a.place != b.place { // of one batch: others share no time
			return a.place > b.place
		}
		return bytes.Compare(a.id[:], b.id[:]) > 0
	}
	type ops struct{ set, once, unset []op }
	all := map[string]map[string]*ops{}
	out := map[string]*expected{}
	for _, e := range w.events {
		if e.bad() {
			continue
		}
		who := w.whose(e.distinct)
		if out[who] == nil {
			out[who] = &expected{id: person.ID(person.Ref{Project: projectID, Distinct: who}), properties: map[string]string{}}
			all[who] = map[string]*ops{}
		}
		if e.other != "" {
			out[who].identified = true
		}
		of := func(key string) *ops {
			if all[who][key] == nil {
				all[who][key] = &ops{}
			}
			return all[who][key]
		}
		for k, v := range e.set {
			of(k).set = append(of(k).set, op{e.at, e.place, e.id, v})
		}
		for k, v := range e.once {
			of(k).once = append(of(k).once, op{e.at, e.place, e.id, v})
		}
		for _, k := range e.unset {
			of(k).unset = append(of(k).unset, op{e.at, e.place, e.id, ""})
		}
	}
	for who, keys := range all {
		for key, o := range keys {
			latest := func(list []op) (best *op) {
				for i := range list {
					if best == nil || later(list[i], *best) {
						best = &list[i]
					}
				}
				return best
			}
			gone := latest(o.unset)
			alive := func(c *op) bool { return c != nil && (gone == nil || later(*c, *gone)) } // in one event $unset is last
			first := (*op)(nil)
			for i := range o.once {
				if first == nil || later(*first, o.once[i]) {
					first = &o.once[i]
				}
			}
			for _, c := range []*op{latest(o.set), first, latest(o.once)} {
				if alive(c) {
					out[who].properties[key] = c.value
					break
				}
			}
		}
	}
	return out
}
