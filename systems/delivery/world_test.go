package delivery_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// partners are services that answer in memory, by host.
type partners struct {
	mu     sync.Mutex
	answer map[string]func(r *http.Request, body string) (int, string) // nil: 200
	got    map[string][]request

	slow       time.Duration // every answer takes so long
	busy, most int           // running requests, and their maximum
}

type request struct {
	at        time.Time
	key, body string
	status    int
}

// line is a connection without any knowledge.
type line struct{ net.Conn }

// RoundTrip answers a request as the partner of its host does; status 0 is a lost answer.
func (p *partners) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.busy++
	p.most = max(p.most, p.busy)
	slow := p.slow
	p.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: line{}}) // the request goes out
	}
	status, text := 200, "ok"
	if f := p.answer[r.URL.Host]; f != nil {
		status, text = f(r, string(body))
	}
	p.got[r.URL.Host] = append(p.got[r.URL.Host], request{time.Now(), keyOf(r.Header), string(body), status})
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	header := http.Header{}
	if status == http.StatusTooManyRequests {
		header.Set("Retry-After", text)
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// keyOf finds the key as the sink writes its name: net/http would by itself repeat a request
// with the canonical name.
func keyOf(h http.Header) string {
	for name, values := range h {
		if strings.EqualFold(name, "Idempotency-Key") {
			return strings.Join(values, ",")
		}
	}
	return ""
}

func (p *partners) requests(name string) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]request(nil), p.got[name+".test"]...)
}

// concurrency is the most requests at once since the last call.
func (p *partners) concurrency() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.most
	p.most = p.busy
	return n
}

func (p *partners) answers(name string, f func(*http.Request, string) (int, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer[name+".test"] = f
}

func status(code int, text string) func(*http.Request, string) (int, string) {
	return func(*http.Request, string) (int, string) { return code, text }
}

// world is a delivery system on stores in memory, in fake time.
type world struct {
	*testing.T
	*partners
	queues  queue.Store
	letters deadletter.Store
	sent    *tableledger.Ledger[*memorytable.Tx]
	sys     *delivery.System
	stop    func()
}

// to describes a partner of the world.
func to(name string, change ...func(*partner.Partner)) partner.Partner {
	p := partner.Partner{Name: name, Endpoint: "https://" + name + ".test/events"}
	for _, c := range change {
		c(&p)
	}
	return p
}

// maxLetters is how many dead letters a queue of the world may have.
const maxLetters = 1000

// in runs a test with a delivery system in a bubble.
func in(t *testing.T, o delivery.Options, ps []partner.Partner, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, partners: &partners{answer: map[string]func(*http.Request, string) (int, string){}, got: map[string][]request{}}}
		l, err := tabledeadletter.Memory(deadletter.Options{Max: maxLetters})
		if err != nil {
			t.Fatal(err)
		}
		w.queues, w.letters, w.sent = memoryqueue.New(memoryqueue.Options{}), l, tableledger.Memory(tableledger.Options{})
		w.start(o, ps)
		test(w)
		w.stop()
	})
}

// start begins a system on the world's stores.
func (w *world) start(o delivery.Options, ps []partner.Partner) {
	w.Helper()
	w.startOn(w.sent, o, ps)
}

// second begins another instance beside the first, which is stopped with it.
func (w *world) second(o delivery.Options, ps []partner.Partner) (first *delivery.System) {
	w.Helper()
	first, stop := w.sys, w.stop
	w.start(o, ps)
	own := w.stop
	w.stop = func() { own(); stop() }
	return first
}

// startOn is start with another ledger.
func (w *world) startOn(sent ledger.Store, o delivery.Options, ps []partner.Partner) {
	w.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	sys, err := delivery.New(delivery.Parts{Queues: w.queues, DeadLetters: w.letters, Sent: sent, Partners: ps, Env: partner.Env{Via: w.partners}}, o)
	if err != nil {
		w.Fatal(err)
	}
	w.sys = sys
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run: %v", err)
		}
	}
}

// add puts an event into a queue of the ingest API.
func (w *world) add(endpoint, site, id, typ, more string, header ...tidemill.Field) {
	w.Helper()
	m := &tidemill.Message{ID: id, To: endpoint, Tenant: site, Type: typ, Header: header,
		Payload: fmt.Appendf(nil, `{"eventType":%q,"timestamp":"2026-01-15T10:00:00Z","siteId":%q,"eventId":%q%s}`, typ, site, id, more)}
	if err := w.queues.Add(context.Background(), []*tidemill.Message{m}, nil); err != nil {
		w.Fatal(err)
	}
}

// event is the event's status.
func (w *world) event(site, id string) *delivery.EventStatus {
	w.Helper()
	e, err := w.sys.Event(context.Background(), site, id)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// of is what became of an event for a partner.
func (w *world) of(site, id, partner string) delivery.PartnerStatus {
	w.Helper()
	for _, p := range w.event(site, id).Partners {
		if p.Partner == partner {
			return p
		}
	}
	w.Fatalf("event %s has no job for %s: %+v", id, partner, w.event(site, id))
	return delivery.PartnerStatus{}
}

// balanced checks that nothing is missing.
func (w *world) balanced() {
	w.Helper()
	a, err := w.sys.Audit(context.Background())
	if err != nil || !a.Balanced {
		w.Errorf("audit: %v, %+v", err, a)
	}
}

// rest lets time pass, and then waits for everything to come to rest.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
