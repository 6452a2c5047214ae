//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPersonsEndInTheOrderOfEachClient puts a line between the SDKs and the binary that is
// slow, answers 503 now and then, loses answers, and is away for seconds. What each client
// did last must be what its persons have, and no stored time may be before that of an
// earlier event.
func TestPersonsEndInTheOrderOfEachClient(t *testing.T) {
	const users, changes = 25, 12
	in := newInstance(t)
	in.Start()
	target, err := url.Parse("http://" + in.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards rnd
	rnd := rand.New(rand.NewPCG(1, 2))
	var refused, slow, lost atomic.Int64
	begun := time.Now()
	proxy := httputil.NewSingleHostReverseProxy(target)
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		roll, wait := rnd.IntN(10), time.Duration(rnd.IntN(400))*time.Millisecond
		mu.Unlock()
		since := time.Since(begun)
		away := 2*time.Second < since && since < 5*time.Second
		switch {
		case away, roll < 1:
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case roll < 2: // it is taken, and the client is told that it is not
			lost.Add(1)
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case roll < 8:
			slow.Add(1)
			time.Sleep(wait) // the line's latency
		}
		proxy.ServeHTTP(w, r)
	}))
	defer line.Close()

	var all sync.WaitGroup
	for _, sdk := range sdks {
		all.Go(func() {
			if err := node(t.Context(), "order.mjs", sdk, line.URL, key, fmt.Sprint(users), fmt.Sprint(changes), "6000"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	in.settled()
	t.Logf("%d requests were refused, %d slow, %d answers lost", refused.Load(), slow.Load(), lost.Load())
	if refused.Load() < 3 || slow.Load() < 5 || lost.Load() < 1 {
		t.Error("the line was too good for this test")
	}

	type change struct {
		At   time.Time        `json:"timestamp"`
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
			t.Fatalf("an event without a number: %s", line)
		}
		if times[c.Who] == nil {
			times[c.Who] = make([]time.Time, changes)
		}
		times[c.Who][*n] = c.At
	}
	for _, sdk := range sdks {
		for u := range users {
			who := fmt.Sprintf("%s-%d", sdk, u)
			at := times[who]
			if at == nil {
				t.Errorf("no events of %s", who)
				continue
			}
			for n := range at[1:] {
				if at[n].IsZero() || at[n+1].Before(at[n]) {
					t.Errorf("change %d of %s is stored at %v, the next at %v", n, who, at[n], at[n+1])
				}
			}
			var p struct{ Properties map[string]any }
			if err := json.Unmarshal(in.Ask("person", "show", who, "--project", "shop", "--json"), &p); err != nil {
				t.Fatal(err)
			}
			if p.Properties["n"] != float64(changes-1) || sdk == "posthog" && p.Properties["first"] != 0.0 {
				t.Errorf("%s has %v, want what it changed last (%d) and first", who, p.Properties, changes-1)
			}
		}
	}
}
