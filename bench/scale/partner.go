package scale

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/bench/process"
)

// partner takes every event at once, and notes its id.
type partner struct {
	mu   sync.Mutex
	came map[uuid.UUID]struct{}
}

// playPartner answers until it is told to stop.
func playPartner(ctx context.Context, _ []string) error {
	p := &partner{came: map[uuid.UUID]struct{}{}}
	mux := http.NewServeMux()
	mux.Handle("POST /", p)
	mux.HandleFunc("GET /came", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = io.WriteString(w, strconv.Itoa(len(p.came)))
	})
	return process.Serve(ctx, &http.Server{Handler: mux})
}

// ServeHTTP is the partner's answer.
func (p *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	_, rest, _ := bytes.Cut(b, []byte(`"eventId":"`))
	id, wrong := uuid.ParseBytes(rest[:min(len(rest), 36)])
	if err != nil || wrong != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.came[id] = struct{}{}
	p.mu.Unlock()
}
