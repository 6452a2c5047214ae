package bridge

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// answers has the acks of messages followed: each is a span under the hand-out in which its message was
// published. A bridge without a Tracer does nothing here.
type answers struct {
	tracer tidemill.Tracer // nil: nothing is followed

	seed maphash.Seed
	mu   sync.Mutex // guards out
	out  []sent     // a slot for each of the last published messages whose trace is sampled, by the hash of its id
}

// sent is a message that was published and has no ack yet.
type sent struct {
	id    string
	trace tidemill.Trace // of its hand-out
	came  time.Time      // its ack; zero: not yet
}

// mostSent is how many messages are followed that await their acks, of those that are sampled. Later
// ones replace earlier ones, whose acks then have no span. They need a megabyte.
const mostSent = 1 << 13

// published notes a message that is about to be published.
func (a *answers) published(id string, t *tidemill.Trace) {
	if a.tracer == nil || t == nil || !t.Sampled {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.out == nil {
		a.seed, a.out = maphash.MakeSeed(), make([]sent, mostSent)
	}
	*a.slot(id) = sent{id: id, trace: *t}
}

// slot is that of an id; mu is held, and there are slots.
func (a *answers) slot(id string) *sent { return &a.out[maphash.String(a.seed, id)%mostSent] }

// came notes that an ack came in.
func (a *answers) came(id string, now func() time.Time) {
	if a.tracer == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.out == nil {
		return
	}
	if s := a.slot(id); s.id == id {
		s.came = now()
	}
}

// settled ends the span of an ack: the source has said what it did.
func (a *answers) settled(end *tidemill.Settlement, now func() time.Time) {
	if a.tracer == nil {
		return
	}
	a.mu.Lock()
	var of sent
	if a.out != nil {
		if s := a.slot(end.ID); s.id == end.ID && !s.came.IsZero() {
			of = *s
			*s = sent{}
		}
	}
	a.mu.Unlock()
	if of.id == "" {
		return
	}
	became := "stale"
	switch {
	case end.Outcome == tidemill.Stale:
	case end.End == tidemill.Again:
		became = "again"
	default:
		became = end.Fate.String()
	}
	s := &tidemill.Span{Trace: a.tracer.Under(&of.trace), Parent: of.trace.Span, Name: "ack " + Name, Kind: tidemill.SpanConsumer, Begin: of.came, End: now(),
		Attributes: []tidemill.Attribute{
			{Name: "messaging.system", Text: "mqtt"},
			{Name: "messaging.operation.type", Text: "settle"},
			{Name: "messaging.operation.name", Text: "ack"},
			{Name: "messaging.message.id", Text: of.id},
			{Name: "tidemill.pipeline", Text: Name},
			{Name: "tidemill.end", Text: became}}}
	if end.Kind != tidemill.NoKind {
		s.Error = end.Kind.String()
	}
	a.tracer.Ended(s)
}
