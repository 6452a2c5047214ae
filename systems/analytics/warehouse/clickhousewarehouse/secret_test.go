package clickhousewarehouse

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

const password = "hunter2-is-no-ddl"

// guarded is a server whose users need a password. It remembers what it was sent.
type guarded struct {
	sync.Mutex
	sent []string
}

func newGuarded(t *testing.T) (g *guarded, conn *clickhousehttp.Conn) {
	rawURL, database := testenv.ClickHouse(t)
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	g = &guarded{}
	server := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("X-ClickHouse-User") != "tidemill" || r.Header.Get("X-ClickHouse-Key") != password {
			http.Error(w, "Code: 516. DB::Exception: Authentication failed", http.StatusForbidden)
			return
		}
		r.Header.Del("X-ClickHouse-User")
		r.Header.Del("X-ClickHouse-Key")
		g.Lock()
		g.sent = append(g.sent, r.URL.RawQuery+" "+string(body))
		g.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return g, open(t, front.URL, clickhousehttp.Options{Database: database, User: "tidemill", Password: tidemill.NewSecret(password)})
}

// The server logs statements (system.query_log), keeps definitions in its own files, and shows
// them: none may have a password.
func TestThePasswordIsInNoStatement(t *testing.T) {
	g, conn := newGuarded(t)
	db := clickhousehttp.Name(conn.Database())
	collection := testenv.Name("c")
	exec(t, conn, "CREATE NAMED COLLECTION "+collection+" AS user = 'default', password = ''")
	t.Cleanup(func() {
		if err := conn.Exec(context.Background(), "DROP NAMED COLLECTION "+collection); err != nil {
			t.Error(err)
		}
	})
	dictionary := func(s *Store) (found, advice string) {
		for _, f := range s.Inspect(t.Context()) {
			if f.Check == "clickhouse: dictionary of persons" {
				found, advice = f.Detail, f.Advice
			}
		}
		return found, advice
	}

	// Without a collection there is no dictionary, and all else works.
	s := store(t, conn, Options{})
	if found, advice := dictionary(s); !strings.Contains(found, "there is no person_overrides_dict: its definition would hold the password") || !strings.Contains(advice, "clickhouse.collection") {
		t.Errorf("Inspect says %q, %q", found, advice)
	}
	insert(t, s, ev(1), ev(2))
	if n := len(list(t, s, warehouse.Filter{Project: ev(1).Project})); n != 2 {
		t.Errorf("%d events, want 2", n)
	}

	// An existing deployment's dictionary stays unchanged, as nothing can replace it.
	exec(t, conn, "CREATE DICTIONARY "+s.names.dictionary+" (project_id UUID, distinct_id String, person_id UUID) PRIMARY KEY project_id, distinct_id SOURCE(CLICKHOUSE(USER 'tidemill' PASSWORD 'old-one' QUERY 'SELECT 1')) LIFETIME(MIN 30 MAX 60) LAYOUT(COMPLEX_KEY_HASHED())")
	s = store(t, conn, Options{})
	if found, advice := dictionary(s); !strings.Contains(found, "has a password in its definition") || !strings.Contains(advice, "clickhouse.collection") {
		t.Errorf("Inspect says %q, %q", found, advice)
	}

	// With a collection it is replaced, and read.
	for range 2 {
		s = store(t, conn, Options{Collection: collection})
		if found, advice := dictionary(s); found != "" {
			t.Errorf("Inspect says %q, %q", found, advice)
		}
	}
	o := person.Override{Ref: ev(1).Ref(), Person: ev(1).Person, Version: 9}
	if err := s.Override(t.Context(), []person.Override{o}); err != nil {
		t.Fatal(err)
	}
	if got := text(t, conn, "SELECT toString(dictGet('"+conn.Database()+".person_overrides_dict', 'person_id', (toUUID('"+ev(1).Project.String()+"'), 'ann')))"); got != ev(1).Person.String() {
		t.Errorf("the dictionary has %s, want %s", got, ev(1).Person)
	}
	exec(t, conn, "DROP DICTIONARY "+s.names.dictionary)
	s = store(t, conn, Options{Collection: collection}) // made anew

	for _, definitions := range []string{
		"SELECT toString(groupArray(create_table_query)) FROM system.tables WHERE database = " + clickhousehttp.Text(conn.Database()),
		"SELECT toString(groupArray(concat(source, origin))) FROM system.dictionaries",
		"SHOW CREATE DICTIONARY " + s.names.dictionary,
		"SHOW CREATE DATABASE " + db,
	} {
		got := text(t, conn, definitions+" SETTINGS format_display_secrets_in_show_and_select = 1")
		if strings.Contains(got, password) || strings.Contains(got, "old-one") || strings.Contains(got, "PASSWORD") {
			t.Errorf("%s shows a password:\n%s", definitions, got)
		}
	}
	g.Lock()
	defer g.Unlock()
	made := false
	for _, statement := range g.sent {
		made = made || strings.HasPrefix(statement, " CREATE DICTIONARY IF NOT EXISTS")
		if strings.Contains(statement, password) {
			t.Errorf("a statement has the password:\n%s", statement)
		}
	}
	if !made {
		t.Errorf("no statement of %d makes the dictionary", len(g.sent))
	}
}
