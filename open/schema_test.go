package open_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/postgresperson"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/state/table/postgrestable"
)

// instance is what a process has in a database.
type instance struct {
	db       *open.PostgresDB
	log      *postgresledger.Ledger
	persons  *postgresperson.Store
	projects *postgresproject.Projects
}

func newInstance(t *testing.T, url string) instance {
	t.Helper()
	db, err := open.Postgres(t.Context(), tidemill.NewSecret(url), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	i := instance{db: db}
	var errs [6]error
	_, errs[0] = postgrestable.New(t.Context(), db, tablelock.Spec())
	_, errs[1] = postgrestable.New(t.Context(), db, tableprofile.Spec())
	_, errs[2] = postgrestable.New(t.Context(), db, tabledeadletter.Spec())
	i.log, errs[3] = postgresledger.New(t.Context(), db, postgresledger.Options{})
	i.persons, errs[4] = postgresperson.New(t.Context(), db, postgresperson.Options{})
	i.projects, errs[5] = postgresproject.New(t.Context(), db)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// relations are those of a database by schema.
func relations(t *testing.T, i instance, where string) (all map[string]string) {
	t.Helper()
	all = map[string]string{}
	if err := i.db.Query(t.Context(), func(r pgx.Rows) error {
		var schema, names string
		err := r.Scan(&schema, &names)
		all[schema] = names
		return err
	}, `SELECT relnamespace::regnamespace::text, string_agg(relname, ' ' ORDER BY relname) FROM pg_class
		WHERE relnamespace::regnamespace::text IN ('public', 'one', 'two') AND relkind IN ('r', 'v', 'S') AND `+where+` GROUP BY 1`); err != nil {
		t.Fatal(err)
	}
	return all
}

// Instances of two schemas of a database, and one of none, have nothing of ours together. The tables
// of other programs' forms are where search_path says.
func TestInstancesOfTwoSchemasDoNotMeet(t *testing.T) {
	testenv.Need(t)
	pooled, direct := testenv.PgBouncer(t)
	is := []instance{newInstance(t, direct+"&schema=one"), newInstance(t, pooled+"&schema=two")}
	if of := relations(t, is[0], "relname LIKE 'tidemill%'"); of["public"] != "" || of["one"] != of["two"] || !strings.Contains(of["one"], "tidemill_profile_identity") {
		t.Errorf("our own tables are %v", of)
	}
	if of := relations(t, is[0], "relname NOT LIKE 'tidemill%'"); len(of) != 1 || of["public"] != "event_definitions event_properties person_distinct_ids persons projects property_definitions" {
		t.Errorf("the others are %v", of)
	}
	is = append(is, newInstance(t, direct))
	id := uuid.New()
	for n, i := range is {
		es := []*ledger.Entry{{Key: "k"}}
		if err := i.log.Begin(t.Context(), es, ledger.Begin{}); err != nil || es[0].State != ledger.Fresh {
			t.Errorf("instance %d: the entry is %v, %v; want fresh", n, es[0].State, err)
		}
		key := project.Hash{byte(n)}
		if err := i.projects.Ensure(t.Context(), project.Project{ID: id, Name: "shop"}, key); err != nil {
			t.Fatal(err)
		}
		if kept, err := i.persons.Oldest(t.Context(), 9); err != nil || len(kept) != 0 {
			t.Errorf("instance %d: %d merges, %v", n, len(kept), err)
		}
		if err := i.persons.Keep(t.Context(), []person.Merge{{Ref: person.Ref{Project: id, Distinct: "a"}, Other: "b", At: time.UnixMilli(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	for n, i := range is {
		for other := range is {
			_, err := i.projects.ByKey(t.Context(), project.Hash{byte(other)})
			if shown := other == 0; (err == nil) != (other == n || shown) { // the first is the token of the project too, which all see
				t.Errorf("instance %d and the key of %d: %v", n, other, err)
			}
		}
		es := []*ledger.Entry{{Key: "k"}}
		if err := i.log.Find(t.Context(), es); err != nil || es[0].State != ledger.Running {
			t.Errorf("instance %d: the entry is %v, %v", n, es[0].State, err)
		}
	}
}

func TestASchemaIsAPlainName(t *testing.T) {
	for _, name := range []string{"", "A", "a b", `a";`, "pg_catalog", "1a", strings.Repeat("a", 64)} {
		if _, err := open.Postgres(context.Background(), tidemill.NewSecret("postgres://u@127.0.0.1:1/d?schema="+url.QueryEscape(name)), 0); err == nil || !strings.Contains(err.Error(), "invalid schema") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
