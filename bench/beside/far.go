package beside

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/bench/process"
)

// Names of the partners that are not well: one answers late, one refuses everything.
const (
	slow = "slow"
	dead = "dead"
	late = 300 * time.Millisecond
)

// well are the partners that answer at once.
func well() []string { return []string{"p1", "p2", "p3"} }

// partners are those of one instance, in a process of their own. They note which event came to which of
// those that are well.
type partners struct{ came map[string]*set }

type set struct {
	mu  sync.Mutex
	all map[uuid.UUID]struct{}
}

// playPartners answers until it is told to stop.
func playPartners(ctx context.Context, _ []string) error {
	p := &partners{came: map[string]*set{}}
	for _, name := range well() {
		p.came[name] = &set{all: map[uuid.UUID]struct{}{}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /least", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strconv.Itoa(p.least())) })
	mux.Handle("POST /", p)
	return process.Serve(ctx, &http.Server{Handler: mux})
}

// ServeHTTP is a partner's answer.
func (p *partners) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	switch name := r.URL.Path[1:]; name {
	case slow:
		select {
		case <-time.After(late): // what is measured
		case <-r.Context().Done():
		}
	case dead:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		_, rest, _ := bytes.Cut(b, []byte(`"n":"`))
		id, wrong := uuid.ParseBytes(rest[:min(len(rest), 36)])
		s := p.came[name]
		if err != nil || wrong != nil || s == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.all[id] = struct{}{}
		s.mu.Unlock()
	}
}

// least is how many events each partner that is well has, at least.
func (p *partners) least() int {
	n := -1
	for _, s := range p.came {
		s.mu.Lock()
		if n < 0 || len(s.all) < n {
			n = len(s.all)
		}
		s.mu.Unlock()
	}
	return n
}
