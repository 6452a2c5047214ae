package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
)

// TestAPageIsOneReadOfWhoLooks holds that what a page asks of the API is not counted beside it.
func TestAPageIsOneReadOfWhoLooks(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(w *world, a *admin.Parts, c *console.Parts) {
		a.Now = func() time.Time { return now }
		c.Admit = func(h http.Header, who caller.Caller, change bool) error { return w.API.Admit(h, who, change) }
	})
	w.fill("")
	for n := range 60 {
		path := []string{"/console/", "/console/dead", "/console/queues/q", "/console/books"}[n%4]
		if rec := w.Ask("GET", path, nil); rec.Code != http.StatusOK || rec.Header().Get("RateLimit") == "" {
			t.Fatalf("page %d is answered %d, %v", n, rec.Code, rec.Header())
		}
	}
	rec := w.Ask("GET", "/console/", nil)
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "1" || !strings.Contains(rec.Body.String(), "ada asks for more than 20 reads a second") || rec.Body.Len() > 300 {
		t.Errorf("one too many is answered %d, %v: %s", rec.Code, rec.Header(), rec.Body)
	}
	if rec := w.Ask("GET", "/console/assets/none", nil); rec.Code == http.StatusTooManyRequests {
		t.Error("what pages load is counted")
	}
	for n := range 11 {
		if rec := w.Ask("POST", "/console/queues/q/pause", nil); (rec.Code == http.StatusTooManyRequests) != (n == 10) {
			t.Errorf("change %d is answered %d", n, rec.Code)
		}
	}
	w.Who.Name = "bob"
	if rec := w.Ask("GET", "/console/", nil); rec.Code != http.StatusOK {
		t.Errorf("somebody else is answered %d", rec.Code)
	}
	w.Who.Name = "ada"
	if now = now.Add(time.Second); w.Ask("GET", "/console/", nil).Code != http.StatusOK {
		t.Error("after a second there is no page")
	}
}
