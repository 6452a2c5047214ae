package product

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/bench/process"
)

// TestWhatAnInstanceSaysIsRead reads the books and the counters of an instance.
func TestWhatAnInstanceSaysIsRead(t *testing.T) {
	audit := `{"balanced":true,"systems":[{"system":"s","delivered":3,"queues":[{"queue":"q","delivered":2,"in_flight":1}],"pipelines":[{"pipeline":"p","delivered":1}]}]}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/audit", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, audit) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# TYPE tidemill_messages_settled_total counter\n"+
			`tidemill_messages_settled_total{fate="dead",pipeline="q"} 2`+"\n"+`tidemill_messages_settled_total{fate="delivered",pipeline="q"} 1e+06`+"\n"+`tidemill_messages_settled_total{fate="dead",pipeline="p"} 0`+"\nother 1\n")
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	p := &Product{&process.Program{URL: s.URL}}

	settled, err := p.Settled()
	if err != nil || len(settled) != 2 || settled["q"] != 1_000_002 {
		t.Errorf("settled are %v (%v), want 1000002 of q and none of p", settled, err)
	}
	all, balanced, err := p.Books()
	if err != nil || !balanced || len(all) != 3 || all[0].Name() != "s" || all[1].Name() != "q" || all[1].InFlight != 1 || all[2].Name() != "p" || all[2].Delivered != 1 {
		t.Errorf("the books are %+v, balanced %v (%v)", all, balanced, err)
	}
	if err := p.Drained(t.Context(), time.Millisecond, "q"); err != nil {
		t.Errorf("with q paused: %v", err)
	}
	audit = strings.Replace(audit, `"delivered":1`, `"dead":1`, 1)
	if err := p.Drained(t.Context(), time.Millisecond); err == nil || !strings.Contains(err.Error(), "1 events of p became dead letters") {
		t.Errorf("with a dead letter: %v", err)
	}
	audit = "{"
	if _, _, err := p.Books(); err == nil {
		t.Error("books that cannot be read are read")
	}
}
