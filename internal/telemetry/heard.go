//go:build !embedded

package telemetry

import (
	"cmp"
	"fmt"
	"net/http"
	"sync/atomic"
)

// heard is a transport that remembers how its last request ended. The errors of exporters have the
// collector's URL and what it answered in them, where secrets can be.
type heard struct {
	via  http.RoundTripper
	last atomic.Pointer[string]
	away bool // the last export failed; for the loop that exports
}

func newHeard(via http.RoundTripper) *heard { return &heard{via: cmp.Or(via, http.DefaultTransport)} }

// RoundTrip implements http.RoundTripper.
func (h *heard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.via.RoundTrip(r)
	text := ""
	switch {
	case err != nil:
		text = err.Error()
	case resp.StatusCode/100 != 2:
		text = fmt.Sprintf("the collector answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	h.last.Store(&text)
	return resp, err
}

// why says why something was not sent.
func (h *heard) why() string {
	if text := h.last.Load(); text != nil && *text != "" {
		return *text
	}
	return fmt.Sprintf("nothing came of it in %v", timeout)
}

// turns notes whether an export failed, and reports whether the one before ended otherwise.
func (h *heard) turns(failed bool) bool {
	was := h.away
	h.away = failed
	return was != failed
}

// client sends requests. It follows no redirect, for the headers may have a key.
func (h *heard) client() *http.Client {
	return &http.Client{Transport: h, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
