//go:build servers

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/test/promise"
)

const (
	stream    = "events:incoming"
	ingestKey = "fault-key"
)

// load sends events until it is stopped, and keeps a journal: the event before sending, and the
// answer after. It reaches the servers past every link that is broken for the product.
type load struct {
	t         *testing.T
	client    rueidis.Client
	endpoints []string // addresses of instances that accept events over HTTP
	http      *http.Client
	quit      chan struct{}
	ended     sync.WaitGroup
	started   time.Time
	stopped   bool

	phase     atomic.Int64
	confirmed atomic.Int64 // answers, also to repeated sendings

	mu     sync.Mutex // guards events
	events []*event
}

type loadOptions struct {
	Rate    int  // events a second into the stream; 0: 700
	Door    int  // events a second over HTTP; 0: 150, negative: none
	Plain   bool // no event changes anything of a person
	Dup     int  // of a hundred events so many are sent again; 0: 5
	More    int  // at most so many times
	Shuffle int  // events that are shuffled together; 0: they are sent as drawn
}

// startLoad begins to send.
func (w *world) startLoad(o loadOptions) *load {
	w.Helper()
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	or(&o.Rate, 700)
	or(&o.Door, 150)
	or(&o.Dup, 5)
	l := &load{t: w.T, client: w.client, quit: make(chan struct{}), started: time.Now(),
		http: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: 2}}}
	for _, in := range w.instances {
		l.endpoints = append(l.endpoints, in.Addr)
	}
	if w.people == nil {
		w.people = promise.NewPeople(w.rnd, 200)
	}
	w.loads = append(w.loads, l)
	first := 0
	for _, earlier := range w.loads[:len(w.loads)-1] {
		first += 2 * (len(earlier.events) + 1_000_000)
	}
	drawer := func(first int, endpoint bool) *drawer {
		return &drawer{rnd: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), people: w.people, project: project, start: w.began.Add(-4 * time.Hour),
			n: first, step: 2, endpoint: endpoint, plain: o.Plain, dup: o.Dup, more: o.More}
	}
	into, over := drawer(first, false), drawer(first+1, true)
	l.ended.Go(func() { l.send(into, o.Rate, o.Shuffle, l.add) })
	if o.Door > 0 {
		l.ended.Go(func() { l.send(over, o.Door, o.Shuffle, l.post) })
	}
	return l
}

// send draws events at a rate and sends them, some again, until the load is stopped and each
// has its answer.
func (l *load) send(d *drawer, rate, shuffle int, out func(context.Context, []*event) []*event) {
	const every = 10 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	var held, due []*event // in the shuffle; to be sent
	for n, stopped := 0, false; ; n++ {
		if !stopped {
			select {
			case <-l.quit:
				stopped = true
				due = append(due, held...)
				held = nil
			case <-tick.C:
				want := rate*(n+1)/100 - rate*n/100
				for range want {
					e := d.draw(int(l.phase.Load()))
					l.mu.Lock()
					l.events = append(l.events, e)
					l.mu.Unlock()
					held = append(held, e)
					for range e.again {
						held = append(held, e)
					}
				}
			}
			for len(held) > shuffle {
				i := d.rnd.IntN(len(held))
				if shuffle == 0 {
					i = 0
				}
				due = append(due, held[i])
				held = append(held[:i], held[i+1:]...)
			}
		}
		if stopped && len(due) == 0 {
			return
		}
		if len(due) > 0 {
			left := out(l.t.Context(), due)
			due = append([]*event(nil), left...)
			if len(left) > 0 {
				select {
				case <-time.After(50 * time.Millisecond): // a producer waits before it tries again
				case <-l.t.Context().Done():
					return
				}
			}
		}
	}
}

// add adds them to the stream as a producer does, and returns those to be sent again.
func (l *load) add(ctx context.Context, batch []*event) (left []*event) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	cmds := make([]rueidis.Completed, len(batch))
	now := time.Now()
	for i, e := range batch {
		e.tries++
		if e.first.IsZero() {
			e.first = now
		}
		cmds[i] = l.client.B().Arbitrary("XADD").Keys(stream).Args("MAXLEN", "~", "1000000", "*").Args(e.fields...).Build()
	}
	for i, r := range l.client.DoMulti(ctx, cmds...) {
		e := batch[i]
		e.last = time.Now()
		id, err := r.ToString()
		if err == nil {
			e.entries = append(e.entries, id)
			e.confirmed++
			l.confirmed.Add(1)
			continue
		}
		if _, refused := rueidis.IsRedisErr(err); !refused {
			e.unknown++
		}
		if !e.giveUp {
			left = append(left, e)
		}
	}
	return left
}

// post sends them over HTTP to one instance after the other, and returns them all if none
// confirmed.
func (l *load) post(ctx context.Context, batch []*event) (left []*event) {
	seen := map[*event]bool{}
	all := make([]*promise.Event, len(batch))
	for i, e := range batch {
		all[i] = &e.Event
		e.tries++
		if e.first.IsZero() {
			e.first = time.Now()
		}
	}
	addr := l.endpoints[batch[0].tries%len(l.endpoints)]
	answered, err := l.request(ctx, "http://"+addr+"/batch/", promise.Body(ingestKey, time.Time{}, all))
	for _, e := range batch {
		e.last = time.Now()
		switch {
		case err == nil:
			e.confirmed++
			l.confirmed.Add(1)
		case !answered:
			e.unknown++
		}
		if err != nil && !seen[e] {
			seen[e] = true
			left = append(left, e)
		}
	}
	return left
}

// request posts a batch: nil is a confirmation; answered reports a definite refusal.
func (l *load) request(ctx context.Context, url string, body []byte) (answered bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return true, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(r)
	if err != nil {
		var dial *net.OpError
		return errors.As(err, &dial) && dial.Op == "dial", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode < 500 {
			l.t.Errorf("a batch was refused: %s %.200s", resp.Status, b)
		}
		return false, fmt.Errorf("%s: %.200s", resp.Status, b) // 503 may have been added in part
	}
	return true, nil
}

// stop ends the load once every event that needs one has its confirmation. A second call does
// nothing.
func (l *load) stop() {
	l.t.Helper()
	if l.stopped {
		return
	}
	l.stopped = true
	close(l.quit)
	done := make(chan struct{})
	go func() { l.ended.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		l.t.Fatal("producers do not get their confirmations")
	}
	l.t.Logf("sent: %d events, %d confirmations, %.0f a second", len(l.events), l.confirmed.Load(), float64(len(l.events))/time.Since(l.started).Seconds())
}

var project = uuid.MustParse("33333333-3333-4333-8333-333333333333")
