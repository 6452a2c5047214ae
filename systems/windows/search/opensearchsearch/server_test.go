package opensearchsearch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// renamed is a schema of ours with a unique name.
func renamed(t testing.TB, s *search.Schema) *search.Schema {
	t.Helper()
	d := s.Definition
	d.Name = testenv.Name("t-") + "-" + d.Name // no pattern of a real index matches it
	made, err := search.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// each runs a test on a store of events and mentions at both servers, the shared ones.
func each(t *testing.T, do func(t *testing.T, s *Store, events, mentions *search.Schema)) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			testenv.Need(t)
			t.Parallel()
			events, mentions := renamed(t, search.Events()), renamed(t, search.Mentions())
			conn := open(t, server.url(t), opensearchhttp.Options{})
			s := store(t, conn, Options{Now: inMarch}, events, mentions)
			cleanUp(t, conn, s)
			do(t, s, events, mentions)
		})
	}
}

func mustSetup(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ask reads an answer of the server into a tree.
func ask(t testing.TB, s *Store, method, path, body string) (tree map[string]any) {
	t.Helper()
	answer, err := s.conn.Do(t.Context(), method, path, []byte(body))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if err := json.Unmarshal(answer, &tree); err != nil {
		t.Fatalf("%s %s: %s", method, path, answer)
	}
	return tree
}

func doc(t testing.TB, s *search.Schema, key, payload string) search.Doc {
	t.Helper()
	d, err := s.Doc([]byte(key), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const eventOut = `{"globalEventId":1234567890123,"actor1Code":"USAGOV","actor1Name":"UNITED STATES","actor1Location":{"lat":38.9,"lon":-77.03},"isRootEvent":1,"quadClass":1,
"goldsteinScale":2.8,"actor1GeoType":3,"actionGeoType":3,"actionGeoFullName":"Paris, France","sourceUrl":"https://example.com/a","dateAdded":"2025-03-23T15:15:00Z","eventDate":"2025-03-23T00:00:00Z","actor2Location":null,"elasticIndexDate":"2025-03-23"}`

func TestIndicesHaveTheTypesOfTheirTemplates(t *testing.T) {
	each(t, func(t *testing.T, s *Store, events, mentions *search.Schema) {
		mustSetup(t, s)
		err := s.Index(t.Context(), []search.Doc{
			doc(t, events, "1234567890123", eventOut),
			doc(t, mentions, "1_"+strings.Repeat("https://example.com/é", 5000), fmt.Sprintf(`{"globalEventId":1,"mentionIdentifier":%q,"mentionTimeDate":"2025-03-23T15:15:00Z","elasticIndexDate":"2025-03-23","mentionDocTranslationInfo":"srclc:fra"}`, strings.Repeat("https://example.com/é", 5000))),
		})
		if err != nil {
			t.Fatal(err)
		}
		refresh(t, s)
		for _, schema := range []*search.Schema{events, mentions} {
			index := schema.Index("2025-03-23")
			tree := ask(t, s, http.MethodGet, "/"+index, "")[index].(map[string]any)
			properties := tree["mappings"].(map[string]any)["properties"].(map[string]any)
			if len(properties) != len(schema.Fields) {
				t.Errorf("%s has %d fields, want %d: the day's field is not stored", index, len(properties), len(schema.Fields))
			}
			for _, f := range schema.Fields {
				p := properties[f.Name].(map[string]any)
				if p["type"] != string(f.Type) || f.Stored != (p["index"] == false) || (f.Type == search.Text && !f.Stored) != (p["fields"] != nil) {
					t.Errorf("%s.%s is %v, want %s", index, f.Name, p, f.Type)
				}
			}
			settings := tree["settings"].(map[string]any)["index"].(map[string]any)
			if settings["number_of_shards"] != "1" || settings["number_of_replicas"] != "0" {
				t.Errorf("%s has settings %v", index, settings)
			}
		}
		p, err := s.Search(t.Context(), search.Query{Schema: events.Name, Text: `"united states" paris actor1Code:USAGOV dateAdded:2025-03-23`})
		if err != nil || len(p.Hits) != 1 || strings.Contains(string(p.Hits[0].Body), "elasticIndexDate") {
			t.Errorf("%+v, %v", p, err)
		}
		if p, err := s.Search(t.Context(), search.Query{Schema: mentions.Name}); err != nil || len(p.Hits) != 1 || len(p.Hits[0].ID) > search.MaxID {
			t.Errorf("a mention with an identifier of 100,000 bytes: %d hits, %v", len(p.Hits), err)
		}
		// A place is a place: 111 km around Washington.
		tree := ask(t, s, http.MethodPost, "/"+events.Name+"-*/_count", `{"query":{"geo_distance":{"distance":"111km","actor1Location":{"lat":38,"lon":-77}}}}`)
		if tree["count"] != 1.0 {
			t.Errorf("geo distance finds %v", tree["count"])
		}
	})
}

func TestATemplateIsPutWhereItDiffersAndOnlyThere(t *testing.T) {
	each(t, func(t *testing.T, s *Store, events, _ *search.Schema) {
		mustSetup(t, s)
		want := fmt.Sprint(ask(t, s, http.MethodGet, "/_index_template/"+events.Name, ""))
		for _, spoiled := range []string{
			`{"index_patterns":["` + events.Name + `-*"],"priority":200,"template":{"settings":{"number_of_shards":3},"mappings":{"properties":{"globalEventId":{"type":"text"}}}}}`,
			strings.Replace(body(t, of(events)), `"double"`, `"float"`, 1),
			strings.Replace(body(t, of(events)), `"number_of_shards":"1"`, `"number_of_shards":"2"`, 1),
			strings.Replace(body(t, of(events)), `"priority":200`, `"priority":199`, 1),
			strings.Replace(body(t, of(events)), `{"type":"long"}`, `{"type":"long","store":true}`, 1),
		} {
			ask(t, s, http.MethodPut, "/_index_template/"+events.Name, spoiled)
			if fmt.Sprint(ask(t, s, http.MethodGet, "/_index_template/"+events.Name, "")) == want {
				t.Fatalf("nothing is spoiled by %s", spoiled)
			}
			mustSetup(t, s)
			if got := fmt.Sprint(ask(t, s, http.MethodGet, "/_index_template/"+events.Name, "")); got != want {
				t.Errorf("after Setup it is\n%s\nwant\n%s", got, want)
			}
		}
		answer, err := s.conn.Do(t.Context(), http.MethodGet, "/_index_template/"+events.Name, nil)
		if err != nil || !same(answer, []byte(body(t, of(events)))) {
			t.Errorf("what was put is not taken for the same: it would be put at every start (%v)", err)
		}
	})
}

func body(t testing.TB, tpl template) string {
	t.Helper()
	b, err := json.Marshal(tpl, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestALockedIndexWaitsAndNobodyIsToBlame(t *testing.T) {
	each(t, func(t *testing.T, s *Store, events, _ *search.Schema) {
		mustSetup(t, s)
		all := []search.Doc{doc(t, events, "1", eventOut), doc(t, events, "2", strings.Replace(eventOut, "2025-03-23\"}", "2025-03-24\"}", 1))}
		if err := s.Index(t.Context(), all[:1]); err != nil {
			t.Fatal(err)
		}
		index := events.Index("2025-03-23")
		for _, lock := range []struct {
			name string
			kind tidemill.Kind
			on   func()
			off  func()
		}{
			{"read only", tidemill.RateLimit, func() { ask(t, s, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.write":true}`) }, func() { ask(t, s, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.write":false}`) }},
			{"a full disk", tidemill.RateLimit, func() {
				ask(t, s, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.read_only_allow_delete":true}`)
			}, func() {
				ask(t, s, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.read_only_allow_delete":null}`)
			}},
			{"closed", tidemill.RateLimit, func() { ask(t, s, http.MethodPost, "/"+index+"/_close", "") }, func() { ask(t, s, http.MethodPost, "/"+index+"/_open?wait_for_active_shards=1", "") }},
		} {
			lock.on()
			if got := failed(t, s.Index(t.Context(), all)); len(got) != 1 || got[0] != lock.kind {
				t.Errorf("%s: %v, want the document of the locked index to be %v", lock.name, got, lock.kind)
			}
			lock.off()
			if err := s.Index(t.Context(), all); err != nil {
				t.Errorf("%s no more: %v", lock.name, err)
			}
		}
	})
}

func TestLooseDurabilityIsFound(t *testing.T) {
	each(t, func(t *testing.T, s *Store, events, _ *search.Schema) {
		mustSetup(t, s)
		if err := s.Index(t.Context(), []search.Doc{doc(t, events, "1", eventOut)}); err != nil {
			t.Fatal(err)
		}
		for _, f := range s.Inspect(t.Context()) {
			if f.Verdict == preflight.Fail {
				t.Errorf("%+v", f)
			}
		}
		ask(t, s, http.MethodPut, "/"+events.Index("2025-03-23")+"/_settings", `{"index.translog.durability":"async"}`)
		found := s.Inspect(t.Context())
		if last := found[len(found)-1]; last.Verdict != preflight.Fail || !strings.Contains(last.Detail, events.Name) {
			t.Errorf("%+v", found)
		}
	})
}

// Answers are lost while documents come: sent again, they are stored once.
func TestDocumentsWhoseAnswerWasLostAreThereOnce(t *testing.T) {
	each(t, func(t *testing.T, direct *Store, events, mentions *search.Schema) {
		mustSetup(t, direct)
		link := testenv.NewLink(t, direct.conn.Host())
		s := store(t, open(t, "http://"+link.Addr, opensearchhttp.Options{Timeout: 5 * time.Second}), Options{BatchDocs: 20, Now: inMarch}, events, mentions)
		mustSetup(t, s)
		var all []search.Doc
		for i := range 100 {
			all = append(all, doc(t, events, fmt.Sprint(i), eventOut))
		}
		link.LoseAnswers(500)
		err := s.Index(t.Context(), all)
		for _, kind := range failed(t, err) {
			if kind != tidemill.Transient && kind != tidemill.Timeout {
				t.Errorf("a lost answer is %v: %v", kind, err)
			}
		}
		link.Heal()
		if err := s.Index(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		refresh(t, direct)
		p, err := direct.Search(t.Context(), search.Query{Schema: events.Name, Size: search.MaxSize})
		if err != nil || len(p.Hits) != 100 {
			t.Errorf("%d documents, want 100: %v", len(p.Hits), err)
		}
	})
}

// inMarch is when eventOut is of today.
func inMarch() time.Time { return time.Date(2025, 3, 23, 12, 0, 0, 0, time.UTC) }

// A server of this test's own that accepts few writes at a time, has room for few indices, and
// is killed.
func TestAServerThatRefusesAndDies(t *testing.T) {
	testenv.Need(t)
	t.Parallel()
	server := testenv.Start(t, testenv.PrivateOpenSearch, "OPENSEARCH_SETTINGS=thread_pool.write.size=1 thread_pool.write.queue_size=1 cluster.max_shards_per_node=3", "SEARCH_HEAP=256m")
	events := search.Events()
	s := store(t, open(t, server.URL, opensearchhttp.Options{Connections: 32, Timeout: 20 * time.Second}), Options{Now: inMarch}, events)
	mustSetup(t, s)
	day := func(n int) string {
		return strings.Replace(eventOut, "2025-03-23\"}", fmt.Sprintf("2025-03-%02d\"}", n), 1)
	}

	t.Run("no room for another day waits", func(t *testing.T) {
		for n := 1; n <= 3; n++ {
			if err := s.Index(t.Context(), []search.Doc{doc(t, events, "1", day(n))}); err != nil {
				t.Fatal(err)
			}
		}
		got := failed(t, s.Index(t.Context(), []search.Doc{doc(t, events, "1", day(1)), doc(t, events, "1", day(4))}))
		if len(got) != 1 || got[1] != tidemill.RateLimit {
			t.Errorf("%v, want the fourth day's to wait", got)
		}
		found := s.Inspect(t.Context())
		if !slices.ContainsFunc(found, func(f preflight.Finding) bool {
			return f.Check == "search: room for indices" && f.Verdict == preflight.Warn
		}) {
			t.Errorf("%+v", found)
		}
	})

	t.Run("what a full queue refuses is taken alone when it is sent again", func(t *testing.T) {
		const lanes, docs = 16, 50
		before := stored(t, s) // by what ran before, which is nothing when this runs again alone
		var refused []search.Doc
		for round := 0; len(refused) == 0 && round < 20; round++ {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for lane := range lanes {
				wg.Go(func() {
					var all []search.Doc
					for i := range docs {
						all = append(all, doc(t, events, fmt.Sprint(lane, "-", i), day(1+i%3)))
					}
					err := s.Index(t.Context(), all)
					if err == nil {
						return
					}
					partly, ok := errors.AsType[*tidemill.Partial](err)
					if !ok {
						t.Errorf("Index: %v", err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for _, f := range partly.Failed {
						if k := tidemill.KindOf(f.Err); k != tidemill.RateLimit {
							t.Errorf("refused as %v: %v", k, f.Err)
						}
						refused = append(refused, all[f.Index])
					}
				})
			}
			wg.Wait()
		}
		t.Logf("%d documents were refused", len(refused))
		if len(refused) == 0 {
			t.Fatal("nothing was refused: this shows nothing")
		}
		for tries := 0; len(refused) > 0; tries++ { // three indices are two more than it accepts at a time
			err := s.Index(t.Context(), refused)
			var again []search.Doc
			if err != nil {
				for i := range failed(t, err) {
					again = append(again, refused[i])
				}
			}
			if refused = again; tries > 20 {
				t.Fatalf("%d documents are still refused: %v", len(refused), err)
			}
		}
		wantDocs(t, s, before+lanes*docs)
	})

	t.Run("what was taken is there after a kill", func(t *testing.T) {
		before := stored(t, s)
		var taken []search.Doc
		for i := range 200 {
			taken = append(taken, doc(t, events, fmt.Sprint("kill-", i), day(1)))
		}
		if err := s.Index(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		got := failed(t, s.Index(t.Context(), taken[:2]))
		if got[0] != tidemill.Transient || got[1] != tidemill.Transient {
			t.Errorf("while it is away: %v", got)
		}
		if err := s.Health(t.Context()); tidemill.KindOf(err) != tidemill.Transient {
			t.Errorf("Health while it is away: %v", err)
		}
		server.Restart()
		wantDocs(t, s, before+len(taken))
		if err := s.Index(t.Context(), taken); err != nil {
			t.Errorf("again after it is back: %v", err)
		}
		wantDocs(t, s, before+len(taken))
	})

	t.Run("a frozen server is a timeout", func(t *testing.T) {
		quick := store(t, open(t, server.URL, opensearchhttp.Options{Timeout: 300 * time.Millisecond}), Options{Unmanaged: true, Now: inMarch}, events)
		server.Freeze()
		defer server.Thaw()
		if got := failed(t, quick.Index(t.Context(), []search.Doc{doc(t, events, "1", day(1))})); got[0] != tidemill.Timeout {
			t.Errorf("%v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := quick.Index(ctx, []search.Doc{doc(t, events, "1", day(1))}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the caller's time is up: %v", err)
		}
	})
}

// stored is how many documents there are.
func stored(t testing.TB, s *Store) int {
	t.Helper()
	refresh(t, s)
	n, _ := ask(t, s, http.MethodGet, "/"+s.all()+"/_count", "")["count"].(float64)
	return int(n)
}

// wantDocs counts the stored documents, each once.
func wantDocs(t testing.TB, s *Store, want int) {
	t.Helper()
	if n := stored(t, s); n != want {
		t.Errorf("%d documents, want %d", n, want)
	}
}
