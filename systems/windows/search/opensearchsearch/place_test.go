package opensearchsearch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows/search"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// placed indexes a document of each day, and says where each went, and under which id and
// routing.
func placed(t *testing.T, s *Store, b *stub, days ...string) (at []string) {
	t.Helper()
	var all []search.Doc
	for _, day := range days {
		all = append(all, search.Doc{Schema: "gdelt-events", Day: day, ID: "7", Body: []byte(`{}`)})
	}
	b.mu.Lock()
	b.bodies = nil
	b.mu.Unlock()
	if err := s.Index(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.bodies {
		for line := range strings.Lines(body) {
			var of struct {
				Index *struct {
					Index   string `json:"_index"`
					ID      string `json:"_id"`
					Routing string `json:"routing"`
				} `json:"index"`
			}
			if err := json.Unmarshal([]byte(line), &of); err != nil {
				t.Fatal(err)
			}
			if of.Index != nil {
				at = append(at, strings.TrimSpace(strings.TrimPrefix(of.Index.Index, "gdelt-events-")+" "+of.Index.ID+" "+of.Index.Routing))
			}
		}
	}
	return at
}

func TestOnlyDaysThatAreKeptHaveAnIndex(t *testing.T) {
	now := noon
	s, b := stubbed(t, Options{NewIndices: 3, Now: func() time.Time { return now }}, taking)
	check := func(want string, days ...string) {
		t.Helper()
		if got := strings.Join(placed(t, s, b, days...), ", "); got != want {
			t.Errorf("documents of %q went to\n%s, want\n%s", days, got, want)
		}
	}
	check("2026-04-04 7, far-2026-05 2026-04-03/7 2026-04-03", "2026-04-04", "2026-04-03") // kept for 30 days
	check("2026-05-05 7, far-2026-05 2026-05-06/7 2026-05-06", "2026-05-05", "2026-05-06") // it is tomorrow somewhere
	check("2025-03-23 7", "2025-03-23")                                                    // there already
	check("far-2026-05 9999-99-99/7 9999-99-99, far-2026-05 0000-00-00/7 0000-00-00", "9999-99-99", "0000-00-00")
	if n := s.Overflow(); n != 0 {
		t.Errorf("%d documents are said to have found the new indices used up", n)
	}
	check("2026-05-04 7, far-2026-05 2026-05-03/7 2026-05-03", "2026-05-04", "2026-05-03")
}

// taking accepts every document.
func taking(w http.ResponseWriter, lines []string) {
	statuses := make([]int, len(lines)/2)
	for i := range statuses {
		statuses[i] = 201
	}
	items(w, statuses...)
}

func TestNewIndicesOfAnHourAreCapped(t *testing.T) {
	now := noon
	s, b := stubbed(t, Options{NewIndices: 3, Now: func() time.Time { return now }}, taking)
	days := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, noon.AddDate(0, 0, -i).Format(time.DateOnly))
		}
		return all
	}
	own := func(at []string) (n int) {
		for _, a := range at {
			if !strings.HasPrefix(a, far) {
				n++
			}
		}
		return n
	}
	if n := own(placed(t, s, b, days(0, 10)...)); n != 3 || s.Overflow() != 7 {
		t.Errorf("of ten days %d have an index, and %d documents found none, want 3 and 7", n, s.Overflow())
	}
	now = now.Add(59 * time.Minute)
	s.places.looked = now // the stub forgets its indices
	if n := own(placed(t, s, b, days(0, 10)...)); n != 3 || s.Overflow() != 14 {
		t.Errorf("within the hour %d have an index, and %d documents found none, want 3 and 14", n, s.Overflow())
	}
	now = now.Add(time.Minute)
	s.places.looked = now
	if n := own(placed(t, s, b, days(0, 10)...)); n != 6 {
		t.Errorf("after an hour %d have an index, want 6", n)
	}
}

// TestDaysWithoutEndAreAFewIndices indexes documents of 1,500 days on a real server.
func TestDaysWithoutEndAreAFewIndices(t *testing.T) {
	for name, url := range map[string]string{"OpenSearch": testenv.OpenSearch(t), "Elasticsearch": testenv.Elasticsearch(t)} {
		t.Run(name, func(t *testing.T) {
			const days, most = 1500, 5
			schema, err := search.New(search.Definition{Name: testenv.Name("days"), Day: "day", Time: "at", Order: []string{"n"}, Keep: 10 * 24 * time.Hour,
				Fields: []search.Field{{Name: "at", Type: search.Date}, {Name: "n", Type: search.Long}}})
			if err != nil {
				t.Fatal(err)
			}
			conn := open(t, url, opensearchhttp.Options{})
			now := time.Now()
			s := store(t, conn, Options{NewIndices: most, Now: func() time.Time { return now }}, schema)
			var docs []search.Doc
			for i := range days {
				docs = append(docs, search.Doc{Schema: schema.Name, Day: now.UTC().AddDate(0, 0, -i).Format(time.DateOnly), ID: fmt.Sprint(i), Body: fmt.Appendf(nil, `{"n":%d}`, i)})
			}
			for range 2 { // sent again they replace themselves
				if err := s.Index(t.Context(), docs); err != nil {
					t.Fatal(err)
				}
			}
			made, err := s.made(t.Context(), s.all())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for index := range made {
					_, _ = conn.Do(t.Context(), http.MethodDelete, "/"+index, nil)
				}
			})
			if len(made) != most+1 {
				t.Errorf("%d days have %d indices, want %d and a common one", days, len(made), most)
			}
			if _, err := conn.Do(t.Context(), http.MethodPost, "/"+s.all()+"/_refresh", nil); err != nil {
				t.Fatal(err)
			}
			page, err := s.Search(t.Context(), search.Query{Schema: schema.Name, Text: "n:1499"})
			if err != nil || page.Total != 1 || len(page.Hits) != 1 || page.Hits[0].Day != docs[1499].Day || page.Hits[0].ID != "1499" {
				t.Errorf("the oldest is found as %+v, %v; want its day %s and its id", page, err, docs[1499].Day)
			}
			if page, err = s.Search(t.Context(), search.Query{Schema: schema.Name}); err != nil || page.Total != days {
				t.Errorf("%d documents are found (%v), want %d", page.Total, err, days)
			}
			if !slices.ContainsFunc(s.Inspect(t.Context()), func(f preflight.Finding) bool {
				return f.Check == "search: indices of days" && f.Verdict == preflight.Warn && strings.Contains(f.Advice, "windows.search.new_indices")
			}) {
				t.Error("the doctor does not say that the new indices are used up")
			}
			gone, err := s.Expire(t.Context(), now.Add(11*24*time.Hour))
			if err != nil || len(gone) != most {
				t.Errorf("after eleven days %d indices went (%v), want %d: documents may have come to the common one since", len(gone), err, most)
			}
			if gone, err = s.Expire(t.Context(), now.Add(42*24*time.Hour)); err != nil || len(gone) != 1 {
				t.Errorf("then %q went (%v), want the common one", gone, err)
			}
		})
	}
}
