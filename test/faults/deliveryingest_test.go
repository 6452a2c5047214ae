//go:build servers

package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestOneKeyMakesOneEvent sends every request fifty times at once.
func TestOneKeyMakesOneEvent(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.oneKey(1, false) })
}

// TestOneKeyMakesOneEventOfTwo sends them to two instances.
func TestOneKeyMakesOneEventOfTwo(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.oneKey(2, false) })
}

// TestOneKeyMakesOneEventWithKills kills the instance meanwhile; clients retry.
func TestOneKeyMakesOneEventWithKills(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.oneKey(1, true) })
}

// TestOneKeyMakesOneEventOfTwoWithKills kills one of two.
func TestOneKeyMakesOneEventOfTwoWithKills(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.oneKey(2, true) })
}

// oneKey sends requests of a few keys, each by many clients at once.
func (w *deliveryWorld) oneKey(instances int, kill bool) {
	const keys, clients, kills = 20, 50, 3 // of a run with kills up to twice the keys, until enough kills hit
	p := w.partner("well", well, map[string]any{"idempotent": true})
	ins := w.run(instances)
	endpoint := endpointClient(clients)
	var met, lost, struck atomic.Int64 // requests that met a running one of their key, those without an answer, and kills that left some
	asked := make([]chan struct{}, instances)
	for i := range asked {
		asked[i] = make(chan struct{}, 1)
	}
	var under sync.Map // key → running requests, *atomic.Int64
	insist := func(n int, key, body string) (a answer) {
		same, _ := under.LoadOrStore(key, new(atomic.Int64))
		for ; w.Context().Err() == nil; n++ {
			var err error
			if same.(*atomic.Int64).Add(1) > 1 {
				met.Add(1)
			}
			select {
			case asked[n%len(ins)] <- struct{}{}:
			default:
			}
			a, err = post(w.Context(), endpoint, ins[n%len(ins)].Addr, "shop", key, body)
			same.(*atomic.Int64).Add(-1)
			if err != nil {
				lost.Add(1)
			} else if a.status != http.StatusConflict && a.status != http.StatusServiceUnavailable {
				return a
			}
			w.pass(50 * time.Millisecond)
		}
		return a
	}
	stop := make(chan struct{})
	var killer, all sync.WaitGroup
	if kill {
		killer.Go(func() {
			for n := 0; ; n++ {
				i, before := n%len(ins), lost.Load()
				select {
				case <-asked[i]: // by a request before the last kill of it, perhaps
				default:
				}
				select {
				case <-stop:
					return
				case <-asked[i]:
				}
				ins[i].Kill()
				ins[i].Begin()
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(300+37*(n%10)) * time.Millisecond):
				}
				if lost.Load() > before {
					struck.Add(1)
				}
			}
		})
	}
	var first [][]answer
	body := func(key, version int) string {
		return strings.Replace(drawTracked("one", "shop", 208+key).body, `"plain"`, fmt.Sprintf(`"plain %d %d"`, key, version), 1)
	}
	for key := 0; key < keys || kill && key < 2*keys && struck.Load() < kills; key++ {
		got := make([]answer, clients)
		first = append(first, got)
		for c := range clients {
			all.Go(func() { got[c] = insist(c, fmt.Sprint("key ", key), body(key, 0)) })
		}
		if kill {
			w.pass(w.between(0, 200*time.Millisecond))
		} else {
			all.Wait()
		}
	}
	if kill {
		w.pass(time.Second)
	}
	close(stop)
	killer.Wait()
	all.Wait()
	ids := map[string]bool{}
	for key, as := range first {
		r, err := as[0].results(false)
		if err != nil || as[0].status != http.StatusAccepted || r[0].Status != "accepted" {
			w.Fatalf("key %d was answered %+v, %v", key, as[0], err)
		}
		ids[r[0].ID] = true
		for _, a := range as {
			if a != as[0] {
				w.Errorf("key %d was answered %+v and %+v", key, as[0], a)
			}
		}
		if a := insist(key, fmt.Sprint("key ", key), body(key, 1)); a.status != http.StatusUnprocessableEntity {
			w.Errorf("key %d with another body was answered %+v, want 422", key, a)
		}
		if a := insist(key, fmt.Sprint("key ", key), body(key, 0)); a != as[0] {
			w.Errorf("key %d was answered %+v and later %+v", key, as[0], a)
		}
	}
	a := w.quiet(afterLease)
	if n := queueOf(a, "ingest.high").Accepted + queueOf(a, "ingest.standard").Accepted; n != uint64(len(first)) || len(ids) != len(first) || !a.Balanced {
		w.Errorf("%d keys made %d events with %d ids, balanced %v", len(first), n, len(ids), a.Faults)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.seen {
		if !ids[id] {
			w.Errorf("the partner got event %s, which nobody was told of", id)
		}
	}
	if len(p.seen) != len(first) {
		w.Errorf("the partner got %d events, want %d", len(p.seen), len(first))
	}
	w.struck("requests that met the same one under way", keys, int(met.Load()))
	if kill {
		w.struck("killed while requests were open", kills, int(struck.Load()))
	}
}

// TestAFullQueueIsSaid has a queue that accepts few events, and that nothing is taken from.
func TestAFullQueueIsSaid(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.full(1) })
}

// TestAFullQueueIsSaidByTwo does the same to two instances.
func TestAFullQueueIsSaidByTwo(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.full(2) })
}

// full fills the queues of the endpoint, which are paused: it answers 503 until they are
// resumed. Then it fills the queue of a partner that is down: no sender notices that.
// Acknowledged events arrive; those answered 503 are sent again.
func (w *deliveryWorld) full(instances int) {
	const most = 200
	w.settings["queue_max"] = most
	p := w.partner("well", well, map[string]any{"idempotent": true, "breaker": map[string]any{"open": "1s"}})
	in := w.run(instances)[0]
	queues := []string{"ingest.high", "ingest.standard"}
	for _, q := range queues {
		in.Ask("queue", "pause", q)
	}
	l := w.startDeliveryLoad(deliveryLoadOptions{Clients: 16})
	w.until(30*time.Second, "the ingest API answers 503", func() bool { return l.refused.Load() > 50 })
	a, err := w.audit()
	if err != nil {
		w.Fatal(err)
	}
	for _, q := range queues {
		if b := queueOf(a, q); b.InFlight > most {
			w.Errorf("%s holds %d, it may hold %d", q, b.InFlight, most)
		} else if b.InFlight == most {
			w.hit("full")
		}
	}
	for _, q := range queues {
		in.Ask("queue", "resume", q)
	}
	before := l.confirmed.Load()
	w.until(30*time.Second, "events are accepted again", func() bool { return l.confirmed.Load() > before+most })
	p.does(down)
	before = l.confirmed.Load()
	w.until(60*time.Second, "events are accepted while the partner's queue is full", func() bool { return l.confirmed.Load() > before+5*most })
	p.does(well)
	w.finish(afterLease, deliveryAllowance{})
	w.struck("a queue was full", 1, w.hits["full"])
}

// TestAFloodDelaysNobody has one site flood the queues while another sends ten events.
func TestAFloodDelaysNobody(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) { w.flood(1, nil) })
}

// TestAFloodOfALimitedSiteDelaysNobody has the flood limited by the site's own settings.
func TestAFloodOfALimitedSiteDelaysNobody(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onRedis, func(w *deliveryWorld) { w.flood(2, map[string]any{"per_second": 1000, "at_once": 16}) })
}

// atMost is how long an event may take to its partner, whatever others do. The machine is
// shared: it is some hundred times the undisturbed time.
const atMost = 2 * time.Second

func (w *deliveryWorld) flood(instances int, limits map[string]any) {
	w.site("flood", limits)
	p := w.partner("well", after(5*time.Millisecond, well), map[string]any{"idempotent": true})
	w.run(instances)
	flood := w.startDeliveryLoad(deliveryLoadOptions{Site: "flood", Events: *floodFlag, Batch: 90, Clients: 4})
	w.until(30*time.Second, "the flood waits", func() bool { return int(flood.confirmed.Load())-p.taken() > *floodFlag/4 })
	small := w.startDeliveryLoad(deliveryLoadOptions{Events: 10, Rate: 20, Clients: 1})
	small.wait()
	w.until(30*time.Second, "the small site's events arrive", func() bool { return len(late(small, p, 0)) == 0 })
	waits := int(flood.confirmed.Load()) - p.taken()
	if late := late(small, p, atMost); len(late) > 0 {
		w.Errorf("events of the small site that took longer than %v: %v", atMost, late)
	}
	flood.wait()
	w.finish(3*afterLease, deliveryAllowance{})
	w.struck("events of the flood that still waited", *floodFlag/20, waits)
}

// late are the times of a load's events to a partner that took longer than most; 0: that have
// not arrived yet.
func late(l *deliveryLoad, p *farPartner, most time.Duration) (all []time.Duration) {
	for _, e := range l.journal() {
		if e.invalid || e.private || e.accepted.IsZero() {
			continue
		}
		at := p.when(e.id)
		switch took := at.Sub(e.sent); {
		case at.IsZero():
			all = append(all, time.Since(e.sent))
		case most > 0 && took > most:
			all = append(all, took)
		}
	}
	slices.Sort(all)
	return all
}
