package analyticstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var instances = []promise{
	{name: "A19 two instances end as one does", reason: "a second machine is for speed, and changes nothing", holds: asOne},
	{name: "A19 an instance that dies leaves its work to the other", reason: "that is what the second one is for", holds: dies},
}

// history is a random one of a few people, each with distinct ids that no other claims.
func history(rnd *rand.Rand) (ms []*tidemill.Message, ids []string) {
	const people = 6
	pick := func(who int) string {
		return [...]string{fmt.Sprint("user", who), fmt.Sprint("phone", who), fmt.Sprint("tablet", who), fmt.Sprint("old", who)}[rnd.IntN(4)]
	}
	for who := range people {
		ids = append(ids, fmt.Sprint("user", who), fmt.Sprint("phone", who), fmt.Sprint("tablet", who), fmt.Sprint("old", who))
	}
	for n := range 150 + rnd.IntN(100) {
		who := rnd.IntN(people)
		more := []string{"timestamp", at(rnd.IntN(7200)), "event_id", uid(n)}
		user := fmt.Sprint("user", who)
		var m *tidemill.Message
		switch key := fmt.Sprint("p", rnd.IntN(4)); rnd.IntN(12) {
		case 0, 1, 2, 3:
			m = entry("visit", pick(who), more...)
		case 4, 5:
			m = entry("$set", pick(who), append(more, "user_properties", fmt.Sprintf(`{"$set":{%q:%d}}`, key, n))...)
		case 6:
			m = entry("$set", pick(who), append(more, "user_properties", fmt.Sprintf(`{"$set_once":{%q:%d}}`, key, n))...)
		case 7:
			m = entry("$set", pick(who), append(more, "user_properties", fmt.Sprintf(`{"$unset":[%q]}`, key))...)
		case 8:
			m = entry("$identify", user, append(more, "anonymous_id", fmt.Sprint("phone", who))...)
		case 9:
			m = entry("$identify", user, append(more, "anonymous_id", fmt.Sprint("tablet", who))...)
		case 10:
			m = entry("$create_alias", user, append(more, "properties", fmt.Sprintf(`{"alias":"old%d"}`, who))...)
		case 11:
			m = entry("refused", "guest", more...)
		}
		m.ID = fmt.Sprint("entry-", n)
		ms = append(ms, m)
	}
	return ms, ids
}

// copies are messages as if received anew.
func copies(ms []*tidemill.Message) []*tidemill.Message {
	out := make([]*tidemill.Message, len(ms))
	for i, m := range ms {
		c := *m
		out[i] = &c
	}
	return out
}

// state is all that readers see, as text.
func (b *bench) state(ids []string) string {
	b.Helper()
	var s strings.Builder
	for _, id := range ids {
		p := b.show(id)
		if p == nil {
			p = new(person.Person)
		}
		fmt.Fprintf(&s, "%s: %v %v identified=%v %v %v", id, p.ID, p.Distinct, p.Identified, p.Created, p.Updated)
		var props []string
		for k, v := range p.Properties {
			props = append(props, k+"="+string(v))
		}
		slices.Sort(props)
		fmt.Fprintln(&s, props)
	}
	rows := b.events()
	slices.SortFunc(rows, func(x, y event.Event) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for i := range rows {
		rows[i].Origin, rows[i].Order, rows[i].IngestedAt = 0, 0, time.Time{}
		s.Write(append(rows[i].AppendJSON(nil), '\n'))
	}
	var dead []string
	for _, l := range b.letters() {
		dead = append(dead, l.ID+" "+l.Cause)
	}
	slices.Sort(dead)
	return s.String() + strings.Join(dead, "\n")
}

func asOne(b *bench) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(19, seed))
		ms, ids := history(rnd)

		b.Harness = b.fresh()
		b.prepare()
		b.put(copies(ms)...)
		o := options()
		o.Batch = 1 + rnd.IntN(40)
		b.processWith(o, nil)
		want := b.state(ids)

		b.Harness = b.fresh()
		b.prepare()
		var both []*system
		for range 2 + rnd.IntN(2) {
			o := options()
			o.Batch, o.Lanes, o.InFlight = 1+rnd.IntN(10), 1+rnd.IntN(2), 20
			both = append(both, b.start(o, nil))
		}
		all := copies(ms)
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for len(all) > 0 {
			n := min(len(all), 1+rnd.IntN(30))
			b.put(all[:n]...)
			all = all[n:]
			b.pass(time.Duration(rnd.IntN(int(3 * time.Millisecond))))
		}
		b.drained()
		for _, s := range both {
			s.stop()
		}
		b.balanced()
		if got := b.state(ids); got != want {
			b.Fatalf("seed %d: several instances differ from one:\n%s", seed, difference(got, want))
		}
	}
}

// difference is the lines that only one has.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for _, l := range g {
		if !slices.Contains(w, l) {
			out = append(out, "several: "+l)
		}
	}
	for _, l := range w {
		if !slices.Contains(g, l) {
			out = append(out, "one:     "+l)
		}
	}
	return strings.Join(out, "\n")
}

func dies(b *bench) {
	for i := range 200 {
		b.put(entry(fmt.Sprint("e", i), fmt.Sprint("u", i%7)))
	}
	o := options()
	o.Batch, o.InFlight = 20, 100
	dying := b.start(o, func(p *analytics.Parts) {
		p.Source = &stream{source: p.Source.(source), settle: fault{err: errOutage, left: -1}}
	})
	b.until("it has some", func() bool { return len(b.events()) > 0 })
	dying.halt() // its result is unknown
	other := b.start(o, nil)
	b.drained()
	other.stop()
	b.wantBooks(200, 0, 0)
	if n := len(b.events()); n != 200 {
		b.Errorf("%d rows of 200 events", n)
	}
}
