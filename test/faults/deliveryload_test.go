//go:build servers

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Marks of events that partners know.
const (
	invalid = `"mark":"invalid"` // no partner accepts it
	broken  = `"mark":"broken"`  // it breaks a failing partner
)

// tracked is an event as a site sends it, with its answers.
type tracked struct {
	n        int
	site     string
	id       string // its own, or the one it was given
	body     string
	purchase bool
	invalid  bool
	private  bool // no partner may have it

	sent     time.Time // first
	accepted time.Time // zero: not yet
	unknown  int       // lost answers
}

// drawTracked makes the n-th event of a site. Every third has no id.
func drawTracked(run, site string, n int) *tracked {
	e := &tracked{n: n, site: site, purchase: n%4 == 1}
	var b strings.Builder
	at := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
	fmt.Fprintf(&b, `{ "timestamp":%q, "siteId":%q`, at.Format(time.RFC3339Nano), site)
	if n%3 != 0 {
		e.id = uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%d", run, site, n)).String()
		fmt.Fprintf(&b, `, "eventId":%q`, e.id)
	}
	if e.purchase {
		fmt.Fprintf(&b, `, "eventType":"purchase","orderId":"%s-%s-%d","value":%d.50,"currency":"EUR","items":[{"id":"a","quantity":1,"price":1.0}]`, run, site, n, n%1000)
	} else {
		fmt.Fprintf(&b, `,"eventType":"page_view","context":{"page":{"url":"https://%s.example/%d"}}`, site, n)
	}
	mark := `"mark":"plain"`
	switch {
	case n%97 == 5:
		e.invalid, mark = true, invalid
	case n%89 == 7:
		mark = broken
	case n%50 == 3:
		e.private = true
		b.WriteString(`,"consent":{"customConsent":{"advertising":false}}`)
	}
	fmt.Fprintf(&b, `,"properties":{"n":%d,"big":12345678901234567890,%s,"text":"é\u00e9\/"}}`, n, mark)
	e.body = b.String()
	return e
}

// deliveryLoad sends events to one instance after the other, each until it is accepted,
// and keeps a journal.
type deliveryLoad struct {
	t         *testing.T
	run       string
	site      string
	endpoints []string
	http      *http.Client
	quit      chan struct{}
	ended     sync.WaitGroup
	over      sync.Once
	began     time.Time

	confirmed atomic.Int64
	refused   atomic.Int64 // answers 503

	mu     sync.Mutex // guards what follows
	events []*tracked
}

type deliveryLoadOptions struct {
	Site    string // "": shop
	Events  int    // so many, then it ends; 0: until it is stopped
	Rate    int    // a second; 0: as fast as they are accepted
	Clients int    // 0: 8
	Batch   int    // events in a request; 0: 1, without an array
}

// startDeliveryLoad begins to send to all instances.
func (w *deliveryWorld) startDeliveryLoad(o deliveryLoadOptions) *deliveryLoad {
	w.Helper()
	if o.Site == "" {
		o.Site = "shop"
	}
	if o.Clients == 0 {
		o.Clients = 8
	}
	l := &deliveryLoad{t: w.T, run: uuid.NewString(), site: o.Site, quit: make(chan struct{}), began: time.Now(), http: endpointClient(o.Clients)}
	for _, in := range w.instances {
		l.endpoints = append(l.endpoints, in.Addr)
	}
	w.sent = append(w.sent, l)
	due := make(chan []*tracked)
	l.ended.Go(func() { l.draw(o, due) })
	for range o.Clients {
		l.ended.Go(func() {
			for batch := range due {
				l.send(batch, o.Batch > 0)
			}
		})
	}
	w.Cleanup(l.stop)
	return l
}

// doorClient is a client of the ingest API.
func endpointClient(connections int) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: connections}}
}

// draw draws events at a rate.
func (l *deliveryLoad) draw(o deliveryLoadOptions, due chan<- []*tracked) {
	defer close(due)
	size := max(o.Batch, 1)
	for n := 0; o.Events == 0 || n < o.Events; {
		if o.Rate > 0 {
			select {
			case <-time.After(time.Until(l.began.Add(time.Duration(n) * time.Second / time.Duration(o.Rate)))):
			case <-l.quit:
				return
			}
		}
		var batch []*tracked
		for len(batch) < size && (o.Events == 0 || n < o.Events) {
			batch = append(batch, drawTracked(l.run, l.site, n))
			n++
		}
		l.mu.Lock()
		l.events = append(l.events, batch...)
		l.mu.Unlock()
		select {
		case due <- batch:
		case <-l.quit:
			l.mu.Lock()
			l.events = l.events[:len(l.events)-len(batch)]
			l.mu.Unlock()
			return
		}
	}
}

// send sends a request until it is accepted.
func (l *deliveryLoad) send(batch []*tracked, array bool) {
	body := batch[0].body
	if array {
		var all []string
		for _, e := range batch {
			all = append(all, e.body)
		}
		body = "[" + strings.Join(all, ",\n") + "]"
	}
	key := fmt.Sprintf("%s-%d", l.run, batch[0].n)
	sent := time.Now()
	for try := 0; ; try++ {
		a, err := post(l.t.Context(), l.http, l.endpoints[(batch[0].n+try)%len(l.endpoints)], l.site, key, body)
		if l.t.Context().Err() != nil {
			return
		}
		if err == nil && a.status == http.StatusAccepted {
			l.took(batch, a, sent, array)
			return
		}
		wait := 50 * time.Millisecond
		switch {
		case err != nil:
			l.mu.Lock()
			for _, e := range batch {
				e.unknown++
			}
			l.mu.Unlock()
		case a.status == http.StatusServiceUnavailable:
			l.refused.Add(1)
			if a.after == "" {
				l.t.Errorf("a 503 without Retry-After: %s", a.body)
			}
		case a.status == http.StatusConflict:
			if a.after == "" {
				l.t.Errorf("a 409 without Retry-After: %s", a.body)
			}
			wait = 200 * time.Millisecond
		default:
			l.t.Errorf("a request was answered %d: %.500s", a.status, a.body)
			return
		}
		select {
		case <-time.After(wait): // a client waits before it tries again
		case <-l.t.Context().Done():
			return
		}
	}
}

// took records the accepted events.
func (l *deliveryLoad) took(batch []*tracked, a answer, sent time.Time, array bool) {
	results, err := a.results(array)
	if err != nil || len(results) != len(batch) {
		l.t.Errorf("%d events were answered %v %.500s", len(batch), err, a.body)
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range batch {
		r := results[i]
		if r.Status != "accepted" || r.ID == "" || e.id != "" && r.ID != e.id {
			l.t.Errorf("event %d (%s) was answered %+v after %d lost answers", e.n, e.id, r, e.unknown)
			continue
		}
		e.id, e.sent, e.accepted = r.ID, sent, now
		l.confirmed.Add(1)
	}
}

// stop ends the load, once every drawn event is accepted.
func (l *deliveryLoad) stop() {
	l.over.Do(func() { close(l.quit) })
	l.wait()
}

// wait waits until every event of the load is accepted.
func (l *deliveryLoad) wait() {
	done := make(chan struct{})
	go func() { l.ended.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Hour):
		l.t.Error("clients do not get their confirmations")
	}
}

// journal is what was sent so far.
func (l *deliveryLoad) journal() []*tracked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// answer is an answer of the ingest API.
type answer struct {
	status int
	after  string // Retry-After
	body   string
}

// result is its part about one event.
type result struct {
	ID     string `json:"eventId"`
	Status string `json:"status"`
}

func (a answer) results(array bool) (all []result, err error) {
	if !array {
		all = make([]result, 1)
		return all, json.Unmarshal([]byte(a.body), &all[0])
	}
	var whole struct{ Results []result }
	err = json.Unmarshal([]byte(a.body), &whole)
	return whole.Results, err
}

// post sends one request to the ingest API. An error is a lost answer, or none.
func post(ctx context.Context, c *http.Client, addr, site, key, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/events", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Idempotency-Key", key)
	return exchange(c, r, site)
}

// ask asks the ingest API where an event is.
func ask(ctx context.Context, addr, site, id string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/v1/events/"+id, nil)
	if err != nil {
		return answer{}, err
	}
	return exchange(http.DefaultClient, r, site)
}

func exchange(c *http.Client, r *http.Request, site string) (a answer, err error) {
	r.Header.Set("X-API-Key", keyOf(site))
	resp, err := c.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, fmt.Errorf("the answer was cut off: %w", err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Retry-After"), string(b)}, nil
}
