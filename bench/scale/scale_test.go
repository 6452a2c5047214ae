package scale

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEachShapeHasItsName holds that no row replaces another, and that the first of a system is its
// smallest.
func TestEachShapeHasItsName(t *testing.T) {
	seen, first := map[string]bool{}, map[string]*shape{}
	for _, s := range shapes() {
		if seen[s.name()] {
			t.Errorf("%s is there twice", s.name())
		}
		seen[s.name()] = true
		if first[s.of] == nil {
			first[s.of] = s
		}
		if first[s.of].instances != 1 || s.last() == "" {
			t.Errorf("%s begins with %d instances, and ends at %q", s.of, first[s.of].instances, s.last())
		}
	}
	if len(first) != 6 {
		t.Errorf("%d systems on their servers, want 5 and analytics on two sets: %v", len(first), first)
	}
}

// TestRatiosAreToTheFirstRow compares with the first row of the same system that was measured.
func TestRatiosAreToTheFirstRow(t *testing.T) {
	round := []*result{{Of: "a", All: 0}, {Of: "b", All: 5}, {Of: "a", All: 10}, {Of: "a", All: 40}}
	r := &result{Of: "a", All: 15}
	if compare(round, r); r.OfOne != 1.5 {
		t.Errorf("15 of 10 are %v", r.OfOne)
	}
}

// TestThePartnerCountsEvents holds that an event counts once, and that what is none is refused.
func TestThePartnerCountsEvents(t *testing.T) {
	p := new(partner)
	for body, want := range map[string]int{`{"eventId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"}`: http.StatusOK, `{"n":1,"eventId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"}`: http.StatusOK,
		`{"eventId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bee"}`: http.StatusOK, `{}`: http.StatusBadRequest, `{"eventId":"1`: http.StatusBadRequest} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%s is answered %d, want %d", body, w.Code, want)
		}
	}
	if n := p.came.Len(); n != 2 {
		t.Errorf("%d events came, want 2", n)
	}
}
