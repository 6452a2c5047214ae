//go:build servers

package faults

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// farPartner is a partner in the test's own process, with a journal of requests and answers.
type farPartner struct {
	*httptest.Server
	name     string
	settings map[string]any // of its description, in addition to name and endpoint
	dedups   bool           // it de-duplicates
	retries  int

	mu      sync.Mutex // guards what follows
	rnd     *rand.Rand
	conduct conduct
	seen    map[string]*receipt // by idempotency key
	came    []time.Time         // requests, while they are recorded
	noted   bool
	said    map[string]int // answers by name
	busy    int            // running requests
	most    int            // most of them at once
}

// receipt is what a partner knows of one idempotency key.
type receipt struct {
	body    [sha256.Size]byte
	odd     string    // another body that came under the same key
	came    int       // requests
	did     int       // done, whether or not the answer was sent
	yes     int       // done, and a good answer was sent
	refused int       // failed: refused, cut off, not answered in time
	first   time.Time // good answer
	life    []string  // when each request came, and what was answered
}

// says is one answer: its name, its effect on the connection, and whether the partner did what
// it was asked. Without a step it is a good answer.
type says struct {
	name string
	step partnertest.Step
	did  bool
	late time.Duration // delay
}

// conduct chooses an answer.
type conduct func(rnd *rand.Rand, body string) says

var thanks = says{name: "good", did: true}

func answers(name string, step partnertest.Step) says { return says{name: name, step: step} }

// well accepts all valid events.
func well(*rand.Rand, string) says { return thanks }

// down answers that it is out of order.
func down(*rand.Rand, string) says { return answers("500", partnertest.Status(500, "out of order")) }

// refuses no longer accepts our credentials.
func refuses(*rand.Rand, string) says { return answers("401", partnertest.Status(401, "who are you?")) }

// after delays every answer by a time between d and twice d.
func after(d time.Duration, do conduct) conduct {
	return func(rnd *rand.Rand, body string) says {
		a := do(rnd, body)
		a.late += d + time.Duration(rnd.Int64N(int64(d)))
		return a
	}
}

// forgetful does what it is asked, and sometimes loses its answer.
func forgetful(every int) conduct {
	return func(rnd *rand.Rand, body string) says {
		if rnd.IntN(every) == 0 {
			return says{name: "answer lost", did: true, step: partnertest.ResetBeforeAnswer()}
		}
		return thanks
	}
}

// erring fails about every fourth request, in all possible ways, and broken events always.
func erring(rnd *rand.Rand, body string) says {
	if strings.Contains(body, broken) {
		return answers("500", partnertest.Status(500, "this one breaks us"))
	}
	switch n := rnd.IntN(100); {
	case n < 6:
		return answers("500", partnertest.Status(500, "out of order"))
	case n < 9:
		return answers("503, seconds", partnertest.RetryAfter(503, "1"))
	case n < 12:
		return answers("429, seconds", partnertest.RetryAfter(429, "1"))
	case n < 15:
		return answers("429, a date", partnertest.RetryAfter(429, time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat)))
	case n < 17:
		return answers("no answer", hold)
	case n < 19:
		return answers("cut off", partnertest.ResetBeforeAnswer())
	case n < 21:
		return answers("cut off in the answer", partnertest.ResetInHeader())
	case n < 23:
		return answers("garbage", partnertest.Garbage())
	case n < 25:
		return says{name: "answer lost", did: true, step: partnertest.ResetBeforeAnswer()}
	}
	return thanks
}

// hold answers nothing until the client has gone.
func hold(e *partnertest.Exchange) { <-e.R.Context().Done() }

// silent never answers.
func silent(*rand.Rand, string) says { return answers("no answer", hold) }

// partner makes a partner. Its settings are those of the configuration's file.
func (w *deliveryWorld) partner(name string, do conduct, settings map[string]any) *farPartner {
	w.Helper()
	p := &farPartner{name: name, settings: settings, rnd: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), conduct: do,
		seen: map[string]*receipt{}, said: map[string]int{}, retries: 7}
	if n, ok := settings["maxRetries"].(int); ok {
		p.retries = n
	}
	p.dedups, _ = settings["idempotent"].(bool)
	p.Server = httptest.NewServer(p)
	w.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	w.partners = append(w.partners, p)
	return p
}

// ServeHTTP answers a request as the conduct says, and records it.
func (p *farPartner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the request was cut off
	}
	key := r.Header.Get("Idempotency-Key")
	a := p.begin(key, string(body))
	if a.late > 0 {
		select {
		case <-time.After(a.late):
		case <-r.Context().Done():
		}
	}
	left := false
	if a.step == nil {
		_, err := io.WriteString(w, "thank you")
		left = err == nil && http.NewResponseController(w).Flush() == nil && r.Context().Err() == nil
	} else {
		a.step(&partnertest.Exchange{W: w, R: r, Body: body})
	}
	p.end(key, left)
}

// begin records a request, and draws its answer. The work is done before the answer.
func (p *farPartner) begin(key, body string) says {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy++
	p.most = max(p.most, p.busy)
	if p.noted {
		p.came = append(p.came, time.Now())
	}
	k, sum := p.seen[key], sha256.Sum256([]byte(body))
	if k == nil {
		k = &receipt{body: sum}
		p.seen[key] = k
	} else if k.body != sum {
		k.odd = body
	}
	k.came++
	a := p.conduct(p.rnd, body)
	if strings.Contains(body, invalid) {
		a = answers("422", partnertest.Status(422, "this is nothing"))
	}
	p.said[a.name]++
	k.life = append(k.life, time.Now().UTC().Format("05.000 ")+a.name)
	if a.did {
		k.did++
	} else {
		k.refused++
	}
	return a
}

func (p *farPartner) end(key string, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if k := p.seen[key]; left {
		k.yes++
		if k.first.IsZero() {
			k.first = time.Now()
		}
	}
}

// does changes how it answers from now on.
func (p *farPartner) does(c conduct) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conduct = c
}

// taken is how many events it has accepted.
func (p *farPartner) taken() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.seen {
		if k.yes > 0 {
			n++
		}
	}
	return n
}

// when is when it accepted an event; zero: it has not.
func (p *farPartner) when(id string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.seen[id]; k != nil {
		return k.first
	}
	return time.Time{}
}

// total is how often it answered something; "": anything.
func (p *farPartner) total(what string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, k := range p.said {
		if what == "" || name == what {
			n += k
		}
	}
	return n
}

// concurrency is the most requests at once since the last call.
func (p *farPartner) concurrency() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.most
	p.most = p.busy
	return n
}

// underWay is how many requests run now.
func (p *farPartner) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}
