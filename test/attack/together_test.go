//go:build servers

package attack

import (
	"bytes"
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

	"github.com/tidemill/tidemill/internal/testenv"
)

// TestEverythingAtOnce does at the same time what other tests do one by one: 10,000 hostile
// connections of 20 addresses, large bodies that never end, and events of 398 years, while
// senders with keys send and probes are asked. It prints the figures of docs/security.md. It
// runs by itself, so that they are of this attack alone.
func TestEverythingAtOnce(t *testing.T) {
	const (
		connections, addresses = 10_000, 20
		bodies                 = 40 // that drip at once, one of each address
		dates                  = 1_000
		senders, batches       = 8, 60 // each sends so many batches, and goes on while the attack grows
		memory                 = 768 << 20
	)
	server, database := testenv.ClickHouse(t)
	own := free(t)
	a := start(t, []string{"analytics"}, map[string]string{"CLICKHOUSE_URL": server, "CLICKHOUSE_DB": database, "TIDEMILL_ADMIN_LISTEN": own})
	a.serves("before", 3)
	before := a.memory("VmRSS:")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attack sync.WaitGroup
	grown := make(chan struct{}) // closed when every connection was opened, every date sent
	var growing sync.WaitGroup
	h := hostiles{addr: a.Addr}
	n := many(t, connections)
	for i := range addresses {
		growing.Add(1)
		attack.Go(func() { h.hold(ctx, from(2, i), n/addresses, growing.Done) })
	}
	for i := range bodies {
		attack.Go(func() { h.drip(ctx, from(3, i)) })
	}
	growing.Add(1)
	attack.Go(func() { defer growing.Done(); h.strange(t, a, dates) })
	go func() { growing.Wait(); close(grown) }()

	began := time.Now()
	token := "Bearer " + a.Token()
	var asked []*asks
	var asking sync.WaitGroup
	for _, where := range []string{a.Addr, own} {
		for _, path := range []string{"/livez", "/readyz", "/api/v1/status"} {
			p := &asks{url: "http://" + where + path, token: token, enough: make(chan struct{})}
			asked = append(asked, p)
			asking.Go(func() { p.ask(ctx) })
		}
	}
	var sent sync.WaitGroup
	honests := make([]sender, senders)
	for i := range honests {
		s := &honests[i]
		// Half of them keep their connection, as SDKs of servers do.
		s.http = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: from(4, i), DisableKeepAlives: i%2 == 0}}
		sent.Go(func() {
			for s.batches < batches || !over(grown) {
				if !s.send(t, "http://"+a.Addr+"/v1/batch") {
					return
				}
			}
		})
	}
	sent.Wait()
	took := time.Since(began)
	for _, p := range asked { // a connection that the kernel let wait is tried again after a second
		select {
		case <-p.enough:
		case <-time.After(patience):
		}
	}
	stop()
	asking.Wait()
	attack.Wait()

	var all sender
	for i := range honests {
		all.batches += honests[i].batches
		all.retries += honests[i].retries
		all.times = append(all.times, honests[i].times...)
	}
	a.until("every acknowledged event is stored, once", func() bool { return a.stored(honest, "together") == all.batches*perBatch })
	a.until("no event is left over", func() bool { return a.books("analytics").InFlight == 0 })
	peak := a.memory("VmHWM:")
	t.Logf("%v of %d connections (%d opened, %d closed by the server), %d bodies held, %d strange dates", took.Round(time.Second), n, h.opened.Load(), h.closed.Load(), h.held.Load(), dates)
	t.Logf("honest: %d batches of %d events, %d tries again, %s", all.batches, perBatch, all.retries, spread(all.times))
	for _, p := range asked {
		t.Logf("%s: %d asked, %d without an answer, %s", strings.Replace(strings.Replace(p.url, own, "admin.listen", 1), a.Addr, "listen", 1), len(p.times), p.failed, spread(p.times))
		if len(p.times) < answers {
			t.Errorf("%s was answered %d times only", p.url, len(p.times))
		}
		if p.worst >= 3 || p.wrong != "" {
			t.Errorf("%s: %d in a row had no answer, which ends a pod; answers other than 200: %q", p.url, p.worst, p.wrong)
		}
	}
	t.Logf("memory: %d MiB before, %d MiB at most", before>>20, peak>>20)
	if peak > memory {
		t.Errorf("the process took %d MiB, want %d at most", peak>>20, memory>>20)
	}
	if h.opened.Load() < int64(n) || h.held.Load() == 0 {
		t.Errorf("%d of %d connections were opened, %d bodies held: did the attack reach it?", h.opened.Load(), n, h.held.Load())
	}
	if got := a.metric("tidemill_connections_closed_total", ""); got < 1000 {
		t.Errorf("%v connections were closed to make room: did the attack reach it?", got)
	}
	if b := a.books("analytics"); b.Dead != 0 || b.Lost != 0 || !b.Balanced || b.Delivered < all.batches*perBatch+dates {
		t.Errorf("the books are %+v; want all of %d honest and %d strange events delivered", b, all.batches*perBatch, dates)
	}
}

// free is an unused address.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// from connects from an address of its own on this machine, as another machine would.
func from(group, i int) dial {
	d := &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(group), byte(1+i))}}
	return d.DialContext
}

// over says whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hostiles attack an address, and count what they do.
type hostiles struct {
	addr                 string
	opened, closed, held atomic.Int64
}

// hold opens n connections of one address: silent ones, half headers, and headers that drip.
// When all are open it calls grown, and keeps them up until the context ends: each gets another
// byte now and again, and a closed one is reopened, at most so often.
func (h *hostiles) hold(ctx context.Context, dial dial, n int, grown func()) {
	grown = sync.OnceFunc(grown)
	defer grown()
	const again = 20 // how often each is reopened
	held := make([]net.Conn, n)
	defer func() {
		for _, c := range held {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for range 1 + again {
		for i := range held {
			if ctx.Err() != nil {
				return
			}
			if held[i] != nil {
				if h.alive(held[i], i%3) {
					continue
				}
				h.closed.Add(1)
				_ = held[i].Close()
				held[i] = nil
			}
			c, err := dial(ctx, "tcp", h.addr)
			if err != nil {
				continue
			}
			h.opened.Add(1)
			_, _ = io.WriteString(c, []string{"", "POST /v1/batch HTTP/1.1\r\nHost: x\r\nX-Slow: ", "GET /livez HTTP/1.1\r\nX-"}[i%3])
			held[i] = c
		}
		grown()
		select { // a dripping client is slow
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
}

// alive reports whether the server has kept a connection; a dripping one gets its next byte.
func (h *hostiles) alive(c net.Conn, kind int) bool {
	if kind == 2 {
		if _, err := io.WriteString(c, "x"); err != nil {
			return false
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Microsecond))
	_, err := c.Read(make([]byte, 1))
	late, ok := err.(net.Error)
	return ok && late.Timeout()
}

// drip sends the beginnings of large bodies without a key, one after another. Each stays until
// the server ends it.
func (h *hostiles) drip(ctx context.Context, dial dial) {
	piece := bytes.Repeat([]byte(" "), 64<<10)
	for ctx.Err() == nil {
		c, err := dial(ctx, "tcp", h.addr)
		if err != nil {
			continue
		}
		cut := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, err = io.WriteString(c, "POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: 19000000\r\n\r\n")
		for n := 0; err == nil && n < 6<<20; n += len(piece) {
			_, err = c.Write(piece)
		}
		if err == nil {
			h.held.Add(1)
			_, _ = io.Copy(io.Discard, c) // until it is cut off
		}
		cut()
		_ = c.Close()
	}
}

// strange sends n events of the hostile project, of all years from 1901 to 2298.
func (h *hostiles) strange(t *testing.T, a *target, n int) {
	const first, last, each = 1901, 2298, 50
	s := sender{http: &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: from(5, 0)}}}
	for i := 0; i < n; i += each {
		events := make([]any, each)
		for j := range events {
			at := time.Date(first+(i+j)%(last-first+1), time.Month(1+(i+j)%12), 15, 0, 0, 0, 0, time.UTC)
			events[j] = map[string]any{"event": "strange", "event_id": uuid.NewString(), "distinct_id": "u", "timestamp": at.Format(time.RFC3339)}
		}
		s.post(t, "http://"+a.Addr+"/v1/import", hostile, map[string]any{"events": events})
	}
}

// perBatch is how many events an honest sender has in a batch.
const perBatch = 20

// sender sends batches as an SDK does: an unacknowledged batch is sent again, unchanged.
type sender struct {
	http             *http.Client
	batches, retries int
	times            []time.Duration // from the first try to the acknowledgement
}

// send sends a batch of the honest project, and reports whether it was acknowledged.
func (s *sender) send(t *testing.T, url string) bool {
	if !s.post(t, url, honest, native("together", perBatch)) {
		return false
	}
	s.batches++
	return true
}

func (s *sender) post(t *testing.T, url string, p tenant, body any) bool {
	b, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
		return false
	}
	const tries = 10 // the retries of posthog-node and analytics-node
	began, last := time.Now(), ""
	for try := range tries {
		if try > 0 {
			s.retries++
			time.Sleep(100 * time.Millisecond << min(try, 5)) // the SDK's own wait
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(b))
		if err != nil {
			t.Error(err)
			return false
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+p.key)
		resp, err := s.http.Do(r)
		if err != nil {
			last = err.Error()
			continue
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted {
			s.times = append(s.times, time.Since(began))
			return true
		}
		if last = fmt.Sprintf("%d: %.200s", resp.StatusCode, said); resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			break
		}
	}
	t.Errorf("a batch of %s is not acknowledged; the last answer is %s", p.name, last)
	return false
}

// asks are the answers to a probe or an API request that is repeated all the time, on a new
// connection each, as orchestrators do.
type asks struct {
	url, token    string
	times         []time.Duration
	failed, worst int           // requests without an answer, and how many in a row
	wrong         string        // an answer other than 200
	enough        chan struct{} // closed at the last of answers that are wanted
}

// answers is how many are wanted of each address.
const answers = 10

func (p *asks) ask(ctx context.Context) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	inRow := 0
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
		if err != nil {
			p.wrong = err.Error()
			return
		}
		if strings.Contains(p.url, "/api/") {
			r.Header.Set("Authorization", p.token)
		}
		began := time.Now()
		resp, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		switch {
		case ctx.Err() != nil: // it was stopped, not refused
			return
		case err != nil:
			p.failed++
			inRow++
			p.worst = max(p.worst, inRow)
		case resp.StatusCode != http.StatusOK:
			p.wrong = resp.Status
			inRow = 0
		default:
			if p.times = append(p.times, time.Since(began)); len(p.times) == answers {
				close(p.enough)
			}
			inRow = 0
		}
		select { // an orchestrator waits between two requests; here less
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// spread shows the spread of times: half of them are shorter than the first, 99 of 100 than the
// second.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	slices.Sort(times)
	of := func(part float64) time.Duration {
		return times[int(part*float64(len(times)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, longest %v", of(0.5), of(0.99), of(1))
}
