//go:build servers

package faults

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/systems/delivery"
)

// deliveryAllowance is what a row's fault may do.
type deliveryAllowance struct {
	Repeats int      // repeated requests after good answers, at each partner; for one event at most Times
	Times   int      // faults that may each cause one more
	Letters []string // kinds of dead letters that partners' answers do not explain
}

// crashes is what killed instances and cut links may do: each instance had so many messages
// handed out of each partner's queue that may have been answered without being recorded.
func (w *deliveryWorld) crashes() deliveryAllowance {
	most, _ := w.settings["max_workers"].(int)
	n := w.hits["kill"] + w.hits["away"]
	return deliveryAllowance{Repeats: n * 2 * most, Times: n}
}

// finish stops the load, waits until nothing is in flight, and checks. Then it makes the
// partners healthy, replays all dead letters, and checks again.
func (w *deliveryWorld) finish(within time.Duration, allow deliveryAllowance) {
	w.Helper()
	for _, l := range w.sent {
		l.stop()
		w.Logf("%s: %d events accepted in %v, %d answers 503", l.site, l.confirmed.Load(), time.Since(l.began).Round(time.Millisecond), l.refused.Load())
	}
	a := w.quiet(within)
	letters := w.letters()
	w.complain(append(w.judge(a, letters, allow), w.judgeStatus(letters)...))
	for _, p := range w.partners {
		w.Logf("%-8s %d taken, %d dead, answers %v", p.name, p.taken(), len(letters["s2s."+p.name]), p.answered())
	}
	if w.Failed() {
		return
	}
	w.again(letters, within)
}

// complain tells the history of the first event, too.
func (w *deliveryWorld) complain(faults []string) {
	w.Helper()
	if len(faults) > 0 {
		if id := eventID.FindString(faults[0]); id != "" {
			w.tell(id)
		}
	}
	w.world.complain(faults)
}

var eventID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// tell prints all that partners and the product know of an event.
func (w *deliveryWorld) tell(id string) {
	w.Helper()
	for _, p := range w.partners {
		p.mu.Lock()
		if k := p.seen[id]; k != nil {
			w.Logf("%s of %s: %q", id, p.name, k.life)
		}
		p.mu.Unlock()
		job := id + "/" + p.name
		for _, command := range [][]string{{"queue", "show", "s2s." + p.name, job, "--json"}, {"dead", "show", job, "--json"}} {
			if out, err := w.running().Try(command...); err == nil {
				w.Logf("%s", out)
			}
		}
	}
}

// again replays all dead letters to partners that are healthy now: all valid events arrive.
func (w *deliveryWorld) again(before map[string]map[string]deadLetter, within time.Duration) {
	w.Helper()
	total := 0
	for _, of := range before {
		total += len(of)
	}
	if total == 0 {
		return
	}
	for _, p := range w.partners {
		p.does(well)
	}
	if n := w.replay(); n != total {
		w.Errorf("%d letters were replayed, there are %d", n, total)
	}
	a := w.quiet(within)
	if !a.Balanced {
		w.Errorf("after the replay the books do not balance: %q", a.Faults)
	}
	for pipeline, of := range w.letters() {
		for id, l := range of {
			if l.Kind != "validation" || l.Replays != 1 {
				w.Errorf("after the replay event %s is still dead in %s: %+v", id, pipeline, l)
			}
			delete(before[pipeline], id)
		}
	}
	for _, p := range w.partners {
		for id := range before["s2s."+p.name] {
			if p.when(id).IsZero() {
				w.Errorf("the letter of event %s for %s is gone, and it did not come", id, p.name)
			}
		}
		q := queueOf(a, "s2s."+p.name)
		if n := uint64(len(before["s2s."+p.name])); q.Letters.Replayed != n || q.Letters.Discarded != 0 {
			w.Errorf("queue of %s: %d letters arrived, the books say %+v", p.name, n, q.Letters)
		}
	}
	w.Logf("%d letters replayed", total)
}

// journal is what all sites sent.
func (w *deliveryWorld) journal() (all []*tracked) {
	for _, l := range w.sent {
		all = append(all, l.journal()...)
	}
	return all
}

// judge compares what partners have with what was sent. It knows how each event has to end, and
// nothing of the way.
func (w *deliveryWorld) judge(a delivery.Audit, letters map[string]map[string]deadLetter, allow deliveryAllowance) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	sent := map[string]*tracked{}
	deliverable := 0
	for _, e := range w.journal() {
		if e.accepted.IsZero() {
			fault("event %d has no confirmation", e.n)
			continue
		}
		if other := sent[e.id]; other != nil {
			fault("events %d and %d have one id %s", other.n, e.n, e.id)
		}
		sent[e.id] = e
		if !e.private {
			deliverable++
		}
	}
	for pipeline, of := range letters {
		if !slices.ContainsFunc(w.partners, func(p *farPartner) bool { return pipeline == "s2s."+p.name }) {
			fault("%d letters of %s", len(of), pipeline)
		}
	}
	for _, p := range w.partners {
		p.judge(sent, letters["s2s."+p.name], allow, fault)
	}
	w.judgeBooks(a, len(sent), deliverable, letters, fault)
	return faults
}

// judge compares what one partner has with what was sent.
func (p *farPartner) judge(sent map[string]*tracked, letters map[string]deadLetter, allow deliveryAllowance, fault func(string, ...any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.seen {
		if e := sent[id]; e == nil || e.private {
			fault("%s got event %q, which it was not to have: %d times", p.name, id, k.came)
		}
	}
	for id := range letters {
		if e := sent[id]; e == nil || e.private {
			fault("%s has a letter of event %q, which nobody sent to it", p.name, id)
		}
	}
	repeats := 0
	for id, e := range sent {
		if e.private {
			continue
		}
		k, l := p.seen[id], letters[id]
		dead := l.ID != ""
		if k == nil {
			k = &receipt{body: sha256.Sum256([]byte(e.body))}
		}
		if k.yes == 0 && !dead {
			fault("event %s was confirmed, %s did not take it (%d requests), and there is no letter: lost", id, p.name, k.came)
		}
		if k.body != sha256.Sum256([]byte(e.body)) || k.odd != "" {
			fault("event %s came to %s with other bytes than were sent: %.200q", id, p.name, k.odd)
		}
		if more := k.yes - 1; more > 0 {
			if repeats += more; more > allow.Times {
				fault("event %s was taken by %s %d times, with %d faults that may repeat it", id, p.name, k.yes, allow.Times)
			}
		}
		if e.purchase && !p.dedups && k.did > 1 {
			fault("purchase %s was done %d times at %s, which does not de-duplicate", id, k.did, p.name)
		}
		// An answer that says so may have been cut off: judgeLetter checks whether that is
		// possible.
		if e.invalid != (dead && (l.Kind == "validation" || e.invalid && l.Kind == "unknown")) || e.invalid && k.yes+k.did > 0 {
			fault("event %s, invalid %v, has at %s the letter %+v, and was taken %d times", id, e.invalid, p.name, l, k.yes)
		}
		if dead {
			p.judgeLetter(e, k, l, allow, fault)
		}
	}
	if repeats > allow.Repeats {
		fault("%s took events again %d times, at most %d are explained by faults", p.name, repeats, allow.Repeats)
	}
}

// reasons are the names of kinds of failure in dead letters.
var reasons = map[string]string{"validation": "validation", "timeout": "timeout", "rate_limit": "rate_limit", "partner_error": "partner_error",
	"unknown": "unknown", "transient": "partner_error", "internal": "partner_error"}

// judgeLetter checks whether the partner's answers explain a dead letter.
func (p *farPartner) judgeLetter(e *tracked, k *receipt, l deadLetter, allow deliveryAllowance, fault func(string, ...any)) {
	if l.Payload != e.body || l.Site != e.site || l.Partner != p.name || l.Cause == "" || l.State != "held" {
		fault("the letter of event %s for %s is %+v, want the bytes %.200q", e.id, p.name, l, e.body)
	}
	if l.Reason != reasons[l.Kind] {
		fault("the letter of event %s for %s has the reason %q for the kind %s", e.id, p.name, l.Reason, l.Kind)
	}
	switch {
	case slices.Contains(allow.Letters, l.Kind):
	case l.Kind == "validation": // was checked
	case l.Kind == "unknown":
		if p.dedups || !e.purchase || k.did == 0 && allow.Times == 0 {
			fault("event %s (purchase: %v) is held although %s de-duplicates (%v) or did nothing (%d): %s", e.id, e.purchase, p.name, p.dedups, k.did, l.Cause)
		}
	case l.Kind == "partner_error" || l.Kind == "timeout" || l.Kind == "rate_limit":
		if tries := k.came - k.yes; tries <= p.retries {
			fault("event %s is dead for %s after %d tries, %d are due: %s: %s", e.id, p.name, tries, p.retries+1, l.Kind, l.Cause)
		}
	default:
		fault("event %s is dead for %s: %s: %s", e.id, p.name, l.Kind, l.Cause)
	}
}

// judgeBooks compares the product's own numbers with the checker's.
func (w *deliveryWorld) judgeBooks(a delivery.Audit, sent, deliverable int, letters map[string]map[string]deadLetter, fault func(string, ...any)) {
	if !a.Balanced || len(a.Faults) > 0 {
		fault("the books do not balance: %q", a.Faults)
	}
	var endpoints delivery.QueueAudit
	for _, q := range a.Queues {
		if q.Accepted != q.Delivered+q.Skipped+q.Dead || q.InFlight+q.Lost > 0 {
			fault("the books of %s: %+v", q.Queue, q)
		}
		if strings.HasPrefix(q.Queue, "ingest.") {
			endpoints.Accepted += q.Accepted
			endpoints.Delivered += q.Delivered
			endpoints.Skipped += q.Skipped
		}
	}
	if endpoints.Accepted != uint64(sent) || endpoints.Delivered != uint64(deliverable) || endpoints.Skipped != uint64(sent-deliverable) {
		fault("%d events were confirmed, %d of them for partners; the books say %+v", sent, deliverable, endpoints)
	}
	for _, p := range w.partners {
		q, dead := queueOf(a, "s2s."+p.name), uint64(len(letters["s2s."+p.name]))
		if q.Accepted != uint64(deliverable) || q.Delivered != uint64(deliverable)-dead || q.Dead != dead || q.Letters.Held != dead || q.Letters.Put != dead {
			fault("%s was to have %d events, %d are dead; the books say %+v", p.name, deliverable, dead, q)
		}
	}
}

// judgeStatus asks the API where some events are, the last that were sent.
func (w *deliveryWorld) judgeStatus(letters map[string]map[string]deadLetter) (faults []string) {
	journal := w.journal()
	for _, e := range journal[max(0, len(journal)-50):] {
		want := map[string]string{}
		if !e.private {
			for _, p := range w.partners {
				want[p.name] = "delivered"
				if l := letters["s2s."+p.name][e.id]; l.Kind == "unknown" {
					want[p.name] = "held"
				} else if l.ID != "" {
					want[p.name] = "dead"
				}
			}
		}
		var said struct {
			ID       string `json:"eventId"`
			Site     string `json:"siteId"`
			Status   string
			Reason   string
			Partners []struct{ Name, Status string }
		}
		a, err := ask(w.Context(), w.running().Addr, e.site, e.id)
		if err == nil {
			err = json.Unmarshal([]byte(a.body), &said)
		}
		got := map[string]string{}
		for _, p := range said.Partners {
			got[p.Name] = p.Status
		}
		right := said.Status == "done" && said.Reason == "" || e.private && said.Status == "skipped" && said.Reason == "consent"
		if err != nil || a.status != http.StatusOK || said.ID != e.id || said.Site != e.site || !right || !maps.Equal(got, want) {
			faults = append(faults, fmt.Sprintf("event %s, private %v, is said to be %v %.500s, want %v", e.id, e.private, err, a.body, want))
		}
	}
	return faults
}

// answered are the partner's answers by name.
func (p *farPartner) answered() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.said)
}
