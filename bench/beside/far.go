package beside

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

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
type partners struct{ came map[string]*process.IDs }

// playPartners answers until it is told to stop.
func playPartners(ctx context.Context, _ []string) error {
	p := &partners{came: map[string]*process.IDs{}}
	for _, name := range well() {
		p.came[name] = new(process.IDs)
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
		if ids := p.came[name]; err != nil || ids == nil || !ids.Add(b, "n") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
}

// least is how many events each partner that is well has, at least.
func (p *partners) least() int {
	n := -1
	for _, s := range p.came {
		if has := s.Len(); n < 0 || has < n {
			n = has
		}
	}
	return n
}
