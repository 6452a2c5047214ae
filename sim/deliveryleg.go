package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// leg is an event's delivery to one partner: its fate so far. deliveryWorld.book guards it.
type leg struct {
	e       *conversion
	f       *far
	refused bool // the partner refuses it for good, unless it is fixed
	mended  bool // its dead letter was edited

	place int               // in the partner's queue; 0: it is not there
	end   tidemill.Fate     // of its job
	outs  map[*process]int  // hand-outs without a request
	hand  int               // number of the newest hand-out
	knows *process          // was told, under this hand-out, that the partner has it
	wrote *process          // could not write so to the ledger
	holds map[*process]bool // were handed it and have not ended it
	torn  map[*process]bool // were handed it again while they worked on it: what they say may concern either

	lost bool // it was handed out while an earlier holder was still alive

	calls  int       // requests, whether they arrived or not
	parked bool      // it came in beside its full queue
	free   int       // requests that must not count as a try: we were refused, not the event
	failed time.Time // the newest request that did count
	doubts int       // requests that arrived, and that nobody was told to have failed
	took   int       // how often the partner has accepted it
	first  time.Time

	notBefore time.Time // the partner asked to wait until then
	asks      *process  // the process that it told so
	grave
}

func newLeg(e *conversion, f *far) *leg {
	return &leg{e: e, f: f, outs: map[*process]int{}, holds: map[*process]bool{}, torn: map[*process]bool{}}
}

func (l *leg) String() string {
	return fmt.Sprintf("event %d (%s of %s) for %s", l.e.n, l.e.job, l.e.typ, l.f.name)
}

// fits reports whether bytes are the event's as it was sent, or as it was fixed.
func (l *leg) fits(b []byte) bool {
	return bytes.Equal(b, l.e.payload) || l.mended && bytes.Equal(b, l.e.better())
}

// better is the event in a form that the partner, which refused it, accepts.
func (e *conversion) better() []byte {
	return append(bytes.Clone(e.payload[:len(e.payload)-1]), mark...)
}

const mark = `,"mended":true}`

// sends notes a request: each hand-out allows one.
func (l *leg) sends(c *call) {
	l.calls++
	if l.outs[c.p]--; l.outs[c.p] < 0 {
		l.f.w.fault("%v was sent without having been handed out for it", l)
	}
	if since := time.Since(l.failed); l.f.w.peace && since < 3*time.Second/4 {
		l.f.w.fault("%v was sent again %v after it failed", l, since)
	}
}

// arrives notes that a request has reached the partner. If the partner cannot tell it from an
// earlier one, an operator has to have asked for it.
func (l *leg) arrives() {
	if l.f.guards(l.e) && !l.f.dedups && l.doubts > l.asked {
		l.f.w.fault("%v was sent again although it may have been taken (taken %d times, replays asked for: %d)", l, l.took, l.asked)
	}
	l.doubts++
}

// taken notes that the partner has accepted it.
func (l *leg) taken() {
	if l.took++; l.took > 1 {
		l.f.w.count[Again]++
		if l.f.guards(l.e) && !l.f.dedups && l.took > 1+l.asked {
			l.f.w.fault("%v was taken %d times, replays asked for: %d", l, l.took, l.asked)
		}
		return
	}
	l.first = time.Now()
	if !l.f.ordered || l.e.key == "" {
		return
	}
	for _, before := range l.f.lines[l.e.site+l.e.key] {
		if before == l {
			return
		}
		if before.took == 0 && before.end == tidemill.None {
			l.f.w.fault("%v was taken before event %d of the same user", l, before.e.n)
		}
	}
}

// comes notes a job that a partner's queue has accepted.
func (l *leg) comes(m *tidemill.Message, q string) {
	if l.place++; l.place > 1 {
		l.f.w.fault("%v came into its queue a second time, as %s", l, m.ID)
	}
	if m.ID != l.e.job+"/"+l.f.name || q != "s2s."+l.f.name {
		l.f.w.fault("%v came into %s as %s", l, q, m.ID)
	}
	l.f.lines[l.e.site+l.e.key] = append(l.f.lines[l.e.site+l.e.key], l)
}

// handed notes a hand-out.
func (l *leg) handed(p *process, m *tidemill.Message, replay bool) {
	w := l.f.w
	if l.end != tidemill.None && !replay {
		w.fault("%v was handed out after it had ended %v", l, l.end)
	}
	if m.Tries > l.calls-l.free {
		w.fault("%v is said to have failed %d times; there were %d requests, of which %d are none of its tries", l, m.Tries, l.calls, l.free)
	}
	if n := len(queue.FailuresOf(m)); !replay && n != min(m.Tries, queue.MaxFailures) {
		w.fault("%v failed %d times, and is handed out with %d failures", l, m.Tries, n)
	}
	if !l.fits(m.Payload) {
		w.fault("%v is handed out as %s, want %s", l, m.Payload, l.e.payload)
	}
	for o := range l.holds {
		if !w.g.isDead(o) && !l.lost {
			l.lost = true
			if w.count[LeaseLost]++; w.peace {
				w.fault("%v was handed out while process %d worked on it", l, o.n)
			}
		}
	}
	if l.holds[p] {
		l.torn[p] = true
	}
	l.holds[p] = true
	l.hand++
	l.outs[p]++
	l.knows, l.wrote = nil, nil
}

// known reports whether a process knows that the partner has it.
func (l *leg) known(p *process) bool { return l.knows == p && l.wrote != p && !l.torn[p] }

// ends notes a settlement that was applied.
func (l *leg) ends(p *process, e *tidemill.Settlement, replay bool) {
	w := l.f.w
	if l.known(p) && (e.End != tidemill.Done || e.Fate == tidemill.Dead) {
		w.fault("%v was taken by the partner, which said so, and ended %v %v: %s", l, e.End, e.Fate, e.Cause)
	}
	delete(l.holds, p)
	if early := time.Until(l.notBefore) - e.After; e.End == tidemill.Again && l.asks == p && !p.gone && !l.torn[p] && early > time.Millisecond {
		w.fault("%v is to come again %v before the time that the partner asked for", l, early)
	}
	if e.End != tidemill.Done {
		return
	}
	switch {
	case e.Fate == tidemill.Delivered && l.took == 0:
		w.fault("%v ended delivered, and the partner never took it", l)
	case e.Fate == tidemill.Skipped && l.took == 0:
		w.fault("%v was skipped (%s), and the partner never took it", l, e.Cause)
	case e.Fate == tidemill.Dead && !replay && !l.ever:
		w.fault("%v ended dead without a letter: %s", l, e.Cause)
	}
	if !replay {
		if l.end != tidemill.None {
			w.fault("%v ended twice, %v and %v", l, l.end, e.Fate)
		}
		l.end = e.Fate
	}
}

// lettered checks a dead letter on its way into the store.
func (l *leg) lettered(p *process, x *tidemill.DeadLetter) {
	w := l.f.w
	if !l.fits(x.Message.Payload) {
		w.fault("%v has a letter with the payload %s", l, x.Message.Payload)
	}
	switch burnt := x.Tries > l.f.retries && l.calls-l.free > l.f.retries; {
	case x.Kind == tidemill.Validation:
		if !l.refused {
			w.fault("%v is dead as invalid, and the partner never said so: %s", l, x.Cause)
		}
	case x.Kind == tidemill.Unknown:
		if l.f.dedups {
			w.fault("%v is held although the partner de-duplicates: %s", l, x.Cause)
		}
	case !burnt:
		w.fault("%v is dead (%v) after %d tries and %d requests; %d retries are allowed", l, x.Kind, x.Tries, l.calls, l.f.retries)
	}
	if l.known(p) {
		w.fault("%v is dead, and the partner has said that it took it: %s", l, x.Cause)
	}
}

// comes notes that an event is in a queue of the ingest API.
func (e *conversion) comes(w *deliveryWorld, m *tidemill.Message) {
	if e.past {
		w.fault("event %d was accepted, and its queue knew it", e.n)
	}
	if e.order != "" && slices.ContainsFunc(w.events, func(o *conversion) bool { return o.past && o.order == e.order }) {
		w.count[LongAgo]++
	}
	if e.job != "" {
		w.fault("event %d was accepted twice, as %s and %s", e.n, e.job, m.ID)
	}
	e.job, e.queued = m.ID, time.Now()
	w.byJob[m.ID] = e
	if m.To != e.endpoint() {
		w.fault("event %d came into %s, want %s", e.n, m.To, e.endpoint())
	}
}

// ends notes a settlement of its routing.
func (e *conversion) ends(w *deliveryWorld, s *tidemill.Settlement, replay bool) {
	if s.End != tidemill.Done {
		return
	}
	switch {
	case s.Fate == tidemill.Delivered && len(e.legs) == 0, s.Fate == tidemill.Skipped && (len(e.legs) > 0 || s.Cause != e.why), s.Fate == tidemill.Dead && !e.bad:
		w.fault("event %d (%s of %s) ended %v at its routing: %s; it is for %d partners", e.n, e.typ, e.site, s.Fate, s.Cause, len(e.legs))
	case s.Fate == tidemill.Dead && !replay && !e.ever:
		w.fault("event %d ended dead without a letter", e.n)
	}
	if s.Fate == tidemill.Delivered {
		for _, f := range w.fars {
			if l := e.legs[f.name]; l != nil && l.place == 0 && !l.parked {
				w.fault("event %d was acknowledged before its job for %s was there", e.n, f.name)
			}
		}
	}
	if !replay {
		e.routed = s.Fate
	}
}
