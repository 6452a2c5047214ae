package sim

import (
	"bytes"
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// check checks how everything ended, and the product's own books.
func (w *deliveryWorld) check() {
	ctx := context.Background()
	letters := map[string]*deadletter.Letter{}
	for l, err := range w.letters.List(ctx, deadletter.Filter{}) {
		if err != nil {
			w.fault("the dead letters cannot be read: %v", err)
			return
		}
		letters[l.Pipeline+" "+l.Tenant+" "+l.ID] = l
	}
	sys, err := delivery.New(delivery.Parts{Queues: w.queues, DeadLetters: w.letters, Sent: w.sent, Partners: w.partners(), Env: partner.Env{Via: roads{w, outsider()}}}, w.options(0))
	if err != nil {
		w.fault("%v", err)
		return
	}
	held := len(letters)
	accepted, jobs := 0, map[string]int{}
	for _, e := range w.events {
		if e.job == "" {
			if w.owed(e) && !e.past {
				w.fault("event %d was never accepted, and its sender did not give up", e.n)
			}
			continue
		}
		accepted++
		w.checkEvent(sys, e, letters)
		for name, l := range e.legs {
			jobs[name] += l.place
		}
	}
	for name := range letters {
		w.fault("there is a letter of %s, which nobody sent", name)
	}
	w.checkBooks(sys, accepted, held, jobs)
	w.checkBreakers()
	if w.peace {
		w.checkPace()
	}
}

// owed reports whether some client got, or still wants, an answer about the event.
func (w *deliveryWorld) owed(e *conversion) bool {
	for _, r := range w.requests {
		for _, o := range r.events {
			if o == e && !r.left {
				return true
			}
		}
	}
	return false
}

func (w *deliveryWorld) checkEvent(sys *delivery.System, e *conversion, letters map[string]*deadletter.Letter) {
	if e.routed == tidemill.None {
		w.fault("event %d was accepted and its routing never ended", e.n)
	}
	at := func(pipeline, id string, g *grave) *deadletter.Letter {
		name := pipeline + " " + e.site + " " + id
		l := letters[name]
		delete(letters, name)
		if l != nil && len(l.History) != min(len(g.deaths), 20) {
			w.fault("the letter of %s died %d times, and its history has %d: %+v", name, len(g.deaths), len(l.History), l.History)
		}
		if l != nil && !bytes.Equal(l.Payload, e.payload) && (l.Edited.IsZero() || !bytes.Equal(l.Original, e.payload)) {
			w.fault("the letter of %s has the payload %s, and as it came %s", name, l.Payload, l.Original)
		}
		return l
	}
	if l := at(e.endpoint(), e.job, &e.grave); (l != nil) != e.bad || l != nil && l.Kind != tidemill.Validation {
		w.fault("event %d (bad: %v) has the letter %+v", e.n, e.bad, l)
	}
	st, err := sys.Event(context.Background(), e.site, e.job)
	if err != nil {
		w.fault("status of event %d: %v", e.n, err)
		return
	}
	states := map[string]string{}
	for _, p := range st.Partners {
		states[p.Partner] = p.State
	}
	for name, l := range e.legs {
		dead := at("s2s."+name, e.job+"/"+name, &l.grave)
		want := delivery.StateDelivered
		switch {
		case l.place != 1 || l.end == tidemill.None:
			w.fault("%v came %d times into its queue and ended %v", l, l.place, l.end)
		case l.refused && (dead == nil || dead.Kind != tidemill.Validation) && l.took == 0:
			w.fault("%v was refused for good and has the letter %+v", l, dead)
		case !l.refused && dead != nil:
			w.fault("%v is dead in the end (%v: %s), although it was replayed when all was well", l, dead.Kind, dead.Cause)
		case !l.refused && l.took == 0:
			w.fault("%v was never taken", l)
		}
		if l.took > 0 && l.f.guards(e) && !l.lost {
			entry := &ledger.Entry{Key: name + "/" + e.site + "/" + e.job}
			if err := w.sent.Find(context.Background(), []*ledger.Entry{entry}); err != nil || entry.State != ledger.Done {
				w.fault("%v was taken, and the ledger says %v (%v)", l, entry.State, err)
			}
		}
		switch {
		case dead != nil && dead.Kind == tidemill.Unknown:
			want = delivery.StateHeld
		case dead != nil:
			want = delivery.StateDead
		case l.end == tidemill.Dead && l.took == 0:
			want = delivery.StateSettled
		case l.end == tidemill.Skipped:
			want = delivery.StateSkipped
		}
		if states[name] != want {
			w.fault("status of %v is %s, want %s", l, states[name], want)
		}
	}
}

// checkBooks compares the product's own proof with the checker's.
func (w *deliveryWorld) checkBooks(sys *delivery.System, accepted, held int, jobs map[string]int) {
	a, err := sys.Audit(context.Background())
	if err != nil || !a.Balanced {
		w.fault("audit: %v, %+v", err, a)
		return
	}
	came, letters := 0, 0
	for _, q := range a.Queues {
		letters += int(q.Letters.Held)
		if q.InFlight != 0 {
			w.fault("queue %s has %d jobs in flight", q.Queue, q.InFlight)
		}
		if name, found := bytes.CutPrefix([]byte(q.Queue), []byte("s2s.")); found {
			if int(q.Accepted) != jobs[string(name)] {
				w.fault("queue %s took in %d jobs, want %d", q.Queue, q.Accepted, jobs[string(name)])
			}
			continue
		}
		if parkedFor(q.Queue) == "" {
			came += int(q.Accepted)
		}
	}
	all := 0
	for _, n := range jobs {
		all += n
	}
	if int(a.Emitted) != all {
		w.fault("the books say that %d jobs were made for partners, there were %d", a.Emitted, all)
	}
	if came != accepted+w.before || letters != held {
		w.fault("the books say %d events and %d letters, there are %d and %d", came, letters, accepted, held)
	}
}

// checkBreakers checks how often partners were asked while they were down: by each process
// until its circuit opened, which takes five failures in a row and at most as many requests in
// flight as it has workers, and once for each time that it was open. A process has one circuit
// for new jobs and one for replays.
func (w *deliveryWorld) checkBreakers() {
	for _, f := range w.fars {
		until := 2 * (5 + most)
		allowed := until*(1+f.closes) + 2*(int(f.to.Sub(f.from)/(30*time.Second))+2)
		for p, n := range f.asked {
			if n > allowed {
				w.fault("%s was down for %v, and process %d asked it %d times; %d are allowed", f.name, f.to.Sub(f.from), p.n, n, allowed)
			}
		}
	}
}

// fair is how long an event may take to a healthy partner, whatever happens at another and
// however much other sites send: its own requests, the events ahead of it in workers' hands,
// and its turns.
const fair = 3 * time.Second

// checkPace checks how long things took when the only fault was at one partner.
func (w *deliveryWorld) checkPace() {
	for _, e := range w.events {
		for _, l := range e.legs {
			if l.f.to.IsZero() && l.took != 1 {
				w.fault("%v was taken %d times, and nothing went wrong", l, l.took)
			}
			atMost := fair
			if e.site == big {
				atMost = 5 * fair // it waits for itself
			}
			if took := l.first.Sub(e.queued); l.f.to.IsZero() && took > atMost {
				w.fault("%v took %v, at most %v is fair", l, took, atMost)
			}
		}
	}
}
