package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

// Types of events, each for a handler of another kind: one event at a time, many, many in a
// transaction with the sync log, and none.
const (
	single   = "member.joined"
	several  = "email.opened"
	together = "booking.made"
	strange  = "nobody.knows"
)

// happening is one event as a client sends it, and its fate so far.
type happening struct {
	n      int
	tenant string
	id     string
	typ    string
	raw    []byte
	fails  tidemill.Kind // always; zero: in the end it is accepted
	moods  []mood        // of the handler, call by call, until it succeeds

	came     map[string]int // jobs that the queue accepted, by name
	queued   time.Time      // the first
	calls    []*deed
	deaths   map[string]bool // by request: it had a dead letter
	lettered bool
	commits  map[string]int // of the transaction, by request
}

// mood is how a handler treats an event.
type mood uint8

const (
	takes  mood = iota
	errs        // an error of no kind
	misses      // not_found
	hangs       // until its time is up
	numb        // and longer
	panics
	exits
	invalidates
	refuses
)

// sending is one request of a client, repeated until it is answered.
type sending struct {
	events []*happening
	at     time.Duration // since the beginning
}

// Tenants of the workload.
var tenants = []string{"big", "small", "club"}

// draw makes the workload.
func (w *crmWorld) draw(draw *rand.Rand) {
	for i, tenant := range tenants {
		n := 4 + draw.IntN(10)
		if w.peace {
			n = []int{crmFlood, 10, 0}[i]
		}
		for k := range n {
			e := w.drawEvent(tenant, k, draw)
			w.events = append(w.events, e)
			w.byKey[tenant+"/"+e.id] = e
		}
	}
	todo := append([]*happening{}, w.events...)
	if !w.peace {
		draw.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	}
	for len(todo) > 0 {
		n := min(1+draw.IntN(4), len(todo))
		s := &sending{events: todo[:n], at: time.Duration(draw.Int64N(int64(40 * time.Second)))}
		if w.peace {
			s.at = time.Duration(len(w.sendings)) * time.Millisecond
		}
		w.sendings, todo = append(w.sendings, s), todo[n:]
		if !w.peace && draw.IntN(6) == 0 { // another client sends the same
			w.sendings = append(w.sendings, &sending{events: s.events, at: s.at + time.Duration(draw.Int64N(int64(20*time.Second)))})
		}
	}
}

// In peace one tenant floods the others; one of those sends little.
const crmFlood = 90

// drawEvent draws an event. Ids belong to a tenant: another has the same.
func (w *crmWorld) drawEvent(tenant string, k int, draw *rand.Rand) *happening {
	e := &happening{n: len(w.events), tenant: tenant, id: fmt.Sprint("e-", k), came: map[string]int{}, deaths: map[string]bool{}, commits: map[string]int{}}
	e.typ = []string{single, single, several, several, together, together, strange}[draw.IntN(7)]
	who := fmt.Sprintf(`{"externalId":"m-%d"}`, draw.IntN(5))
	if !w.peace {
		switch draw.IntN(14) {
		case 0:
			e.fails = tidemill.Business
		case 1:
			e.fails = tidemill.Validation
		case 2: // two people
			e.fails, who = tidemill.Business, `{"externalId":"m-ann","email":"bob@example.com"}`
		}
		if e.typ == strange {
			e.fails = 0
		}
		for range draw.IntN(5) * draw.IntN(2) {
			e.moods = append(e.moods, mood(1+draw.IntN(int(exits))))
		}
	}
	e.raw = fmt.Appendf(nil, `{ "n":%d,"id":%q,"type":%q,"tenantId":%q,"identity":%s,"occurredAt":"1999-12-31T10:00:00.000Z","payload":{"big":12345678901234567890}}`,
		e.n, e.id, e.typ, tenant, who)
	return e
}

func (e *happening) key() string { return e.tenant + "/" + e.id }

func (e *happening) String() string { return fmt.Sprintf("event %d (%s, %s)", e.n, e.key(), e.typ) }

// known is the event of a job, by its bytes.
func (w *crmWorld) known(payload []byte) *happening {
	for _, e := range w.events {
		if bytes.Equal(e.raw, payload) {
			return e
		}
	}
	return nil
}

// acquainted makes two people whom an event may mix up.
func (w *crmWorld) acquainted() {
	for _, tenant := range tenants {
		answers := make([]profile.Answer, 2)
		if err := w.profiles.Resolve(w.ctx, []profile.Ask{{Tenant: tenant, Identities: profile.Identities{External: "m-ann"}, Create: true},
			{Tenant: tenant, Identities: profile.Identities{Email: "bob@example.com"}, Create: true}}, answers); err != nil {
			panic(err)
		}
	}
}

// client sends its share.
func (w *crmWorld) client(n int) {
	rnd := rand.New(rand.NewPCG(w.seed, 0xc11e+uint64(n)))
	for i := n; i < len(w.sendings); i += crmClients {
		s := w.sendings[i]
		_ = sleep.For(w.ctx, time.Until(epoch.Add(s.at))+time.Duration(rnd.IntN(1000)))
		for w.ctx.Err() == nil && !w.send(n, i, s, rnd) {
			w.g.turn(outsider(), "client again", fmt.Sprint(n))
			w.book.Lock()
			w.count[Repeated]++
			w.book.Unlock()
			_ = sleep.For(w.ctx, 100*time.Millisecond+time.Duration(rnd.Int64N(int64(time.Second))))
		}
	}
}

// send reports whether everything was answered. Answers can get lost, too.
func (w *crmWorld) send(client, number int, s *sending, rnd *rand.Rand) bool {
	in := w.pick(client + rnd.IntN(2))
	lost := rnd.IntN(10) == 0 && !w.peace
	if in == nil {
		return false // refused
	}
	raws := make([][]byte, len(s.events))
	for i, e := range s.events {
		raws[i] = e.raw
	}
	ctx := context.WithValue(w.ctx, clientKey{}, fmt.Sprintf("client %d, sending %d", client, number))
	results, err := in.endpoint.Accept(ctx, raws, nil)
	if err != nil {
		return false
	}
	w.book.Lock()
	defer w.book.Unlock()
	for i, e := range s.events {
		r := results[i]
		if r.Status != accept.Accepted && r.Status != accept.Duplicate || r.ID != e.id || r.Tenant != e.tenant {
			w.fault("%v was answered %+v", e, r)
		}
		if e.came[e.id] == 0 {
			w.fault("%v was answered %s, and is not in the queue", e, r.Status)
		}
	}
	return !lost
}
