//go:build servers

package attack

import (
	"net/http"
	"testing"
)

// TestNobodyAttacks shows that the other tests' checks of a target hold without an attack.
func TestNobodyAttacks(t *testing.T) {
	t.Parallel()
	a := start(t, []string{"analytics"}, nil)
	a.serves("quiet", 3)
	for _, probe := range []string{"/livez", "/readyz"} {
		if status, said := a.get(probe); status != http.StatusOK {
			t.Errorf("%s answers %d: %s", probe, status, said)
		}
	}
	if n := a.metric("tidemill_ingest_events_total", ""); n < 3 {
		t.Errorf("the metrics know of %v events, want 3 at least", n)
	}
}
