package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// breaking is a warehouse whose disk breaks after so many events.
type breaking struct {
	warehouse.Reader
	after, yielded int
}

var errDisk = errors.New("the disk broke")

func (b *breaking) Events(context.Context, warehouse.Filter) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for range b.after {
			b.yielded++
			if !yield(&event.Event{Name: "viewed"}, nil) {
				return
			}
		}
		yield(nil, errDisk)
	}
}

// over is an API over the warehouse, with one project.
func over(t *testing.T, events warehouse.Reader) *admin.API {
	t.Helper()
	ps := tableproject.Memory()
	if err := ps.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	a := &analyticsapi.API{Common: &answer.Common{Projects: ps}, Events: events}
	return admin.New(admin.Parts{Key: tidemill.NewSecret(token), Common: a.Common, Rooms: only(analytics.Name, a.Operations())})
}

// listing is a request for the events of a server.
func listing(t *testing.T, s *httptest.Server, method string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+admin.Prefix+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", operation.LinesType)
	return r
}

func TestAListingThatIsCutOffCannotBeTakenForTheWhole(t *testing.T) {
	for _, n := range []int{1, 10_000} {
		s := httptest.NewServer(over(t, &breaking{after: n}))
		resp, err := http.DefaultClient.Do(listing(t, s, http.MethodGet))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a listing that breaks after %d lines: %s, %v; want it cut off", n, resp.Status, err)
		}
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if want := `{"problem":{"type":"/api/v1/problems/failed","title":"Internal Server Error","status":500,"detail":"the disk broke"}}`; len(lines) != n+1 || lines[n] != want {
			t.Errorf("%d lines, the last %s; want %d and %s", len(lines), lines[len(lines)-1], n+1, want)
		}
		s.Close()
	}
}

func TestAListingThatCannotBeginIsAnError(t *testing.T) {
	w := httptest.NewRecorder()
	over(t, &breaking{}).ServeHTTP(w, request(http.MethodGet, admin.Prefix+"events", ""))
	refused(t, w, http.StatusInternalServerError, "the disk broke")
}

func TestHeadReadsNoListing(t *testing.T) {
	b := &breaking{after: 1000}
	s := httptest.NewServer(over(t, b))
	defer s.Close()
	resp, err := http.DefaultClient.Do(listing(t, s, http.MethodHead))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-ndjson" || b.yielded > 1 {
		t.Errorf("HEAD: %s, %v, %d events read", resp.Status, resp.Header, b.yielded)
	}
}

func TestSendSaysWhatBecameOfTheEvents(t *testing.T) {
	in := start(t, nil)
	good := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{\"event\": \"viewed\", \"distinct_id\": \"d\", \"event_id\": %q}\n", uuid.NewSHA1(uuid.Nil, []byte{byte(i), byte(i >> 8)}))
		}
		return b.String()
	}
	for _, c := range []struct {
		name, body string
		status     int
		want       analyticsapi.Sent
		reason     string
	}{
		{"nothing", "", 200, analyticsapi.Sent{}, ""},
		{"blank lines", "\n  \n\r\n", 200, analyticsapi.Sent{}, ""},
		{"events in more than one batch, the last without a line end", strings.TrimSuffix(good(1001), "\n"), 200, analyticsapi.Sent{Accepted: 1001}, ""},
		{"wrong ones among them", "x\n" + good(2) + `{"event": "viewed"}` + "\n", 200, analyticsapi.Sent{Duplicates: 2, Refused: 2}, "no JSON"},
		{"more wrong ones than are explained", strings.Repeat("x\n", 1200), 200, analyticsapi.Sent{Refused: 1200}, "no JSON"},
		{"a line that is too long, after a batch", good(500) + strings.Repeat("x", 1<<20+1), 413, analyticsapi.Sent{Duplicates: 500}, ""},
		{"a body that is too large", good(500) + strings.Repeat(" \n", 17<<20), 413, analyticsapi.Sent{Duplicates: 500}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := in.post("events", c.body)
			var got analyticsapi.Sent
			var problem operation.Problem
			body := w.Body.Bytes()
			if w.Code != 200 {
				if err := json.Unmarshal(body, &problem); err != nil {
					t.Fatalf("%v: %s", err, body)
				}
				body = problem.Done
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if w.Code != c.status || got.Accepted != c.want.Accepted || got.Duplicates != c.want.Duplicates || got.Refused != c.want.Refused || (problem.Detail == "") != (c.status == 200) {
				t.Errorf("answered %d %+v, want %d %+v", w.Code, got, c.status, c.want)
			}
			if n := len(got.Reasons); n != min(got.Refused, 100) || n > 0 && !strings.Contains(got.Reasons[0], c.reason) {
				t.Errorf("%d reasons for %d refusals: %.200q", n, got.Refused, got.Reasons)
			}
		})
	}
}

// TestSendIntoWhatCannotKeepThem checks that what was accepted before is not denied.
func TestSendIntoWhatCannotKeepThem(t *testing.T) {
	ps := tableproject.Memory()
	if err := ps.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	room := 600
	a := &analyticsapi.API{Common: &answer.Common{Projects: ps}, Send: func(_ context.Context, _ uuid.UUID, events [][]byte) (analyticsapi.Sent, error) {
		n := min(room, len(events))
		if room -= n; n < len(events) {
			return analyticsapi.Sent{Accepted: n}, errors.New("the queue is full")
		}
		return analyticsapi.Sent{Accepted: n}, nil
	}}
	api := admin.New(admin.Parts{Key: tidemill.NewSecret(token), Common: a.Common, Rooms: only(analytics.Name, a.Operations())})
	w := httptest.NewRecorder()
	api.ServeHTTP(w, request(http.MethodPost, admin.Prefix+"events", strings.Repeat("{}\n", 1000)))
	if refused(t, w, http.StatusServiceUnavailable, "after 600 accepted events: the queue is full"); w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"accepted":600`) {
		t.Errorf("answered %v %s", w.Header(), w.Body)
	}
}
