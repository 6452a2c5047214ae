package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/sqlitewarehouse"
)

// Pages of events go on behind those that few events match, and back again.
func TestPagesOfEventsGoOnWhereTheyEndEarly(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlitewarehouse.New(t.Context(), db, sqlitewarehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const all = 7000
	rows := make([]*event.Event, all)
	for i := range rows {
		rows[i] = &event.Event{Project: project.ID("shop"), ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)), Name: "usual", DistinctID: "ada", Timestamp: time.UnixMilli(int64(i) * 1000)}
		if i%1500 == 100 {
			rows[i].Name = "rare"
		}
	}
	if err := s.Insert(t.Context(), rows, make([]warehouse.Outcome, all)); err != nil {
		t.Fatal(err)
	}
	type paged struct {
		Items []struct {
			Name string    `json:"event_name"`
			ID   uuid.UUID `json:"event_id"`
			At   time.Time `json:"timestamp"`
		}
		Next, Previous string
	}
	api := over(t, s)
	read := func(q url.Values) (p paged) {
		t.Helper()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, request(http.MethodGet, admin.Prefix+"events?"+q.Encode(), ""))
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d, %v: %.300s", q, w.Code, err, w.Body)
		}
		return p
	}
	q := url.Values{"name": {"rare"}, "distinct_id": {"ada"}, "limit": {"50"}}
	turn := func(from string, way func(paged) string) (seen []int64, pages int, last string) {
		t.Helper()
		for at := from; ; pages++ {
			q.Set("cursor", at)
			p := read(q)
			for _, e := range p.Items {
				if e.Name != "rare" || e.ID == uuid.Nil {
					t.Fatalf("it has %+v", e)
				}
				seen = append(seen, e.At.Unix())
			}
			if at == from && from != "" {
				seen = nil // where the walk back begins
			}
			if way(p) == "" || pages > 20 {
				return seen, pages + 1, at
			}
			at = way(p)
		}
	}
	seen, pages, last := turn("", func(p paged) string { return p.Next })
	if len(seen) != 5 || seen[0] != 6100 || seen[4] != 100 || pages < 3 {
		t.Errorf("%v on %d pages, want the five rare ones, the newest first", seen, pages)
	}
	back, _, _ := turn(last, func(p paged) string { return p.Previous })
	found := map[int64]bool{}
	q.Set("cursor", last)
	for _, e := range read(q).Items { // those of the last page, and all before it
		back = append(back, e.At.Unix())
	}
	for _, at := range back {
		found[at] = true
	}
	if len(back) != 5 || len(found) != 5 {
		t.Errorf("back from the last page, and that: %v, want the five rare ones", back)
	}
	q.Set("order", "newest")
	q.Del("cursor")
	q.Del("limit")
	q.Set("newest", "3")
	w := httptest.NewRecorder()
	if api.ServeHTTP(w, request(http.MethodGet, admin.Prefix+"events?"+q.Encode(), "")); w.Code != http.StatusBadRequest {
		t.Errorf("newest with an order is answered %d", w.Code)
	}
}

// A cursor is no secret: who makes one of a key that there is not is told so, and it is nobody else's fault.
func TestACursorOfNoKeyIsRefused(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlitewarehouse.New(t.Context(), db, sqlitewarehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api := over(t, s)
	for _, path := range []string{"events", "warnings"} {
		b := append(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix())), "nx"...)
		sum := sha256.Sum256([]byte(string(b) + admin.Prefix + path + "?"))
		w := httptest.NewRecorder()
		api.ServeHTTP(w, request(http.MethodGet, admin.Prefix+path+"?cursor="+base64.RawURLEncoding.EncodeToString(append(sum[:16:16], b...)), ""))
		refused(t, w, http.StatusBadRequest, "there is no key")
	}
}
