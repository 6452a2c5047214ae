package sim

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm"
)

// came notes a job that the queue has accepted.
func (w *crmWorld) came(m *tidemill.Message) {
	e := w.known(m.Payload)
	if e == nil || m.Tenant != e.tenant || crm.EventOf(m) != e.id || m.To != crm.Queue {
		w.fault("the queue took in what nobody sent: %s of %s: %s", m.ID, m.Tenant, m.Payload)
		return
	}
	if e.came[m.ID]++; e.came[m.ID] > 1 {
		w.fault("%v came into the queue twice as %s", e, m.ID)
	}
	if e.queued.IsZero() {
		e.queued = time.Now()
	}
	if strings.HasPrefix(m.ID, "replay-") {
		w.count[Requested]++
		if e.came["for "+crm.RequestOf(m)]++; e.came["for "+crm.RequestOf(m)] > 1 {
			w.fault("%v came into the queue twice for replay %s", e, crm.RequestOf(m))
		}
	}
}

// handed checks a job that is handed out.
func (w *crmWorld) handed(e *happening, m *tidemill.Message) {
	if crm.EventOf(m) != e.id {
		w.fault("%v is handed out as %s", e, crm.EventOf(m))
	}
	if n := e.failed(); m.Tries > n {
		w.fault("%v is said to have failed %d times; it failed %d times", e, m.Tries, n)
	}
}

// ends checks the settlement of a job that was applied.
func (w *crmWorld) ends(h *handout, s *tidemill.Settlement) {
	e := h.e
	if s.End != tidemill.Done {
		return
	}
	good, any := false, false
	for _, d := range e.calls {
		good, any = good || d.took && d.request == h.request, any || d.took
	}
	_, stopped := w.stopped[h.request]
	switch {
	case s.Fate == tidemill.Delivered && !good:
		w.fault("%v ended delivered as %s, and no handler took it", e, h.job)
	case s.Fate == tidemill.Dead && !e.lettered:
		w.fault("%v ended dead as %s, and there was no letter: %s", e, h.job, s.Cause)
	case s.Fate != tidemill.Skipped:
	case strings.HasPrefix(s.Cause, "duplicate") && any && h.request == "":
	case strings.HasPrefix(s.Cause, "duplicate") && any:
		e.deaths[h.request] = true
		w.fault("%v is skipped as %s: another job of the event was in the same batch", e, h.job)
	case strings.HasPrefix(s.Cause, crm.NoHandler) && e.typ == strange:
	case strings.HasPrefix(s.Cause, crm.ReplayStopped) && stopped:
	case e.fails == tidemill.Validation && s.Kind == tidemill.Validation:
	default:
		w.fault("%v was skipped as %s: %v %s", e, h.job, s.Kind, s.Cause)
	}
}

// lettered checks a dead letter on its way into the store.
func (w *crmWorld) lettered(x *tidemill.DeadLetter) {
	e := w.known(x.Message.Payload)
	if e == nil || x.Message.ID != e.id || x.Message.Tenant != e.tenant || x.Pipeline != crm.Queue {
		w.fault("a letter of what nobody sent: %s of %s: %s", x.Message.ID, x.Message.Tenant, x.Message.Payload)
		return
	}
	e.lettered, e.deaths[crm.RequestOf(x.Message)] = true, true
	switch {
	case x.Kind == tidemill.Business && e.fails == tidemill.Business:
	case x.Kind == tidemill.Business || x.Kind == tidemill.Validation || x.Kind == tidemill.Unknown || x.Kind == tidemill.Partner:
		w.fault("%v is dead: %v %s", e, x.Kind, x.Cause)
	case x.Tries != crmTries || e.failed() < crmTries:
		w.fault("%v is dead after %d tries and %d that came to nothing; want %d: %s", e, x.Tries, e.failed(), crmTries, x.Cause)
	}
}

// crmTries are all tries of an event.
const crmTries = 3

// begins notes which process has which event, and for how long.
func (w *crmWorld) begins(es []*ledger.Entry, until time.Time) {
	w.book.Lock()
	defer w.book.Unlock()
	for _, e := range es {
		if e.State != ledger.Fresh {
			continue
		}
		w.until[e.Token], w.newest[e.Key] = until, e.Token
	}
}

// logged checks ends that the sync log was given.
func (w *crmWorld) logged(es []*ledger.Entry, err error) {
	if err != nil {
		return
	}
	w.book.Lock()
	defer w.book.Unlock()
	for _, x := range es {
		if x.Stale {
			continue
		}
		e := w.byKey[x.Key]
		took, good := false, false
		for _, d := range e.calls {
			took = took || d.took || e.typ == together // its effect comes with this
			if d.token == x.Token {
				good = good || d.good
				d.written = d.written || x.State == ledger.Done
			}
		}
		switch {
		case x.State == ledger.Done && !took:
			w.fault("%v is said to be completed, and no handler took it", e)
		case x.State == ledger.Failed && good:
			w.fault("%v is said to have failed (%s), and its handler took it", e, x.Err)
		case x.State == ledger.Failed && !strings.Contains(x.Err, ": "):
			w.fault("%v is said to have failed for no reason: %q", e, x.Err)
		}
	}
}

// unlogged counts the events whose end a process could not write.
func (w *crmWorld) unlogged(p *process, es []ledger.Entry) {
	w.book.Lock()
	defer w.book.Unlock()
	for _, x := range es {
		for _, d := range w.byKey[x.Key].calls {
			if d.token == x.Token && d.p == p && d.good && x.State == ledger.Done {
				w.count[Unanswered]++
			}
		}
	}
}

// check checks how everything ended, and the product's own books.
func (w *crmWorld) check() {
	ctx := context.Background()
	log := gatedLog{w, w.log, "log", outsider()}
	sys, err := crm.New(crm.Parts{Queues: w.queues, DeadLetters: w.letters, Log: w.log, Replays: w.asked, Profiles: w.profiles, Handlers: w.handlers(outsider(), log)}, w.options(0))
	if err != nil {
		w.fault("%v", err)
		return
	}
	w.book.Lock()
	defer w.book.Unlock()
	jobs := 0
	records := map[*happening]*crm.Record{}
	for _, e := range w.events {
		for job, n := range e.came {
			if !strings.HasPrefix(job, "for ") {
				jobs += n
			}
		}
		st, err := sys.Event(ctx, e.tenant, e.id)
		if err != nil || st.Record == nil {
			w.fault("%v: nothing is known of it: %v", e, err)
			continue
		}
		records[e] = st.Record
		w.checkEvent(e, st)
	}
	w.checkReplays(sys, records)
	held := 0
	for l, err := range w.letters.List(ctx, deadletter.Filter{}) {
		if err != nil || w.known(l.Payload) == nil {
			w.fault("a letter cannot be read, or nobody sent it: %v %+v", err, l)
		}
		held++
	}
	a, err := sys.Audit(ctx)
	if err != nil || !a.Balanced || a.InFlight != 0 || int(a.Accepted) != jobs || int(a.Letters.Held) != held {
		w.fault("the books say %+v (%v); %d jobs came and %d letters are held", a, err, jobs, held)
	}
	if w.peace {
		w.checkPeace()
	}
}

func (w *crmWorld) checkEvent(e *happening, st *crm.EventStatus) {
	r := st.Record
	if r.Tenant != e.tenant || r.ID != e.id || r.Type != e.typ || !bytes.Equal(r.Payload, e.raw) {
		w.fault("%v is in the sync log as %s of %s", e, r.ID, r.Payload)
	}
	state, kind, dead := crm.IsCompleted, "", false
	switch {
	case e.typ == strange:
		state, kind = crm.IsFailed, "skipped"
	case e.fails == tidemill.Business:
		state, kind, dead = crm.IsFailed, "business", true
	case e.fails == tidemill.Validation:
		state, kind = crm.IsFailed, "validation"
	}
	if r.State != state || r.Kind != kind || (st.Dead != nil) != dead {
		w.fault("%v is %s (%s: %s) in the sync log, and has a letter: %v; want %s, %q and a letter: %v", e, r.State, r.Kind, r.Error, st.Dead != nil, state, kind, dead)
	}
	if dead && st.Dead != nil && (st.Dead.Kind != tidemill.Business || !bytes.Equal(st.Dead.Payload, e.raw)) {
		w.fault("%v has a letter that says %v %s", e, st.Dead.Kind, st.Dead.Cause)
	}
	took := 0
	for _, d := range e.calls {
		if d.took {
			took++
		}
	}
	if n := len(e.commits); state == crm.IsCompleted && (took == 0 || e.typ == together && n == 0) || state != crm.IsCompleted && took+n > 0 {
		w.fault("%v is %s; handlers took it %d times, and %d transactions", e, state, took, n)
	}
}

// checkReplays checks whether the events of each request were handled once more.
func (w *crmWorld) checkReplays(sys *crm.System, records map[*happening]*crm.Record) {
	for _, q := range w.requests {
		r, err := sys.ReplayOf(context.Background(), q.ID)
		_, stopped := w.stopped[q.ID]
		if err != nil || r.State != crm.ReplayDone && !(stopped && r.State == crm.ReplayEnded) {
			w.fault("replay %s (stopped: %v) ended as %+v: %v", q.ID, stopped, r, err)
			continue
		}
		queued := 0
		for _, e := range w.events {
			rec := records[e]
			if rec == nil {
				continue
			}
			n := e.came["for "+q.ID]
			queued += n
			in := !rec.Created.Before(r.From) && !rec.Created.After(r.To) && (r.Tenant == "" || r.Tenant == e.tenant) && (r.Type == "" || r.Type == e.typ)
			took := 0
			for _, d := range e.calls {
				if d.took && d.request == q.ID {
					took++
				}
			}
			switch {
			case n > 0 && !in:
				w.fault("%v (%v) is not of replay %+v, and was replayed", e, rec.Created, r)
			case in && n == 0 && r.State == crm.ReplayDone && rec.Created.Before(r.To): // an event in its last millisecond may have come after it
				w.fault("%v (%v) is of replay %+v, and was not replayed", e, rec.Created, r)
			case n == 0 && took > 0:
				w.fault("%v was handled for replay %s, and was no job of it", e, q.ID)
			case n == 1 && took == 0 && !stopped && rec.State == crm.IsCompleted && !e.deaths[q.ID]:
				w.fault("%v is of replay %s, and was not handled for it", e, q.ID)
			}
		}
		if r.Queued < queued && !stopped { // else its progress may not have been written
			w.fault("replay %s says that it queued %d jobs, they are %d", q.ID, r.Queued, queued)
		}
	}
}

// checkPeace checks how long things took when the only fault was a tenant that sent more than
// allowed.
func (w *crmWorld) checkPeace() {
	const fair = 2 * time.Second
	first := map[string]time.Time{}
	for _, e := range w.events {
		if e.typ == strange {
			continue
		}
		if live := w.of(e, ""); len(live) != 1 {
			w.fault("%v was handled %d times, and nothing went wrong", e, len(live))
		} else if took := live[0].began.Sub(e.queued); e.tenant != "big" && took > fair {
			w.fault("%v waited %v for another tenant", e, took)
		} else if e.tenant == "big" && (first["big"].IsZero() || live[0].began.Before(first["big"])) {
			first["big"] = live[0].began
		}
	}
	const burst = crmPerTenant / 5
	for _, e := range w.events {
		n, at := 0, time.Time{}
		if live := w.of(e, ""); e.tenant == "big" && len(live) == 1 {
			at = live[0].began
		}
		if at.IsZero() {
			continue
		}
		for _, o := range w.events {
			if live := w.of(o, ""); o.tenant == "big" && len(live) == 1 && !live[0].began.Before(at) && live[0].began.Before(at.Add(4*time.Second)) {
				n++
			}
		}
		if most := 4*crmPerTenant + burst + 1 + 2*w.options(0).Workers; n > most {
			w.fault("%d events of one tenant were handled within 4s, at most %d may", n, most)
			return
		}
	}
}

// of are the calls for an event, of a request.
func (w *crmWorld) of(e *happening, request string) (all []*deed) {
	for _, d := range e.calls {
		if d.request == request {
			all = append(all, d)
		}
	}
	return all
}
