package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/definition/postgresdefinition"
	"github.com/tidemill/tidemill/systems/analytics/catalog"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// A PostgreSQL that another product wrote has definitions under the names that queries use,
// described and verified by people. They are found again, without duplicates.
func TestDefinitionsOfAnAdoptedDatabaseAreFoundAgain(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	for _, statement := range []string{
		`INSERT INTO projects(id, name, token) VALUES ($1, 'shop', 'key')`,
		`INSERT INTO event_definitions(project_id, event_name, description, tags, verified, last_seen_at)
			VALUES ($1, 'buy', 'paid', '{core}', true, '2020-01-01')`,
		`INSERT INTO property_definitions(project_id, property_name, property_type, description, tags, verified, last_seen_at)
			VALUES ($1, 'properties.price', 'event', 'in cents', '{money}', true, '2020-01-01'),
				($1, 'user_properties.plan', 'person', 'as billed', '{crm}', true, '2020-01-01'),
				($1, 'user_properties.since', 'person', 'first visit', '{}', true, '2020-01-01')`,
		`INSERT INTO event_properties(project_id, event_name, property_name, property_type, last_seen_at)
			VALUES ($1, 'buy', 'properties.price', 'event', '2020-01-01'), ($1, 'buy', 'user_properties.plan', 'person', '2020-01-01')`,
	} {
		if _, err := db.Exec(t.Context(), statement, p); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	defs, err := postgresdefinition.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.New(defs, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !c.See(&event.Event{Project: p, Name: "buy", Properties: []byte(`{"price":1,"$set_once":{"since":"2026-05-04"}}`), UserProperties: []byte(`{"plan":"pro"}`)}) {
		t.Fatal("there was no room")
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		`SELECT concat_ws(' ', event_name, description, tags, verified, last_seen_at > '2025-01-01') FROM event_definitions ORDER BY 1`: {"buy paid {core} t t"},
		`SELECT concat_ws(' ', property_name, property_type, value_type, description, tags, verified, last_seen_at > '2025-01-01') FROM property_definitions ORDER BY 1`: {
			"properties.price event Numeric in cents {money} t t", "user_properties.plan person String as billed {crm} t t", "user_properties.since person DateTime first visit {} t t"},
		`SELECT concat_ws(' ', event_name, property_name, property_type, last_seen_at > '2025-01-01') FROM event_properties ORDER BY 1`: {
			"buy properties.price event t", "buy user_properties.plan person t", "buy user_properties.since person t"},
	} {
		var got []string
		err := db.Query(t.Context(), func(r pgx.Rows) error {
			var line string
			err := r.Scan(&line)
			got = append(got, line)
			return err
		}, query)
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s (%v)\n got %q\nwant %q", query, err, got, want)
		}
	}
}
