package scale

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/tidemill/tidemill/bench/process"
)

// partner takes every event at once, and notes its id.
type partner struct{ came process.IDs }

// playPartner answers until it is told to stop.
func playPartner(ctx context.Context, _ []string) error {
	p := new(partner)
	mux := http.NewServeMux()
	mux.Handle("POST /", p)
	mux.HandleFunc("GET /came", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strconv.Itoa(p.came.Len()))
	})
	return process.Serve(ctx, &http.Server{Handler: mux})
}

// ServeHTTP is the partner's answer.
func (p *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil || !p.came.Add(b, "eventId") {
		w.WriteHeader(http.StatusBadRequest)
	}
}
