//go:build servers

package faults

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Marks of events that the endpoint knows.
const (
	crmInvalid = `"mark":"invalid"` // it never accepts it
	crmRefused = `"mark":"refused"` // it is against its rules
	crmUnknown = `"mark":"unknown"` // it does not know the person
	crmBroken  = `"mark":"broken"`  // it breaks the endpoint, each time
)

// crmApp is an endpoint of handlers in the test's own process, with a journal.
type crmApp struct {
	*httptest.Server

	mu   sync.Mutex // guards what follows
	rnd  *rand.Rand
	odds float64 // odds of a bad answer
	slow time.Duration
	seen map[string]*crmReceipt // by webhook-id
	said map[string]int         // answers by name
	busy int                    // running requests
}

// crmReceipt is what the endpoint knows of one id.
type crmReceipt struct {
	body  string
	odd   bool // another body came under the same id
	came  int
	did   int // done, whether or not the answer was sent
	good  int // and the answer was sent
	first time.Time
	life  []string
}

func (w *crmWorld) newApp() *crmApp {
	a := &crmApp{rnd: rand.New(rand.NewPCG(w.rnd.Uint64(), 0)), seen: map[string]*crmReceipt{}, said: map[string]int{}}
	a.Server = httptest.NewServer(http.HandlerFunc(a.take))
	w.Cleanup(a.Server.Close)
	return a
}

// take answers a request, or does not.
func (a *crmApp) take(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body, id := string(b), r.Header.Get("Webhook-Id")
	a.mu.Lock()
	rec := a.seen[id]
	if rec == nil {
		rec = &crmReceipt{body: eventIn(body)}
		a.seen[id] = rec
	}
	rec.odd = rec.odd || rec.body != eventIn(body)
	rec.came++
	a.busy++
	how, slow := a.mood(body), a.slow
	a.said[how]++
	done := how == "good" || how == "garbage after it was done"
	if done {
		rec.did++
	}
	rec.life = append(rec.life, time.Now().Format("05.000 ")+how)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy--
	}()
	if slow > 0 {
		select {
		case <-time.After(slow): // its work takes so long
		case <-r.Context().Done():
		}
	}
	switch how {
	case "422":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "business":
		_, _ = io.WriteString(w, `{"code":"BusinessLogicError"}`)
	case "404":
		w.WriteHeader(http.StatusNotFound)
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusFound)
	case "no answer":
		<-r.Context().Done()
	case "cut off", "garbage", "garbage after it was done":
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if how != "cut off" {
			_, _ = io.WriteString(c, "\x00\xffSSH-2.0 200 OK\r\n{\"code\":")
		}
		_ = c.Close()
	default:
		w.WriteHeader(http.StatusOK)
		_, err := io.WriteString(w, `{"code":"none"}`)
		a.mu.Lock()
		if rec.good++; rec.first.IsZero() && err == nil {
			rec.first = time.Now()
		}
		a.mu.Unlock()
	}
}

// mood is how a request is answered; a.mu is held.
func (a *crmApp) mood(body string) string {
	switch {
	case strings.Contains(body, crmInvalid):
		return "422"
	case strings.Contains(body, crmRefused):
		return "business"
	case strings.Contains(body, crmUnknown):
		return "404"
	case strings.Contains(body, crmBroken) && a.odds > 0:
		return "500"
	case a.rnd.Float64() < a.odds:
		return []string{"500", "500", "redirect", "cut off", "garbage", "garbage after it was done", "no answer"}[a.rnd.IntN(7)]
	}
	return "good"
}

// eventIn is the event of a request as it was received.
func eventIn(body string) string {
	event, _, _ := strings.Cut(strings.TrimPrefix(body, `{"event":`), `,"profile":{"id":`)
	return event
}

// does changes how often answers are bad, and how long they take.
func (a *crmApp) does(odds float64, slow time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.odds, a.slow = odds, slow
}

// of is what the endpoint knows of an id; it may be nothing.
func (a *crmApp) of(id string) crmReceipt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.seen[id]; r != nil {
		return *r
	}
	return crmReceipt{}
}

func (a *crmApp) total(how string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, k := range a.said {
		if how == "" || how == name {
			n += k
		}
	}
	return n
}

func (a *crmApp) underWay() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy
}
