package postgresdefinition_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/postgresdefinition"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// The projects of the suite.
var projects = []string{"aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"}

func TestConformance(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		db := open(t, url)
		exec(t, db, "TRUNCATE projects CASCADE")
		addProjects(t, db)
		return definitiontest.Harness{Definitions: definitions(t, db), Reopen: func() definition.Definitions { return definitions(t, open(t, url)) }}
	})
}

func open(t testing.TB, url string) *postgresdb.DB {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func definitions(t testing.TB, db *postgresdb.DB) *postgresdefinition.Definitions {
	t.Helper()
	s, err := postgresdefinition.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) int64 {
	t.Helper()
	n, err := db.Exec(context.Background(), statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

func addProjects(t testing.TB, db *postgresdb.DB) {
	for _, p := range projects {
		exec(t, db, "INSERT INTO projects(id, name, token) VALUES ($1::text::uuid, 'p', $1)", p)
	}
}

func one(t testing.TB, db *postgresdb.DB, query string, args ...any) (s string) {
	t.Helper()
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&s) }, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

func batch(n int, at time.Time) *definition.Batch {
	p := uuid.MustParse(projects[0])
	b := &definition.Batch{Events: []definition.Event{{Project: p, Name: "e", LastSeen: at}}}
	for i := range n {
		name := fmt.Sprintf("property %d", i)
		b.Properties = append(b.Properties, definition.Property{Project: p, Name: name, Of: definition.OfEvent, Type: definition.Numeric, LastSeen: at})
		b.EventProperties = append(b.EventProperties, definition.EventProperty{Project: p, Event: "e", Property: name, Of: definition.OfEvent, LastSeen: at})
	}
	return b
}

func fresh(t testing.TB) (*postgresdb.DB, *postgresdefinition.Definitions) {
	db := open(t, testenv.Postgres(t))
	addProjects(t, db)
	return db, definitions(t, db)
}

func upsert(t testing.TB, s *postgresdefinition.Definitions, b *definition.Batch) {
	t.Helper()
	if err := s.Upsert(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestUnchangedRowsAreNotWritten(t *testing.T) {
	testenv.Need(t)
	db, s := fresh(t)
	// ctid and xmax tell whether a row was written or only locked.
	state := func() string {
		return one(t, db, `SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT 'e'||ctid||xmax x FROM event_definitions
			UNION ALL SELECT 'p'||ctid||xmax FROM property_definitions UNION ALL SELECT 'q'||ctid||xmax FROM event_properties) t`)
	}
	upsert(t, s, batch(10, noon))
	before := state()
	upsert(t, s, batch(10, noon))
	upsert(t, s, batch(10, noon.Add(59*time.Minute)))
	upsert(t, s, batch(10, noon.Add(-time.Hour)))
	if got := state(); got != before {
		t.Errorf("what was known already was written:\n%s\n%s", before, got)
	}
	upsert(t, s, batch(10, noon.Add(time.Hour)))
	if state() == before {
		t.Error("a new hour was not written")
	}
}

func TestWhatPeopleWroteStays(t *testing.T) {
	testenv.Need(t)
	db, s := fresh(t)
	exec(t, db, `INSERT INTO property_definitions(project_id, property_name, property_type, description, tags, verified, last_seen_at)
		VALUES ($1::text::uuid, 'price', 'event', 'in cents', '{money}', true, '2020-01-01')`, projects[0])
	exec(t, db, `INSERT INTO event_definitions(project_id, event_name, description, tags, verified, last_seen_at)
		VALUES ($1::text::uuid, 'buy', 'paid', '{core}', true, '2020-01-01')`, projects[0])
	p := uuid.MustParse(projects[0])
	b := &definition.Batch{Events: []definition.Event{{Project: p, Name: "buy", LastSeen: noon.Add(time.Minute)}},
		Properties: []definition.Property{{Project: p, Name: "price", Of: definition.OfEvent, Type: definition.Numeric, LastSeen: noon.Add(time.Minute)}}}
	upsert(t, s, b)
	if got, want := one(t, db, "SELECT concat_ws(' ', description, tags, verified, value_type, is_numerical, last_seen_at) FROM property_definitions"),
		"in cents {money} t Numeric t 2026-05-04 12:00:00+00"; got != want {
		t.Errorf("the property is %q, want %q", got, want)
	}
	if got, want := one(t, db, "SELECT concat_ws(' ', description, tags, verified, last_seen_at) FROM event_definitions"),
		"paid {core} t 2026-05-04 12:00:00+00"; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
}

func TestProjectsThatAreGoneStopNobody(t *testing.T) {
	testenv.Need(t)
	_, s := fresh(t)
	b := batch(1, noon)
	b.Events = append(b.Events, definition.Event{Project: uuid.New(), Name: "lost", LastSeen: noon})
	upsert(t, s, b)
	got, err := s.List(t.Context(), uuid.MustParse(projects[0]))
	if err != nil || len(got.Events) != 1 {
		t.Errorf("List: %+v, %v; want the event of the project that is there", got, err)
	}
}

func TestNamesThatColumnsCannotHold(t *testing.T) {
	testenv.Need(t)
	_, s := fresh(t)
	p := uuid.MustParse(projects[0])
	var want []string
	b := &definition.Batch{}
	for _, name := range []string{"a\x00", "\xff", "~bytes:", strings.Repeat("é", 500), strings.Repeat("x", 501), strings.Repeat("日", 5000)} {
		want = append(want, name)
		b.EventProperties = append(b.EventProperties, definition.EventProperty{Project: p, Event: name, Property: name, Of: definition.OfPerson, LastSeen: noon})
	}
	upsert(t, s, b)
	upsert(t, s, b)
	list, err := s.List(t.Context(), p)
	var got []string
	for _, e := range list.EventProperties {
		got = append(got, e.Event)
	}
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		t.Errorf("List: %q, %v; want %q", got, err, want)
	}
}

func BenchmarkUpsert(b *testing.B) {
	testenv.Need(b)
	_, s := fresh(b)
	rows := 0
	for at := noon; b.Loop(); at = at.Add(time.Hour) {
		upsert(b, s, batch(500, at))
		rows += 1001
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
