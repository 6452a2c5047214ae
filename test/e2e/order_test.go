//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ordered are the libraries whose changes of persons must keep their order, and the command of
// each; the address, the key, users, changes and milliseconds follow as arguments.
var ordered = map[string][]string{
	"posthog":            {"node", "order.mjs", "posthog"},
	"segment":            {"node", "order.mjs", "segment"},
	"rudderstack":        {"node", "order.mjs", "rudderstack"},
	"cloudevents":        {"node", "order.mjs", "cloudevents"},
	"rudderstack-python": {filepath.Join("venv", "bin", "python"), "order.py"},
	"analytics-go":       {"go", "run", "-C", "go", ".", "analytics-go"},
	"cloudevents-go":     {"go", "run", "-C", "go", ".", "cloudevents-go"},
}

const (
	orderUsers   = 25 // of each library; a browser has one
	orderChanges = 12 // of each user
	orderTime    = 12 * time.Second
)

// TestPersonsEndInTheOrderOfEachClient puts a line between the libraries and the binary that is
// slow, answers 503 now and then, loses answers, and is down for ten seconds in the middle.
// Each person must have what its client did last, and no stored time may be before that of an
// earlier event.
func TestPersonsEndInTheOrderOfEachClient(t *testing.T) {
	t.Parallel()
	in := browsed(t)
	in.Start()
	line := newLine(t, in.Addr)
	users := map[string]int{"posthog-js": 1}
	var all sync.WaitGroup
	for library, command := range ordered {
		users[library] = orderUsers
		all.Go(func() {
			args := append(command[1:], line.URL, key, fmt.Sprint(orderUsers), fmt.Sprint(orderChanges), fmt.Sprint(orderTime.Milliseconds()))
			if err := reporting(t.Context(), library, command[0], args...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() { inBrowser(t, in, line.URL) })
	all.Wait()
	in.settled()
	t.Logf("%d requests were refused, %d slow, %d answers lost", line.refused.Load(), line.slow.Load(), line.lost.Load())
	if line.refused.Load() < 3 || line.slow.Load() < 5 || line.lost.Load() < 1 {
		t.Error("the line was too good for this test")
	}

	times := changeTimes(t, in)
	for library, n := range users {
		for u := range n {
			checkOrder(t, in, fmt.Sprintf("%s-%d", library, u), times)
		}
	}
}

// line is a bad connection to an address.
type line struct {
	*httptest.Server
	refused, slow, lost atomic.Int64
}

// newLine returns one that loses POST requests for its first fifteen seconds, ten of them
// completely, and afterwards is only slow.
func newLine(t *testing.T, addr string) *line {
	target, err := url.Parse("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards rnd
	rnd := rand.New(rand.NewPCG(1, 2))
	l := new(line)
	proxy := httputil.NewSingleHostReverseProxy(target)
	var begun atomic.Pointer[time.Time] // the first event
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			proxy.ServeHTTP(w, r)
			return
		}
		now := time.Now()
		begun.CompareAndSwap(nil, &now)
		since := time.Since(*begun.Load())
		mu.Lock()
		roll, wait := rnd.IntN(10), time.Duration(rnd.IntN(400))*time.Millisecond
		mu.Unlock()
		switch {
		case 2*time.Second < since && since < 12*time.Second, since < 15*time.Second && roll < 1:
			l.refused.Add(1)
			refuse(w)
		case since < 15*time.Second && roll < 2: // it is accepted, and the client is told that it is not
			l.lost.Add(1)
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			refuse(w)
		case roll < 8:
			l.slow.Add(1)
			time.Sleep(wait) // the line's latency
			proxy.ServeHTTP(w, r)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// refuse answers as a proxy of another site does, so that a browser may see it.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// inBrowser makes posthog-js send its changes in Chromium, until all have arrived.
func inBrowser(t *testing.T, in *instance, address string) {
	page := template.Must(template.ParseFS(pages, "testdata/order.html"))
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/arrived" {
			if err := page.Execute(w, map[string]any{"Key": key, "Address": template.JSStr(address), "Changes": orderChanges, "Milliseconds": orderTime.Milliseconds()}); err != nil {
				t.Error(err)
			}
			return
		}
		if n := bytes.Count(in.Ask("events", "--project", "shop", "--distinct-id", "posthog-js-0", "--name", "changed", "-n", "0", "--json"), []byte("\n")); n < orderChanges {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer shop.Close()
	if err := reporting(t.Context(), "posthog-js", "node", "browser.mjs", chromium(t), shop.URL+"/order.html?line=bad"); err != nil {
		t.Error(err)
	}
}

// changeTimes returns the times of each user's changes, by their numbers.
func changeTimes(t *testing.T, in *instance) map[string][]time.Time {
	type change struct {
		At   time.Time        `json:"timestamp"`
		Name string           `json:"event_name"`
		Who  string           `json:"distinct_id"`
		Bag  struct{ N *int } `json:"properties"`
		User struct{ N *int } `json:"user_properties"`
	}
	times := map[string][]time.Time{}
	for line := range bytes.Lines(in.Ask("events", "--project", "shop", "-n", "0", "--json")) {
		var c change
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		n := c.Bag.N
		if n == nil {
			n = c.User.N
		}
		if n == nil {
			if c.Who == "posthog-js-0" { // its identify
				continue
			}
			t.Fatalf("an event without a number: %s", line)
		}
		if times[c.Who] == nil {
			times[c.Who] = make([]time.Time, orderChanges)
		}
		times[c.Who][*n] = c.At
	}
	return times
}

func checkOrder(t *testing.T, in *instance, who string, times map[string][]time.Time) {
	at := times[who]
	if at == nil {
		t.Errorf("no events of %s", who)
		return
	}
	for n := range at[1:] {
		if at[n].IsZero() || at[n+1].Before(at[n]) {
			t.Errorf("change %d of %s is stored at %v, the next at %v", n, who, at[n], at[n+1])
		}
	}
	var p struct{ Properties map[string]any }
	if err := json.Unmarshal(in.Ask("person", "show", who, "--project", "shop", "--json"), &p); err != nil {
		t.Error(err)
		return
	}
	first, setOnce := p.Properties["first"]
	if p.Properties["n"] != float64(orderChanges-1) || setOnce && first != 0.0 {
		t.Errorf("%s has %v, want what it changed last (%d) and first", who, p.Properties, orderChanges-1)
	}
}
