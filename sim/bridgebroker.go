package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/test/promise"
)

// What the subscriber and its broker do in addition to the gate's faults.
const (
	Forgotten = "message forgotten by the broker"
	Silent    = "message not answered"
	AckLost   = "ack lost"
	AckTwice  = "ack twice"
	AckLate   = "ack late"
	Nack      = "refused by the receiver"
	Turned    = "refused by the broker"
	Garbage   = "garbage among the acks"
	AtOnce    = "answered at once"
)

// FarClasses lists all of them.
var FarClasses = []string{Forgotten, Silent, AckLost, AckTwice, AckLate, Nack, Turned, Garbage, AtOnce}

// broker receives messages and passes them to the subscriber, which answers. Answers go to
// every process that has subscribed by then. It changes only while the gate lets one effect
// happen.
type broker struct {
	w     *bridgeWorld
	rnd   *rand.Rand
	boxes map[int][]string // answers that wait for each subscribed process
	way   []answer         // in flight
	count map[string]int
	quick bool // the subscriber answers in no time: its acks arrive before the publishing of their messages has ended
}

// answer is a message to the ack topic.
type answer struct {
	at   time.Time
	text string
	of   *entry // nil: of no entry
	ack  bool
}

func newBroker(w *bridgeWorld, rnd *rand.Rand) *broker {
	return &broker{w: w, rnd: rnd, boxes: map[int][]string{}, count: map[string]int{}, quick: rnd.IntN(2) == 0}
}

// happens draws whether something goes wrong, while faults are on.
func (b *broker) happens(what string, percent int) bool {
	if b.rnd.IntN(100) >= percent || b.w.g.calm {
		return false
	}
	b.count[what]++
	return true
}

// take receives a batch of messages.
func (b *broker) take(p *process, batch []*tidemill.Message) error {
	b.arrive()
	var failed tidemill.Partial
	for i, m := range batch {
		e := b.w.by[m.ID]
		switch {
		case e == nil:
			b.w.fault("a message of %s was published, which nobody added", m.ID)
		case m.To == deadTopic:
			e.buried(b.w, m.Payload)
		case m.To != outTopic || !e.reads(m.Payload):
			b.w.fault("entry %s was published to %s as %s, want %s", e.id, m.To, m.Payload, e.want.Data)
		default:
			e.published(b.w, p)
			e.heard.Times++
			if e.turns > 0 {
				e.turns--
				e.heard.Refused++
				b.count[Turned]++
				failed.Failed = append(failed.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Credentials, "sim: not authorized")})
				continue
			}
			b.far(e)
		}
	}
	if len(failed.Failed) > 0 {
		return &failed
	}
	return nil
}

// far is the subscriber, which got an entry.
func (b *broker) far(e *entry) {
	if b.happens(Forgotten, 8) || b.happens(Silent, 8) {
		return
	}
	ack := e.refuses == 0
	if !ack {
		b.count[Nack]++
		if e.refuses > 0 {
			e.refuses--
		}
	}
	at := time.Now()
	if b.quick {
		b.count[AtOnce]++
	} else {
		at = at.Add(time.Millisecond + time.Duration(b.rnd.Int64N(int64(300*time.Millisecond))))
	}
	if b.happens(AckLate, 8) {
		at = at.Add(time.Duration(b.rnd.Int64N(int64(2 * bridgeLease))))
	}
	a := answer{at: at, text: fmt.Sprintf(`{"id":%q,"ack":%t}`, e.id, ack), of: e, ack: ack}
	if b.rnd.IntN(3) == 0 {
		a.text = fmt.Sprintf(`{"ack":%t,"ids":[%q]}`, ack, e.id)
	}
	b.way = append(b.way, a)
	if b.happens(AckTwice, 8) {
		a.at = a.at.Add(time.Duration(b.rnd.Int64N(int64(3 * time.Second))))
		b.way = append(b.way, a)
	}
	if b.happens(Garbage, 5) {
		b.way = append(b.way, answer{at: at, text: promise.Noise[b.rnd.IntN(len(promise.Noise))]})
	}
}

// arrive delivers answers whose time has come.
func (b *broker) arrive() {
	slices.SortStableFunc(b.way, func(x, y answer) int { return x.at.Compare(y.at) })
	for len(b.way) > 0 && !b.way[0].at.After(time.Now()) {
		a := b.way[0]
		b.way = b.way[1:]
		if a.of != nil && a.ack {
			a.of.heard.Acked++
		}
		if b.happens(AckLost, 8) {
			continue
		}
		for n := range b.boxes {
			b.boxes[n] = append(b.boxes[n], a.text)
		}
	}
}

// hand gives a process the answers that wait for it.
func (b *broker) hand(p *process) []string {
	b.arrive()
	got := b.boxes[p.n]
	if got != nil {
		b.boxes[p.n] = got[len(got):]
	}
	for _, text := range got {
		if id := strings.Split(text, `"`); strings.Contains(text, "false") { // each copy may count
			for _, word := range id {
				if e := b.w.by[word]; e != nil {
					e.heard.Refused++
				}
			}
		}
	}
	return got
}

// idle says how long nothing waits for a process.
func (b *broker) idle(p *process) time.Duration {
	box, subscribed := b.boxes[p.n]
	switch {
	case !subscribed:
		return -1
	case len(box) > 0:
		return 0
	}
	d := time.Duration(-1)
	for _, a := range b.way {
		if left := max(time.Until(a.at), 0); d < 0 || left < d {
			d = left
		}
	}
	return d
}

func (b *broker) join(p *process) {
	b.arrive()
	b.boxes[p.n] = []string{}
}

func (b *broker) leave(p *process) { delete(b.boxes, p.n) }

// gatedBroker is the broker as one process has it: a tidemill.Sink and a bridge.Acks.
type gatedBroker struct {
	b    *broker
	g    *Gate
	p    *process
	down atomic.Bool
}

// up is as of the last call.
func (s *gatedBroker) up() bool { return !s.down.Load() }

func (s *gatedBroker) Write(_ context.Context, batch []*tidemill.Message) error {
	err := s.g.do(s.p, "publish", fmt.Sprint(batch[0].To, batch[0].ID, len(batch)), func() error { return s.b.take(s.p, batch) })
	_, partly := errors.AsType[*tidemill.Partial](err)
	s.down.Store(err != nil && !partly && tidemill.KindOf(err) == tidemill.Transient)
	return err
}

// Subscribe retries until it has succeeded, as the real one does.
func (s *gatedBroker) Subscribe(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.g.do(s.p, "subscribe", "", func() error { s.b.join(s.p); return nil })
		if err == nil {
			return nil
		}
		_ = sleep.For(ctx, 500*time.Millisecond)
	}
	return ctx.Err()
}

func (s *gatedBroker) Receive(ctx context.Context, each func([]byte)) error {
	var got []string
	hand := func() error { got = s.b.hand(s.p); return nil }
	var err error
	if ctx.Err() == nil {
		err = s.g.await(ctx, s.p, "acks", "", func() time.Duration { return s.b.idle(s.p) }, hand)
	} else { // what has come so far
		err = s.g.do(s.p, "acks", "", hand)
	}
	if err != nil { // where the answer was lost, so are the acks
		return err
	}
	for _, text := range got {
		each([]byte(text))
	}
	return ctx.Err()
}

func (s *gatedBroker) Unsubscribe(context.Context) error {
	return s.g.do(s.p, "unsubscribe", "", func() error { return nil }) // answers that came before can still be read
}
