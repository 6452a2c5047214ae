package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// accepts asks for something in a form.
func (d *desk) accepts(path, accept string) *httptest.ResponseRecorder {
	var texts []string // none: there is no such header
	if accept != "" {
		texts = []string{accept}
	}
	return d.headed(http.MethodGet, path, "", http.Header{"Accept": texts})
}

func TestAListingIsAnObjectUnlessLinesAreAskedFor(t *testing.T) {
	var ids []string
	for n := range 60 {
		ids = append(ids, fmt.Sprint(n))
	}
	d := newDesk(t, admin.Parts{Letters: lettersOf(t, ids...)})
	for accept, inLines := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html, */*;q=0.8": false, "application/json, application/x-ndjson;q=0.9": false, "application/x-ndjson;q=0": false,
		"application/x-ndjson": true, "Application/X-NDJSON": true, "application/x-ndjson, */*": true, "application/json;q=0.1, application/x-ndjson": true,
	} {
		w := d.accepts("dead", accept)
		if !slices.Contains(w.Header().Values("Vary"), "Accept") {
			t.Errorf("a cache takes one form for the other: %v", w.Header())
		}
		if inLines {
			if got := lines(d.good(w)); w.Header().Get("Content-Type") != operation.LinesType || len(got) != 60 {
				t.Errorf("%q: %d lines of %s, want all", accept, len(got), w.Header().Get("Content-Type"))
			}
			continue
		}
		var p operation.Paged[json.RawMessage]
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/json" || len(p.Items) != 50 || p.Next == "" || p.Previous != "" || p.AsOf.IsZero() {
			t.Errorf("%q: %v, %s, %.200s; want a page of 50", accept, err, w.Header().Get("Content-Type"), w.Body)
		}
	}
	for _, query := range []string{"limit=5", "cursor=x", "count=bounded"} {
		refused(t, d.accepts("dead?"+query, operation.LinesType), http.StatusBadRequest, "limit, cursor and count are of pages")
	}
	refused(t, d.accepts("dead?max=5", ""), http.StatusBadRequest, "max is for lines")
	if got := lines(d.good(d.accepts("dead?max=5", operation.LinesType))); len(got) != 5 {
		t.Errorf("%d lines, want 5", len(got))
	}
	var all operation.Paged[operation.ProblemKind] // of a listing that has no pages
	if err := json.Unmarshal(d.accepts("problems", "").Body.Bytes(), &all); err != nil || len(all.Items) != len(operation.ProblemKinds) || all.AsOf.IsZero() {
		t.Errorf("%v, %+v", err, all)
	}
}

func TestShortListingsHavePages(t *testing.T) {
	d := withPeople(t)
	for n := range 5 {
		d.post(fmt.Sprintf("tokens?name=t%d", n), "")
	}
	names := func(w *httptest.ResponseRecorder) (all []string, next, previous string) {
		var p operation.Paged[struct{ Name string }]
		if err := json.Unmarshal([]byte(d.good(w)), &p); err != nil {
			t.Fatal(err)
		}
		for _, item := range p.Items {
			all = append(all, strings.TrimPrefix(item.Name, "token:"))
		}
		return all, p.Next, p.Previous
	}
	all, next, _ := names(d.accepts("tokens", ""))
	if len(all) != 5 || next != "" {
		t.Fatal(all, next)
	}
	first, next, previous := names(d.accepts("tokens?limit=2", ""))
	if !slices.Equal(first, all[:2]) || next == "" || previous != "" {
		t.Fatal(first, next, previous)
	}
	d.post("tokens?name=t9", "") // what comes and goes moves no other
	second, next, previous := names(d.accepts("tokens?limit=2&cursor="+next, ""))
	if !slices.Equal(second, all[2:4]) || next == "" {
		t.Fatal(second, next)
	}
	if third, next, _ := names(d.accepts("tokens?limit=2&cursor="+next, "")); !slices.Equal(third, []string{all[4], "t9"}) || next != "" {
		t.Fatal(third, next)
	}
	if back, _, _ := names(d.accepts("tokens?limit=2&cursor="+previous, "")); !slices.Equal(back, first) {
		t.Fatal(back)
	}
	if newest, _, _ := names(d.accepts("tokens?limit=2&order=newest", "")); !slices.Equal(newest, []string{"t9", all[4]}) {
		t.Fatal(newest)
	}
	if got := lines(d.good(d.accepts("tokens?order=newest", operation.LinesType))); len(got) != 6 || d.field(got[0], "name") != "token:t9" {
		t.Fatal(got)
	}
}

// Also without an Idempotency-Key, of what the trail has and of what only reads.
func TestAFormHasItsBound(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		for _, path := range []string{"dead/delete?dry_run=true", "operations/preview?what=dead.delete"} {
			for size, want := range map[int]int{operation.MaxForm - 100: 200, operation.MaxForm: 413} {
				w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+path, "id="+strings.Repeat("a", size))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if d.api.ServeHTTP(w, r); w.Code != want {
					t.Errorf("%s of %d bytes is answered %d %.200s, want %d", path, size, w.Code, w.Body, want)
				}
			}
		}
	})
}
