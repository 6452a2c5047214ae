package open_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/preflight"
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
	i, err := tryInstance(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func tryInstance(t *testing.T, url string) (i instance, err error) {
	t.Helper()
	if i.db, err = open.Postgres(t.Context(), tidemill.NewSecret(url), 0); err != nil {
		return i, err
	}
	t.Cleanup(i.db.Close)
	db := i.db
	var errs [6]error
	_, errs[0] = postgrestable.New(t.Context(), db, tablelock.Spec())
	_, errs[1] = postgrestable.New(t.Context(), db, tableprofile.Spec())
	_, errs[2] = postgrestable.New(t.Context(), db, tabledeadletter.Spec())
	i.log, errs[3] = postgresledger.New(t.Context(), db, postgresledger.Options{})
	i.persons, errs[4] = postgresperson.New(t.Context(), db, postgresperson.Options{})
	i.projects, errs[5] = postgresproject.New(t.Context(), db)
	return i, errors.Join(errs[:]...)
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

// The program runs as a role that makes no table, on tables of another role, in a schema of their own
// and without one.
func TestAProgramNeedsNoRightToMakeTables(t *testing.T) {
	testenv.Need(t)
	for _, schema := range []string{"", "own"} {
		owner, role := testenv.Name("owner"), testenv.Name("role")
		url := testenv.Postgres(t)
		admin, err := open.Postgres(t.Context(), tidemill.NewSecret(url), 0)
		if err != nil {
			t.Fatal(err)
		}
		run := func(statements string) {
			t.Helper()
			if _, err := admin.Exec(context.Background(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			run("DROP OWNED BY " + owner + " CASCADE")
			run("DROP OWNED BY " + role)
			run("DROP ROLE " + owner + ", " + role)
			admin.Close()
		})
		grants, err := postgresdb.Grants(schema, owner, role)
		if err != nil {
			t.Fatal(err)
		}
		run(grants)
		as := func(who string) string {
			u := strings.Replace(url, "postgres://postgres@", "postgres://"+who+"@", 1)
			if schema != "" {
				u += "&schema=" + schema
			}
			return u
		}
		if _, err := tryInstance(t, as(role)); tidemill.KindOf(err) != tidemill.Credentials {
			t.Errorf("the program before there are tables: %v; want that it has no right", err)
		}
		newInstance(t, as(owner))
		run(grants) // again, with tables
		i := newInstance(t, as(role))
		id := uuid.New()
		es := []*ledger.Entry{{Key: "k"}}
		refs := []person.Ref{{Project: id, Distinct: "a"}, {Project: id, Distinct: "b"}}
		for _, err := range []error{
			i.log.Begin(t.Context(), es, ledger.Begin{}),
			i.projects.Ensure(t.Context(), project.Project{ID: id, Name: "shop"}, project.Hash{1}),
			i.persons.Apply(t.Context(), []person.Change{{Ref: refs[0], At: time.UnixMilli(1)}}),
			i.persons.Merge(t.Context(), []person.Merge{{Ref: refs[0], Other: "b", At: time.UnixMilli(1)}}, make([]person.Outcome, 1)),
			i.persons.Keep(t.Context(), []person.Merge{{Ref: refs[0], Other: "b", At: time.UnixMilli(1)}}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := i.db.Exec(t.Context(), "CREATE TABLE theirs(a int)"); tidemill.KindOf(err) != tidemill.Credentials {
			t.Errorf("the program makes a table: %v", err)
		}
		if f := rights(t, i.db); f.Verdict != preflight.OK {
			t.Errorf("with all rights: %+v", f)
		}
		run("REVOKE UPDATE ON projects FROM " + role + "; REVOKE USAGE ON SEQUENCE " + dot(schema) + "tidemill_ledger_token FROM " + role)
		if f := rights(t, i.db); f.Verdict != preflight.Fail || !strings.Contains(f.Detail, "lacks UPDATE on projects, USAGE on "+dot(schema)+"tidemill_ledger_token") || !strings.Contains(f.Advice, "tidemill postgres grants") {
			t.Errorf("without two of them: %+v", f)
		}
	}
}

func dot(schema string) string {
	if schema == "" {
		return ""
	}
	return schema + "."
}

func rights(t *testing.T, db *open.PostgresDB) preflight.Finding {
	t.Helper()
	for _, f := range postgresdb.Inspect(t.Context(), db) {
		if f.Check == "postgres: rights" {
			return f
		}
	}
	t.Fatal("nobody looks at the rights")
	return preflight.Finding{}
}
