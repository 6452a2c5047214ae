package partners

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// far is the partners of one instance: it notes when which event came to which partner.
type far struct {
	url  string
	way  string // how the last partner is dead; empty: it is alive
	http *http.Server

	mu   sync.Mutex
	came map[string][]time.Time // by partner and the event's number
	left int                    // awaited deliveries
	done chan struct{}          // closed when none is left
}

// maxEvents is the most events of one instance.
const maxEvents = 1 << 17

func newFar(way string) (*far, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &far{url: "http://" + l.Addr().String(), way: way, came: map[string][]time.Time{}}
	f.http = &http.Server{Handler: f}
	go func() { _ = f.http.Serve(l) }()
	return f, nil
}

// deadName is the last partner.
const deadName = "last"

// ServeHTTP accepts an event, which begins with {"n":1,….
func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	at, name := time.Now(), r.URL.Path[1:]
	if name == deadName && f.way != "" {
		if f.way == "silent" {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, rest, _ := bytes.Cut(b, []byte(`"n":`))
	digits, _, _ := bytes.Cut(rest, []byte(`}`))
	n, wrong := strconv.Atoi(string(digits))
	if err != nil || wrong != nil || n < 0 || n >= maxEvents {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	if f.came[name] == nil {
		f.came[name] = make([]time.Time, maxEvents)
	}
	if f.came[name][n].IsZero() {
		f.came[name][n] = at
		if name != deadName {
			f.left--
		}
		if f.left == 0 && f.done != nil {
			close(f.done)
			f.done = nil
		}
	}
	f.mu.Unlock()
}

// await sets how many deliveries have to come; its channel is closed when they have.
func (f *far) await(n int) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.done = n, make(chan struct{})
	return f.done
}

// took are the times of events to the other partners.
func (f *far) took(first int, sent []time.Time) (all []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, came := range f.came {
		if name == deadName {
			continue
		}
		for i, at := range sent {
			all = append(all, came[first+i].Sub(at))
		}
	}
	return all
}

// got is how many events a partner has.
func (f *far) got(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.came[name] {
		if !at.IsZero() {
			n++
		}
	}
	return n
}
