package opensearchsearch

import (
	"net/http"
	"testing"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/searchtest"
)

func open(t testing.TB, rawURL string, o opensearchhttp.Options) *opensearchhttp.Conn {
	t.Helper()
	conn, err := opensearchhttp.Open(t.Context(), rawURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func store(t testing.TB, conn *opensearchhttp.Conn, o Options, schemas ...*search.Schema) *Store {
	t.Helper()
	s, err := New(conn, o, schemas...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refresh makes all documents of a store findable.
func refresh(t testing.TB, s *Store) {
	t.Helper()
	if _, err := s.conn.Do(t.Context(), http.MethodPost, "/"+s.all()+"/_refresh", nil); err != nil {
		t.Fatal(err)
	}
}

// servers are those that every case runs on.
var servers = []struct {
	name string
	url  func(testing.TB) string
}{{"OpenSearch", testenv.OpenSearch}, {"Elasticsearch", testenv.Elasticsearch}}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		url  func(testing.TB) string
		conn opensearchhttp.Options
		o    Options
	}{
		{"OpenSearch", testenv.OpenSearch, opensearchhttp.Options{}, Options{}},
		{"Elasticsearch, packed, in small requests", testenv.Elasticsearch, opensearchhttp.Options{Compression: opensearchhttp.Gzip}, Options{BatchDocs: 3, BatchBytes: 4000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Need(t)
			t.Parallel()
			searchtest.Run(t, func(t *testing.T, schemas ...*search.Schema) searchtest.Harness {
				conn := open(t, c.url(t), c.conn)
				again := func() search.Store { return store(t, conn, c.o, schemas...) }
				s := store(t, conn, c.o, schemas...)
				if err := s.Setup(t.Context()); err != nil {
					t.Fatal(err)
				}
				cleanUp(t, conn, s)
				return searchtest.Harness{Store: s, Reopen: again, Refresh: func() { refresh(t, s) }}
			})
		})
	}
}
